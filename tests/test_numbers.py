"""The table of numbers: each number by brute force, and that every surface shows rows of the table."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import robustatlas as ra
import run_files
from command_line import entered
from robustatlas.metrics.intervals import proportion_interval
from robustatlas.report.facts import facts_of
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.definitions import deciding_shares, worst_case_points
from robustatlas.report.numbers.headline import choose_headline, headline_of
from robustatlas.report.numbers.number import Numbers, Status
from robustatlas.report.numbers.of_run import numbers_of_run
from robustatlas.report.numbers.of_several import numbers_of_several
from robustatlas.report.numbers.shared import shared_of_runs
from robustatlas.report.numbers.standings import standings_of
from robustatlas.results.result import Result, load_result

GRID = {"linf": [4 / 255, 8 / 255, 16 / 255], "l2": [0.25, 0.5, 1.0]}
SIZES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 0.02, 0.04, np.inf]), st.sampled_from([0.0, 0.2, 0.4, 0.8, np.inf])),
    min_size=1,
    max_size=9,
)


def run_of(pairs: Iterable[tuple[float, float]], name: str = "net", data: str = "cifar10") -> Result:
    """A run of both attacks on samples of these sizes; an image that is wrong without a change is so for both."""
    found = [(0.0, 0.0) if 0.0 in pair else pair for pair in pairs]
    linf, l2 = np.array(found).T
    wrong = (linf == 0).astype(int)
    return Result.from_arrays(np.zeros(len(found)), wrong, {"linf": linf, "l2": l2}, GRID, model=name, data=data)


def numbers_of(result: Result) -> Numbers:
    return numbers_of_run(result, worst_case_points(result))


def value(numbers: Numbers, what: str, attack: str | None = None) -> float:
    (row,) = numbers.select(what, attack)
    return row.value


@given(SIZES)
@settings(max_examples=60, deadline=None)
def test_numbers_are_those_of_counting(pairs: list[tuple[float, float]]) -> None:
    result = run_of(pairs)
    numbers = numbers_of(result)
    sizes = {attack: result.minimal_size(attack).tolist() for attack in GRID}
    samples = len(pairs)
    left = {
        (attack, at): 100 * sum(size > at * (1 + 1e-9) for size in sizes[attack]) / samples
        for attack, grid in GRID.items()
        for at in grid
    }
    assert {(row.attack, row.strength): row.value for row in numbers.select(kinds.ROBUST)} == pytest.approx(left)
    assert value(numbers, kinds.CLEAN) == pytest.approx(100 * sum(size > 0 for size in sizes["linf"]) / samples)
    assert value(numbers, kinds.MEAN) == pytest.approx(sum(left.values()) / 6)
    for attack, grid in GRID.items():
        mean = sum(left[attack, at] for at in grid) / 3
        assert value(numbers, kinds.MEAN_OF_ATTACK, attack) == pytest.approx(mean)
        right = sorted(size for size in sizes[attack] if size > 0)
        half = right[(len(right) + 1) // 2 - 1] if right else 0.0
        assert value(numbers, kinds.MEDIAN, attack) == half
    at = {"linf": 8 / 255, "l2": 0.5}
    broken = {attack: [0 < size <= at[attack] for size in sizes[attack]] for attack in GRID}
    standing = [sizes["linf"][k] > 0 and not broken["linf"][k] and not broken["l2"][k] for k in range(samples)]
    assert value(numbers, kinds.WORST) == pytest.approx(100 * sum(standing) / samples)
    alone = {
        one: 100 * sum(a and not b for a, b in zip(broken[one], broken[other], strict=True)) / samples
        for one, other in (("linf", "l2"), ("l2", "linf"))
    }
    assert deciding_shares(result, at) == pytest.approx(alone)


def mixed(name: str, linf: float, l2: float, samples: int = 200, seed: int = 0, data: str = "cifar10") -> Result:
    draws = np.random.default_rng(seed).exponential(1.0, (samples, 2)) * [linf, l2]
    return run_of([(0.0, 0.0) if k % 20 == 0 else tuple(draw) for k, draw in enumerate(draws)], name, data)


@pytest.mark.parametrize(
    ("data", "linf", "l2", "at", "why"),
    [
        ("cifar10", 0.05, 0.8, {"linf": 8 / 255, "l2": 0.5}, "usual strengths"),
        ("imagenet", 0.05, 0.8, {"linf": 4 / 255}, "usual strength for"),
        ("mnist", 0.05, 0.8, {}, "not searched"),
        ("digits", 0.05, 0.8, {}, "no benchmark"),
        ("cifar10", 1e-4, 1e-3, {}, "less than 5%"),
    ],
)
def test_the_headline_stands_where_benchmarks_give_accuracies(
    data: str, linf: float, l2: float, at: dict[str, float], why: str
) -> None:
    result = mixed("net", linf, l2, data=data)
    choice = choose_headline([result])
    assert choice.at == at and why in choice.why
    first = headline_of(numbers_of(result), choice)
    assert first is not None and first.is_mean == (not at)
    assert not at or {number.attack: number.strength for number in first.numbers} == at
    assert first.leading.what == (kinds.ROBUST if at else kinds.MEAN)


@pytest.mark.parametrize(
    ("others", "robust_leader", "is_mean"),
    [
        ([(0.02, 0.3)], 0, False),  # behind under both norms
        ([(0.2, 0.3)], None, False),  # ahead under one norm, behind under the other
        ([(0.0501, 0.801)], None, True),  # nobody is told apart at a usual strength
    ],
)
def test_most_robust_is_ahead_under_every_headline_attack(
    others: list[tuple[float, float]], robust_leader: int | None, is_mean: bool
) -> None:
    results = [mixed("net", 0.05, 0.8), *(mixed(f"net-{k}", *scales) for k, scales in enumerate(others))]
    standings = standings_of(numbers_of_several(shared_of_runs(results)))
    assert standings.robust_leader == robust_leader and standings.is_mean == is_mean
    assert is_mean or [contest.label for contest in standings.headlines] == ["L∞ at 8/255", "L2 at 0.5"]


def test_ahead_needs_a_corrected_p_value_and_an_interval_that_agree() -> None:
    results = [
        mixed(name, 0.05 * scale, 0.8, seed=seed) for name, scale, seed in (("a", 1, 0), ("b", 1.2, 1), ("c", 2, 2))
    ]
    for pair in numbers_of_several(shared_of_runs(results)).pairs:
        for label, difference in pair.differences.items():
            leader = pair.leader(label)
            assert (leader is not None) == (pair.p_values[label] < 0.05 and difference.excludes(0))
            assert leader is None or (leader == pair.first) == (difference.value > 0)


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ([(0.01, 9.0)] * 2 + [(9.0, 0.2)] * 2 + [(9.0, 9.0)] * 6, True),  # each attack breaks others
        ([(0.01, 0.2)] * 2 + [(9.0, 0.2)] * 2 + [(9.0, 9.0)] * 6, False),  # one attack breaks all that breaks
    ],
)
def test_a_worst_case_is_shown_only_if_several_attacks_decide_it(
    sizes: list[tuple[float, float]], shown: bool, tmp_path: Path
) -> None:
    folder = run_files.write(tmp_path / "run", run_of(sizes))
    assert ("Worst case over attacks" in entered("show", folder).line) == shown


def test_status_is_no_part_of_a_name(tmp_path: Path) -> None:
    folder = run_files.write(tmp_path / "run", mixed("net", 0.05, 0.8), blind=["linf"])
    numbers = numbers_of_run(load_result(folder), {"linf": 8 / 255, "l2": 0.5})
    status = {(row.what, *row.at): row.status for row in numbers}
    assert status[kinds.CLEAN,] is Status.OK and status[kinds.MEAN, "linf", "l2"] is Status.UPPER_BOUND
    assert status[kinds.MEDIAN, "linf"] is Status.UPPER_BOUND and status[kinds.MEDIAN, "l2"] is Status.OK
    assert {row.model for row in numbers} == {"net"}


def test_an_exact_share_has_its_exact_interval() -> None:
    result = mixed("net", 0.05, 0.8)
    facts = facts_of(result)
    standing = int(result.survivors({"linf": 8 / 255}).sum())
    assert facts.headline is not None
    assert facts.headline.numbers[0].interval == proportion_interval(standing, 200, 0.95)


def test_python_compares_and_checks_as_the_command_line(tmp_path: Path) -> None:
    folders = [run_files.write(tmp_path / name, mixed(name, scale, 0.8)) for name, scale in (("b", 0.05), ("a", 0.02))]
    found = ra.compare(folders, "none")
    assert json.loads(found.json()) == json.loads(entered("compare", *folders, "--reference", "none", "--json").out)
    assert [model.table.name for model in found.numbers.models] == ["b", "a"], "in the order that was typed"
    assert found.table.select(kinds.CLEAN)[0].value == value(numbers_of(load_result(folders[0])), kinds.CLEAN)
    require = ["clean>=50", "clean>=95", "linf@8/255>=99"]
    checks = ra.check(folders[0], require, reference="none")
    printed = entered("check", folders[0], *(word for text in require for word in ("--require", text)), code=3).line
    assert [check.decision.value for check in checks] == ["kept", "not decided", "not kept"]
    assert all(f"{check.decision.value} {check.name}: {check.sentence}" in printed for check in checks)
