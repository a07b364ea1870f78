"""Efforts: one rule for all attacks, recorded, and never mixed with another."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra
from helpers_core import plans_of
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import AttackRun, scale_effort
from robustatlas.attacks.search.rules import MostPasses, StopFruitless, StopLaggingRuns, StopSlowAscents

NINE = 9


def work_of(runs: Iterable[AttackRun]) -> int:
    return sum((run.optimizer.steps + 1) * run.runs_among(NINE + 1) for run in runs)


def test_the_default_is_the_attack_itself() -> None:
    for attack in catalogue().values():
        assert scale_effort(attack, "default") == attack


def test_low_is_about_half_and_high_about_five_times_the_work_of_the_runs() -> None:
    for name in ("linf", "l2", "l1", "l0", "elastic", "gabor", "lpips", "patch"):
        attack = attack_named(name)
        low, high = (scale_effort(attack, effort) for effort in ("low", "high"))
        for search, plan in plans_of(attack).items():
            if search == "frontier":  # whose runs are lengthened, not added
                continue
            for roles in (("bound", "restart"), ("ascend",), ("refine",)):
                if usual := plan.runs_in(*roles):
                    work = [work_of(each.plan(search).runs_in(*roles)) / work_of(usual) for each in (low, high)]
                    assert 0.3 <= work[0] <= 0.75 and 2.9 <= work[1] <= 6, (name, search, roles, work)


def test_high_keeps_every_run_of_the_default_in_its_order() -> None:
    for name, attack in catalogue().items():
        high = scale_effort(attack, "high")
        for search, plan in plans_of(attack).items():
            if search != "frontier":
                assert [run for run in high.plan(search).runs if run in plan.runs] == list(plan.runs), (name, search)


def test_high_ends_nothing_for_lagging_a_little_and_leaves_no_kind_out() -> None:
    rules = {search: {type(rule) for rule in plan.rules} for search, plan in plans_of(attack_named("linf")).items()}
    high = plans_of(scale_effort(attack_named("linf"), "high"))
    for search in ("descent", "minimum"):
        left_out = {StopSlowAscents, MostPasses} if search == "descent" else {StopSlowAscents}
        assert rules[search] - {type(rule) for rule in high[search].rules} == left_out
        lagging, fruitless = high[search].rule(StopLaggingRuns), high[search].rule(StopFruitless)
        usual = attack_named("linf").plan(search)
        assert lagging is not None and fruitless is not None
        assert lagging.times > usual.rule(StopLaggingRuns).times  # type: ignore[union-attr]
        assert fruitless.patience == 3 * usual.rule(StopFruitless).patience  # type: ignore[union-attr]


def test_high_does_not_repeat_what_begins_at_one_point() -> None:
    usual, more = scale_effort(attack_named("recolor"), "high").plan("descent").runs_in("restart")[:2]
    assert more.count == usual.count
    assert more.optimizer.steps == 2 * usual.optimizer.steps


def test_every_attack_of_the_catalogue_has_all_efforts() -> None:
    for name, attack in catalogue().items():
        for effort in ("low", "high"):
            changed = scale_effort(attack, effort)
            assert changed.searches == attack.searches, name


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
    assert sorted(record.effort for record in both.records.values()) == ["", "low"]
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


def test_published_protocols_and_unknown_efforts_are_refused(digits) -> None:
    model, data = digits
    with pytest.raises(ra.UserError, match="effort='high'"):
        ra.evaluate(model, data, "linf", protocol="paper", effort="high", progress=False)
    with pytest.raises(ra.UserError, match="effort='max'"):
        ra.evaluate(model, data, "linf", effort="max", progress=False)  # type: ignore[arg-type]
