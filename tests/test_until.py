"""Evaluations that end when enough is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from helpers_core import brief
from robustatlas.attacks.catalogue import attack_named
from robustatlas.outcomes import merge
from robustatlas.report.facts import facts_of

LINF = brief(attack_named("linf"), [0.05, 0.15])
DIGITS = ra.load_dataset("digits").take(300)


def until(width: Any, **options: Any) -> Any:
    model = ra.load_model("builtin:digits-linf")
    return ra.evaluate_until(model, DIGITS, LINF, until=width, **({"progress": False} | options))


@pytest.fixture(scope="module")
def whole() -> ra.Result:
    model = ra.load_model("builtin:digits-linf")
    return ra.evaluate(model, DIGITS, LINF, progress=False)


def test_it_ends_when_all_accuracies_are_known_and_no_sample_depends_on_it(whole: ra.Result) -> None:
    known = until(12.0)
    assert known.enough and known.half_width <= 12.0
    assert 64 <= known.result.samples < known.population == 300
    assert known.saved == 300 - known.result.samples and 0 < known.fixed < known.result.samples
    rows = np.isin(whole.index, known.result.index)
    np.testing.assert_allclose(known.result.minimal_size("linf"), whole.minimal_size("linf")[rows], rtol=1e-4)
    truth = [whole.clean_accuracy, *whole.accuracies().values("linf")]
    for entry, value in zip([known.clean, *known.accuracies["linf"]], truth, strict=True):
        assert entry.low - 1e-9 <= value <= entry.high + 1e-9
    assert len(np.unique(np.diff(known.result.index))) > 3  # in random order, not the first ones


def test_a_narrow_width_takes_all_samples_and_says_so(whole: ra.Result) -> None:
    known = until(0.5, samples=90)
    assert known.result.samples == known.population == 90 and known.half_width == pytest.approx(0)
    assert known.clean.value == pytest.approx(100 * whole.clean[:90].mean())


def test_a_run_that_stopped_says_so_goes_on_and_says_what_is_known_of_all(tmp_path: Path, whole: ra.Result) -> None:
    known = until(15.0, run=tmp_path / "run")
    assert until(15.0, run=tmp_path / "run").result.index.tolist() == known.result.index.tolist()
    shown = facts_of(ra.load_result(tmp_path / "run")).stopped
    assert shown is not None and (shown.samples, shown.population) == (known.result.samples, 300)
    assert "every accuracy was known to 15 points either way" in shown.sentence
    assert [shown.clean, *shown.accuracies["linf"]] == [known.clean, *known.accuracies["linf"]]
    for fixed, anytime in zip(facts_of(known.result).attacks[0].accuracy or (), shown.accuracies["linf"], strict=True):
        assert fixed.value == anytime.value and fixed.high - fixed.low < anytime.high - anytime.low
    further = until(12.0, run=tmp_path / "run")
    assert set(known.result.index) < set(further.result.index)
    assert ra.load_result(tmp_path / "run").samples == further.result.samples
    later = facts_of(ra.load_result(tmp_path / "run")).stopped
    assert later is not None and later.samples == further.result.samples and later.clean == further.clean
    merge([tmp_path / "run"], tmp_path / "joined")
    assert facts_of(ra.load_result(tmp_path / "joined")).stopped == later
    until(0.5, run=tmp_path / "run")
    assert facts_of(ra.load_result(tmp_path / "run")).stopped is None  # it has all samples
    assert facts_of(whole).stopped is None


def test_positions_and_masks_are_positions_of_the_data() -> None:
    mask = np.zeros(300, bool)
    mask[100:200] = True
    for samples in (mask, list(range(100, 200))):
        known = until(20.0, samples=samples)
        assert known.population == 100 and known.result.index.min() >= 100


def test_two_models_are_told_apart(whole: ra.Result) -> None:
    standard = ra.load_model("builtin:digits-standard")
    other = ra.evaluate(standard, DIGITS, LINF, samples=200, progress=False)
    known = until("separated", against=other)
    assert known.enough and known.difference.low > 0 and known.population == 200
    assert known.result.samples < 200
    same = until("separated", against=whole, samples=80)
    assert not same.enough and same.result.samples == 80
    assert same.difference.value == same.difference.low == same.difference.high == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 0}, "percentage points"),
        ({"width": "soon"}, "percentage points"),
        ({"width": "separated"}, "another run"),
        ({"width": 2.0, "against": "nowhere"}, "another run"),
        ({"width": "separated", "against": "nowhere"}, "nowhere"),
    ],
)
def test_what_is_no_end_gets_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        until(**options)


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = "evaluate builtin:digits-linf --data digits --attacks linf --strengths linf=0.1 --threads 1 --run run"
    said = entered(*line.split(), "--until", 12).line
    assert "of 600 searched: every accuracy is known to" in said
    shown = entered("show", "run").line
    assert "of 600, drawn at random, when every accuracy was known to 12 points either way" in shown
    table = "known of all samples %, with intervals that hold together"
    assert said.split(table)[1].split(" linf")[0] in shown.split(table)[1]
    assert "may be higher or lower" in entered(*line.split(), "--until", "separated", "--against", "run").line
    for wrong in (["--until", "soon"], ["--until", "2", "--part", "0/2"], ["--until", "separated"]):
        entered(*line.split(), *wrong, code=1)
