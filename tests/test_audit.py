"""Audits: a random part of the samples searched again, kept beside the run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.evaluation import auditing
from robustatlas.evaluation.auditing import search_again
from robustatlas.optimizers.pgd import PGD

DATA = ra.load_dataset("digits")
MODEL = ra.load_model("builtin:digits-standard")


@pytest.fixture
def strong_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the other kinds one that is fast."""
    strong = replace(attack_named("fmn-linf"), name="fmn-linf")
    monkeypatch.setattr(auditing, "_attacks_of_threat", lambda attack: [strong] if attack.name == "pgd-linf" else [])


def weak(samples: int, **options: object) -> ra.Result:
    """By an attack of one short step."""
    attack = Attack("pgd-linf", attack_named("pgd-linf").threat, (AttackRun(PGD(1, rate=0.3), "margin"),), (0.05, 0.1))
    return ra.evaluate(MODEL, DATA, attack, samples=samples, diagnose=False, progress=False, **options)  # type: ignore[arg-type]


def test_an_audit_says_what_a_dear_search_of_all_finds(strong_only: None, tmp_path: Path) -> None:
    result = weak(40, run=tmp_path / "run")
    before = result.minimal_size("pgd-linf").copy()
    found = search_again(result, MODEL, DATA, 20)
    told = found.audited("pgd-linf")
    assert np.array_equal(found.minimal_size("pgd-linf"), before)
    everything = ra.evaluate(MODEL, DATA, "fmn-linf", strengths={"fmn-linf": [0.05, 0.1]}, samples=40, diagnose=False)
    truth = everything.accuracies().values("fmn-linf")
    assert told.audited == 20 and (told.low <= truth + 2).all() and (truth - 2 <= told.high).all()
    assert told.estimate[1] < told.found[1] - 5
    loaded = ra.load_result(tmp_path / "run")
    assert np.array_equal(loaded.audited("pgd-linf").estimate, told.estimate)
    assert any(said.startswith("†") and "pgd-linf" in said for said in loaded.warnings)


def test_a_large_difference_is_a_flag_with_the_remedy_by_its_kind(strong_only: None, tmp_path: Path) -> None:
    weak(40, run=tmp_path / "run")
    ra.diagnose(tmp_path / "run", DATA, model=MODEL, samples=40)
    before = ra.load_result(tmp_path / "run").diagnosis
    assert before is not None and before.verdict == "sound"
    after = search_again(ra.load_result(tmp_path / "run"), MODEL, DATA, 30).diagnosis
    assert after is not None and (after.verdict, after.flags) == ("doubtful", ("audit pgd-linf",))
    kinds = ("Evaluate all samples by fmn-linf as well", "Evaluate all samples at high effort (effort='high')")
    assert after.indicators[-1].remedy in kinds


def test_the_choice_does_not_depend_on_the_order(strong_only: None) -> None:
    index = np.arange(40)
    one, two = (auditing._audit_positions(given, 10, 3) for given in (index, index[::-1]))
    assert np.array_equal(one, two) and len(set(one.tolist())) == 10
    assert not np.array_equal(one, auditing._audit_positions(index, 10, 4))


def test_by_default_where_it_costs_at_most_a_tenth_of_the_run() -> None:
    assert not weak(20).audit_sentences()
    data = (DATA.images.repeat(8, 1, 1, 1), DATA.labels.repeat(8))
    many = {"attacks": "rotation", "diagnose": False, "progress": False}
    assert ra.evaluate(MODEL, data, **many).audited("rotation").audited == 50
    assert not ra.evaluate(MODEL, data, audit=0, **many).audit_sentences()


def test_the_command(strong_only: None, tmp_path: Path) -> None:
    run = tmp_path / "run"
    given = ["--data", "digits", "--samples", "12", "--attacks", "brightness", "--run", run, "--no-diagnose"]
    entered("evaluate", "builtin:digits-standard", *given)
    assert "audit of 5" in entered("audit", run, "--samples", 5).out
    with pytest.raises(ra.UserError, match="was not audited"):
        weak(5).audited("pgd-linf")
