"""``robustatlas check``: bounds, comparisons with an earlier version, and the forms that pipelines read."""

import html
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import binomtest

import robustatlas as ra
from command_line import entered
from robustatlas.metrics import proportion_interval
from robustatlas.report.facts import facts_of
from robustatlas.report.gate import (
    FORMATS,
    Check,
    Decision,
    Requirement,
    check_against,
    check_requirements,
    overall_sentence,
)
from robustatlas.report.page import build_report

STRENGTHS = {"linf": [0.1, 0.2, 0.3]}


def result(sizes: Any, name: str = "net", clean: Any = None) -> ra.Result:
    """A model whose samples break at these sizes; 0 is misclassified clean."""
    sizes = np.asarray(sizes, float)
    return ra.Result.from_arrays(
        np.zeros(len(sizes), int), (sizes == 0).astype(int), {"linf": sizes}, STRENGTHS, model=name
    )


SIZES = [0.0] * 10 + [0.15] * 30 + [np.inf] * 60


def verdict(text: str, of: ra.Result, **options: Any) -> Check:
    return check_requirements([Requirement.parse(text)], of, facts_of(of), **options)[0]


@pytest.mark.parametrize(
    ("text", "by_interval", "by_value"),
    [
        ("clean>=90", False, True),
        ("clean>=82", True, True),
        ("linf@0.1>=82", True, True),
        ("linf@0.12>=82", False, False),  # nobody searched there, and 0.2 leaves 60
        ("linf@0.12>=49", True, True),
        ("linf@0.12<=96", True, True),
        ("linf@0.12<=90", False, True),
        ("linf@0.4>=1", False, False),
        ("linf@0.4<=70", True, True),
        ("linf@0.2>=60", False, True),
        ("linf@1/5>=49", True, True),
        ("linf@0.2>=60.5", False, False),
        ("linf@0.3<=70", True, True),
        ("linf@0.3<=60", False, True),
        ("average>=60", True, True),
        ("median-linf>=0.1", True, True),
    ],
)
def test_the_whole_interval_has_to_keep_a_bound_unless_values_are_judged(
    text: str, by_interval: bool, by_value: bool
) -> None:
    net = result(SIZES)
    assert verdict(text, net).passed == by_interval
    assert verdict(text, net, judged="value").passed == by_value


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("clean>=80", Decision.KEPT),
        ("clean>=90", Decision.NOT_DECIDED),  # the bound lies within the interval
        ("clean>=99", Decision.NOT_KEPT),
        ("linf@0.12>=82", Decision.NOT_DECIDED),  # nobody searched there
        ("linf@0.4>=99", Decision.NOT_KEPT),  # the sizes found rule it out
    ],
)
def test_a_bound_within_the_interval_is_not_decided(text: str, decision: Decision, tmp_path: Path) -> None:
    net = result(SIZES)
    check = verdict(text, net)
    assert check.decision is decision
    page = build_report([net], tmp_path / "page.html", requirements=[Requirement.parse(text)])
    said = html.unescape(page.read_text(encoding="utf-8"))
    assert check.sentence in said and overall_sentence([check]) in said, "the page says what check says"


def test_the_interval_is_the_exact_one() -> None:
    low = proportion_interval(60, 100, 0.95).low
    assert verdict(f"linf@0.2>={low - 1e-6}", result(SIZES)).passed
    assert not verdict(f"linf@0.2>={low + 1e-6}", result(SIZES)).passed


def test_a_model_without_gradients_keeps_no_bound(tmp_path: Path) -> None:
    net = ra.load_model("builtin:digits-linf").net
    masked = ra.Classifier(net, prepare=lambda x: (x * 4).round() / 4)
    with pytest.warns(ra.RobustnessWarning):
        found = ra.evaluate(masked, ra.load_dataset("digits"), "linf", strengths={"linf": [0.2]}, samples=20)
    assert found.accuracies().values("linf")[0] >= 90
    check = verdict("linf@0.2>=10", found)
    assert not check.passed and "missing or misleads" in check.sentence
    assert verdict("clean>=10", found).passed
    clean, under = check_against(found, found, 0.0)
    assert clean.passed and not under.passed and "proves nothing" in under.sentence


