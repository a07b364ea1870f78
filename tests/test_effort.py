"""Efforts: one rule for all attacks, recorded, and never mixed with another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Stage
from robustatlas.attacks.effort import at_effort

NINE = 9


def steps_of(stages: tuple[Stage, ...]) -> int:
    return sum((stage.optimizer.steps + 1) * stage.runs(NINE + 1) for stage in stages)


def test_the_default_is_the_attack_itself() -> None:
    for attack in catalogue().values():
        assert at_effort(attack, "default") is attack


def test_low_is_about_half_and_high_about_five_times_the_work_of_the_stages() -> None:
    for name in ("linf", "l2", "l1", "l0", "elastic", "gabor", "lpips", "patch"):
        attack = attack_named(name)
        low, high = (at_effort(attack, effort) for effort in ("low", "high"))
        for part in ("bound", "minimum", "descent", "closing", "polish", "stages"):
            usual = getattr(attack, part)
            if usual:
                work = [steps_of(getattr(each, part)) / steps_of(usual) for each in (low, high)]
                assert 0.3 <= work[0] <= 0.75 and 2.9 <= work[1] <= 6, (name, part, work)


def test_high_keeps_every_stage_of_the_default_in_its_order() -> None:
    """Only that its hops go on for longer where they find nothing."""
    for name, attack in catalogue().items():
        high = at_effort(attack, "high")
        for part in ("stages", "bound", "closing", "polish"):
            usual = [replace(s, fruitless=3 * s.fruitless) if s.kick else s for s in getattr(attack, part)]
            assert [stage for stage in getattr(high, part) if stage in usual] == usual, name


def test_every_attack_of_the_catalogue_has_all_efforts() -> None:
    for name, attack in catalogue().items():
        for effort in ("low", "high"):
            changed = at_effort(attack, effort)
            assert changed.effort == effort and changed.valid_searches == attack.valid_searches, name


@pytest.fixture(scope="module")
def digits() -> tuple[ra.Classifier, ra.Dataset]:
    return ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(3)


def test_it_is_recorded_and_a_run_holds_efforts_apart(digits, tmp_path: Path) -> None:
    model, data = digits
    found = {}
    for effort in ("low", "default"):
        asked = {"strengths": {"l2": [0.5, 1.0]}, "effort": effort, "run": tmp_path / "run", "progress": False}
        found[effort] = ra.evaluate(model, data, "l2", **asked)
    assert found["low"].outcome("l2").origins == ("descent, low effort, seed 0",)
    both = ra.load_result(tmp_path / "run")
    assert len(both.records) == 2
    assert [record.procedure.get("effort") for record in both.records.values()].count("low") == 1
    assert both.outcome("l2").origins == ("descent, low effort, seed 0", "descent, seed 0")
    assert sum(found["low"].passes("l2")) < sum(both.passes("l2"))


def test_high_finds_no_larger_sizes_for_more_passes(digits) -> None:
    model, data = digits
    sizes, passes = {}, {}
    for effort in ("low", "default", "high"):
        result = ra.evaluate(model, data, "linf", strengths={"linf": [0.1, 0.2]}, effort=effort, progress=False)
        sizes[effort], passes[effort] = result.minimal_size("linf"), sum(result.passes("linf"))
    assert passes["low"] < 0.75 * passes["default"] and passes["high"] > 3 * passes["default"]
    assert np.mean(sizes["high"]) <= np.mean(sizes["default"]) * 1.001 <= np.mean(sizes["low"]) * 1.002


def test_published_procedures_and_unknown_efforts_are_refused(digits) -> None:
    model, data = digits
    with pytest.raises(ra.UserError, match="effort='high' is not for procedure='paper'"):
        ra.evaluate(model, data, "linf", procedure="paper", effort="high", progress=False)
    with pytest.raises(ra.UserError, match="effort='max' is not known; expected one of 'low', 'default', 'high'"):
        ra.evaluate(model, data, "linf", effort="max", progress=False)  # type: ignore[arg-type]
