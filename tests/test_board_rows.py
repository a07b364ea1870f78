"""Rows of a board: several trainings as one row, and which runs stand beside the field."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from robustatlas.metrics.competitiveness import competitiveness_ratio
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts.ranks import score_of
from robustatlas.report.facts.rows import About, Row, join_trainings, run_row
from robustatlas.report.leaderboard import BESIDE_CANDIDATES, MOST_BESIDE, build_leaderboard
from robustatlas.results.result import Result

GRID = {"linf": [0.01, 0.02], "l2": [0.1, 0.2]}
REFERENCE = Reference(
    "small", "made up", AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}, "l2": {0.1: 70.0, 0.2: 50.0}}),
    ranked=("linf", "l2"),
)  # fmt: skip


def run(name: str, seed: int, scale: float = 1.0, **more: Any) -> Result:
    generator = np.random.default_rng(seed)
    labels = np.zeros(100, int)
    sizes = {attack: generator.uniform(0, scale * 2 * grid[-1], 100) for attack, grid in GRID.items()}
    return Result.from_arrays(labels, labels, sizes, GRID, model=name, **more)


def rows(*runs: Result) -> list[Row]:
    return [run_row(one, REFERENCE) for one in runs]


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8").split('id="board-data">')[1].split("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found


def test_trainings_of_one_recipe_are_one_row_of_their_means() -> None:
    trainings = [run(f"ours-seed{seed}", seed) for seed in range(3)]
    alone, joined = join_trainings(rows(run("alone-seed0", 9), *trainings))
    assert (alone.name, alone.trainings) == ("alone-seed0", ())
    assert joined.name == "ours" and [row.name for row in joined.trainings] == [one.name for one in trainings]
    assert joined.accuracies.at("linf", 0.01) == pytest.approx(
        np.mean([one.accuracies().at("linf", 0.01) for one in trainings])
    )
    for kind in ("ind-avg", "ind-worst", "exp", "max"):
        ratios = [competitiveness_ratio(one.accuracies(), REFERENCE, kind=kind) for one in trainings]
        number = joined.numbers.find(f"CR {kind}")
        assert number is not None and number.value == pytest.approx(np.mean(ratios))
        low, high = scipy.stats.t.interval(0.95, 2, np.mean(ratios), scipy.stats.sem(ratios))
        assert (number.low, number.high) == pytest.approx((max(low, 0), high))
        if kind == "ind-avg":
            score = score_of(joined, REFERENCE)
            assert score is not None and score[0] == pytest.approx(np.mean(ratios))


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a-seed0", "b-seed0"), ("a-seed0", "a-seed0"), ("a", "a-seed1"), ("seed0", "seed1")]
)
def test_other_runs_keep_rows_of_their_own(names: tuple[str, str]) -> None:
    assert [row.name for row in join_trainings(rows(*(run(name, k) for k, name in enumerate(names))))] == [*names]


def test_runs_described_differently_or_of_other_images_are_no_trainings_of_one_recipe() -> None:
    first, second = rows(run("ours-seed0", 0), run("ours-seed1", 1))
    larger = About(architecture="wide", notes="mine")
    trained = About(trained_on={"linf": 0.01})
    for other in (replace(second, about=larger), replace(second, about=trained), replace(second, samples=50)):
        assert [row.name for row in join_trainings([first, other])] == ["ours-seed0", "ours-seed1"]
    (joined,) = join_trainings([first, replace(second, about=About(title="Seed 1", notes="mine"))])
    assert joined.name == "ours"


def test_a_training_without_a_point_leaves_the_recipe_without_it() -> None:
    partly = replace(run("ours-seed1", 1), outcomes={"linf": run("", 1).outcome("linf")})
    (joined,) = join_trainings(rows(run("ours-seed0", 0), partly))
    assert joined.accuracies.attacks == ("linf",)
    assert score_of(joined, REFERENCE) is None
    assert joined.numbers.find("CR ind-avg") is None


def test_masked_or_suspect_trainings_mark_the_recipe() -> None:
    first, second = rows(run("ours-seed0", 0), run("ours-seed1", 1))
    (joined,) = join_trainings([first, replace(second, invalid={"l2": 0.5}, is_suspect=True)])
    assert joined.invalid == {"l2": 0.5} and joined.label == "ours †"
    (joined,) = join_trainings([replace(first, invalid={"l2": 0.7}), replace(second, invalid={"l2": 0.5, "linf": 0.1})])
    assert joined.invalid == {"l2": 0.7, "linf": 0.1}


def test_a_board_without_a_reference_has_the_worst_case_and_the_mean(tmp_path: Path) -> None:
    """Of two recipes; the worst case is over both attacks at their usual strengths, by brute force."""
    runs = [run(f"{name}-seed{seed}", seed, scale) for name, scale in (("weak", 0.5), ("strong", 2)) for seed in (0, 1)]
    weak, strong = data_of(build_leaderboard(runs, tmp_path, None))["defenses"]
    assert [row["name"] for row in (weak, strong)] == ["weak", "strong"]
    for row, pair in ((weak, runs[:2]), (strong, runs[2:])):
        standing = [100 * np.mean((one.minimal_size("linf") > 0.02) & (one.minimal_size("l2") > 0.2)) for one in pair]
        assert row["union"] == pytest.approx(np.mean(standing))
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r"<tr><td>(\d)</td><td>(\w+)</td>", page) == [("1", "strong"), ("2", "weak")]


def test_beside_the_field_stand_the_runs_that_rank_best(tmp_path: Path) -> None:
    grid = {"linf": [4 / 255, 8 / 255, 16 / 255]}
    labels = np.zeros(900, int)
    count = BESIDE_CANDIDATES + 2
    runs = [
        Result.from_arrays(
            labels, labels, {"linf": np.linspace(0, (4 + 2 * k) / 255, 900)}, grid, model=f"m{k}", data="cifar10"
        )
        for k in range(count)
    ]
    page = build_leaderboard(runs, tmp_path, None).read_text()
    names = re.findall(r'<div data-run="(m\d+)"( hidden)?>', page)
    assert [name for name, _ in names] == [f"m{k}" for k in reversed(range(2, count))]
    assert [bool(hidden) for _, hidden in names] == [k >= MOST_BESIDE for k in range(BESIDE_CANDIDATES)]