def test_a_drop_counts_where_the_exact_paired_test_tells_it_from_chance() -> None:
    old = result(SIZES, "old")
    sizes = np.array(SIZES)
    sizes[95:] = 0.25
    few = {check.name: check for check in check_against(result(sizes, "new"), old, 1.0)}
    assert few["clean against old"].passed and few["linf against old"].passed  # 5 to 0: p = .06, and four tests
    assert not check_against(result(sizes, "new"), old, 1.0, "value")[1].passed
    sizes[88:] = 0.25
    many = check_against(result(sizes, "new"), old, 1.0)
    assert [check.passed for check in many] == [True, False]
    p = 4 * binomtest(0, 12).pvalue  # Holm, of clean and three strengths
    assert f"p = {p:.2g}" in many[1].sentence and "12.00 points at 0.3" in many[1].sentence
    assert all(check.passed for check in check_against(result(sizes, "new"), old, 12.0))
    assert all(check.passed for check in check_against(old, result(sizes, "new"), 0.0))


def test_forms_say_the_same() -> None:
    checks = [
        Check("clean>=90", Decision.KEPT, "clean is 95."),
        Check("a|b>=<c>", Decision.NOT_KEPT, "a & b\nis 3 | 4."),
    ]
    suite = ElementTree.fromstring(FORMATS["junit"](checks, "runs/x"))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["a|b>=<c>"]
    rows = FORMATS["markdown"](checks, "runs/x").splitlines()
    assert rows[0] == "## robustatlas check runs/x: No go: 1 of 2 checks is not kept."
    assert rows[-1].count("|") - rows[-1].count("\\|") == 4


def test_the_exit_code_is_the_verdict(copied_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copied_run.parent)
    line = "check run --require clean>=1 --junit j.xml --markdown m.md"
    assert "Go: the check is kept." in entered(*line.split()).out
    failed = entered(*["check", "run", "--require", "clean>=100.1", "--markdown", "m.md"], code=3)
    assert "clean>=100.1" in failed.out
    assert Path("m.md").read_text().count("## robustatlas check run") == 2
    assert ElementTree.parse("j.xml").getroot().get("failures") == "0"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("linf@0.2>=0.45", "linf@0.2>=45"),
        ("clean>=0.9", "clean>=90"),
        ("average<=1/2", "average<=50"),
        ("union>=0.333", "union>=33.3"),
        ("cr>=0.5", "cr>=50"),
        ("uar>=0.5", "uar>=50"),
        ("cr-ind-worst>=0.5", "cr-ind-worst>=50"),
    ],
)
def test_a_fraction_where_percent_are_expected_is_refused(text: str, meant: str) -> None:
    with pytest.raises(ra.UserError, match=meant):
        verdict(text, result(SIZES))


@pytest.mark.parametrize("text", ["median-linf>=0.1", "clean>=1", "linf@0.3>=0", "linf@0.3<=45.5"])
def test_a_bound_that_may_be_meant_is_not(text: str) -> None:
    assert verdict(text, result(SIZES)).sentence
    with pytest.raises(ra.UserError, match="ah-linf"):
        verdict("ah-linf>=0.5", result(SIZES))


def test_strengths_in_levels_are_named_as_they_are_meant() -> None:
    net = result(SIZES)
    with pytest.raises(ra.UserError, match="8/255"):
        verdict("linf@8>=45", net)
    beyond = verdict("linf@100/255>=45", net)
    assert not beyond.passed and "linf=100/255" in beyond.sentence
    with pytest.raises(ra.UserError, match="8/255"):
        facts_of(net, union={"linf": 8.0})
    with pytest.raises(ra.UserError, match=r"linf=8/255: .* 0\.1"):
        facts_of(net, union={"linf": 8 / 255})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("clean", "clean"),
        ("clean>=many", "clean>=many"),
        ("cleen>=1", "did you mean 'clean'"),
        ("linf@x>=1", "linf@x"),
        ("l7@1>=1", "l7"),
        ("cr>=1", "--reference"),
    ],
)
def test_a_bound_that_cannot_be_judged_is_named(text: str, named: str) -> None:
    with pytest.raises(ra.UserError, match=named):
        verdict(text, result(SIZES))
