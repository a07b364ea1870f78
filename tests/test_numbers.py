"""The table of numbers: each number by brute force, and that every surface shows rows of the table."""

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import run_files
from command_line import entered
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.report.card import card
from robustatlas.report.facts import facts_of
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.definitions import deciding_shares, worst_case_points
from robustatlas.report.numbers.headline import choose_headline, headline_of
from robustatlas.report.numbers.number import Numbers, Status
from robustatlas.report.numbers.of_run import numbers_of_run
from robustatlas.report.numbers.of_several import numbers_of_several
from robustatlas.report.numbers.shared import shared_of_runs
from robustatlas.report.numbers.standings import standings_of
from robustatlas.report.page import build_report
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


def written(numbers: Iterable[Interval]) -> set[tuple[str, ...]]:
    """Numbers with their intervals, as people read them."""
    return {tuple(f"{each:z.1f}" for each in (number.value, number.low, number.high)) for number in numbers}


RANGED = re.compile(r"(\d+\.\d) ?%? ?(?:<small>)?\((\d+\.\d) to (\d+\.\d)[;)]")


def ranged(text: str) -> list[tuple[str, ...]]:
    return RANGED.findall(text)


def test_every_surface_shows_rows_of_the_table(tmp_path: Path) -> None:
    results = [mixed("wide", 0.05, 0.8), mixed("narrow", 0.03, 0.9, seed=1)]
    folders = [run_files.write(tmp_path / result.name, result) for result in results]
    first, *_ = results
    numbers = numbers_of(first)
    known = written(numbers)
    surfaces = {
        "show": entered("show", folders[0], "--reference", "none", "--explain").out,
        "page": build_report([first], tmp_path / "page.html").read_text(encoding="utf-8"),
        "card": str(card([first], "none")),
        "check": entered("check", folders[0], "--require", "clean>=1", "--reference", "none").out,
    }
    for name, text in surfaces.items():
        shown = ranged(re.sub(r"<script.*?</script>", "", text, flags=re.S))
        assert shown and set(shown) <= known, (name, set(shown) - known)
    rows = list(csv.DictReader(io.StringIO(entered("show", folders[0], "--csv").out)))
    in_csv = {(row["attack"], float(row["strength"])): float(row["accuracy"]) for row in rows}
    table = {(row.attack, row.strength): row.value for row in numbers.select(kinds.ROBUST)}
    assert in_csv == pytest.approx(table | {("clean", 0.0): value(numbers, kinds.CLEAN)})
    told = json.loads(entered("show", folders[0], "--json").out)
    assert told["clean accuracy"]["value"] == value(numbers, kinds.CLEAN)
    assert told["worst case"]["accuracy"]["value"] == value(numbers, kinds.WORST)
    for attack in GRID:
        assert told["attacks"][attack]["median size"] == value(numbers, kinds.MEDIAN, attack)
        accuracies = [entry["value"] for entry in told["attacks"][attack]["accuracy"]]
        assert accuracies == [row.value for row in numbers.select(kinds.ROBUST, attack)]
    entered("export", folders[0], "--to", "evidence", "--output", tmp_path / "evidence.json")
    evidence = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    assert evidence["clean_accuracy"] == value(numbers, kinds.CLEAN)


def test_every_comparison_shows_rows_of_the_table(tmp_path: Path) -> None:
    results = [mixed("wide", 0.05, 0.8), mixed("narrow", 0.03, 0.9, seed=1)]
    folders = [run_files.write(tmp_path / result.name, result) for result in results]
    several = numbers_of_several(shared_of_runs([load_result(folder) for folder in folders]))
    rows = [number for model in several.models for number in model.numbers.values()]
    alone = [number for result in results for number in numbers_of(result)]
    gaps = [difference for pair in several.pairs for difference in pair.differences.values()]
    assert written(rows) <= written(alone), "what runs share is everything, so the numbers are those of each alone"
    text = entered("compare", *folders, "--reference", "none", columns=120).out
    shown = set(ranged(re.sub(r"[+-](\d+\.\d) \(.*?\)", "", text)))
    assert shown and shown <= written(rows)
    told: dict[str, Any] = json.loads(entered("compare", *folders, "--reference", "none", "--json").out)
    for model, ours in zip(told["models"], several.models, strict=True):
        assert {label: one["value"] for label, one in model["numbers"].items()} == {
            label: number.value for label, number in ours.numbers.items()
        }
    assert [one["value"] for one in told["pairs"][0]["differences"].values()] == [gap.value for gap in gaps]
    page = build_report(results, tmp_path / "page.html").read_text(encoding="utf-8")
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert set(ranged(body)) <= written(alone)


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
