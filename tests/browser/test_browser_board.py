"""Recipes of several trainings on a board, the runs beside the field, and the height of one's own row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from browser.browser_helpers import exported, without_plots
from robustatlas.metrics.competitiveness import competitiveness_ratio
from robustatlas.metrics.references import Reference
from robustatlas.metrics.stability import stability_constant
from robustatlas.metrics.uar import mean_uar
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.leaderboard import MOST_BESIDE, build_leaderboard
from robustatlas.results.result import Result

Visit = Callable[..., Any]
GRID = {"linf": [0.01, 0.02], "l2": [0.1, 0.2]}
REFERENCE = Reference(
    "small", "made up", AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 79.0}, "l2": {0.1: 77.0, 0.2: 70.0}}),
    ranked=("linf", "l2"),
)  # fmt: skip
RECIPES = {"weak": 0.8, "middle": 1.0, "strong": 1.6}


def training(recipe: str, seed: int) -> Result:
    generator = np.random.default_rng(10 * len(recipe) + seed)
    labels = np.zeros(400, int)
    sizes = {attack: generator.uniform(0, RECIPES[recipe] * 2 * grid[-1], 400) for attack, grid in GRID.items()}
    predictions = generator.choice(2, 400, p=[0.9, 0.1])
    sizes = {attack: np.where(predictions == labels, found, 0) for attack, found in sizes.items()}
    return Result.from_arrays(labels, predictions, sizes, GRID, model=f"{recipe}-seed{seed}")


@pytest.fixture(scope="module")
def trainings() -> dict[str, list[Result]]:
    return {recipe: [training(recipe, seed) for seed in range(3)] for recipe in RECIPES}


@pytest.fixture(scope="module")
def recipes(trainings: dict[str, list[Result]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [run for each in trainings.values() for run in each]
    about = {run.name: {"trained_on": {"linf": 0.01}} for run in runs}
    return without_plots(build_leaderboard(runs, tmp_path_factory.mktemp("recipes"), REFERENCE, about))


@pytest.mark.parametrize(
    ("address", "kind", "attacks"),
    [
        ("", "ind-avg", ["linf", "l2"]),
        ("#board=worst&attacks=l2", "ind-worst", ["l2"]),
        ("#board=worst&ratios=aggregated", "max", ["linf", "l2"]),
        ("#ratios=aggregated&attacks=linf", "exp", ["linf"]),
    ],
)
def test_rows_of_recipes_equal_python(
    address: str, kind: Any, attacks: list[str], recipes: Path, trainings: dict[str, list[Result]], look: Visit
) -> None:
    found = exported(look(recipes, address))
    assert found["kind"] == kind
    means = {}
    for row in found["rows"]:
        tables = [run.accuracies() for run in trainings[row["name"]]]
        ratios = [competitiveness_ratio(table, REFERENCE, kind=kind, attacks=attacks) for table in tables]
        low, high = scipy.stats.t.interval(0.95, 2, np.mean(ratios), scipy.stats.sem(ratios))
        assert (row["cr"], *row["crInterval"]) == pytest.approx((np.mean(ratios), max(low, 0), high), rel=1e-6)
        assert row["uar"] == pytest.approx(np.mean([mean_uar(table, REFERENCE, attacks) for table in tables]))
        constants = [stability_constant(table, REFERENCE, {"linf": 0.01}, attacks=attacks) for table in tables]
        known = all(one.pair for one in constants)
        assert row["sc"] == (pytest.approx(np.mean([one.value for one in constants])) if known else None)
        assert row["trainings"] == [run.name for run in trainings[row["name"]]]
        means[row["name"]] = np.mean(ratios)
    assert [row["name"] for row in found["rows"]] == sorted(RECIPES, key=lambda name: -means[name])


def test_a_recipe_opens_to_its_trainings(recipes: Path, visit: Visit) -> None:
    page = visit(recipes)
    names = "[...document.querySelectorAll('#board > tbody > tr:not(.detail) th')].map((th) => th.dataset.name)"
    assert page.evaluate(names) == ["strong", "middle", "weak"]
    page.click('button[aria-label="Details of middle"]')
    opened = ["strong", "middle", *(f"middle-seed{seed}" for seed in range(3)), "weak"]
    assert page.evaluate(names) == opened
    assert page.locator("#board tr.training input").evaluate_all("all => all.every((box) => box.hidden)")
    page.click('button[aria-label="Details of middle-seed1"]')
    assert page.locator("#board tr.detail").count() == 2
    page.click('button[aria-label="Details of middle"]')
    assert page.evaluate(names) == ["strong", "middle", "weak"]


def test_the_visitors_ranking_decides_who_stands_beside_the_field(tmp_path: Path, visit: Visit) -> None:
    """Runs that are the better under linf the worse they are under l2."""
    grid, labels, count = {"linf": [4 / 255, 8 / 255], "l2": [0.5, 1.0]}, np.zeros(60, int), MOST_BESIDE + 3
    runs = [
        Result.from_arrays(labels, labels, {"linf": np.linspace(0, (6 + 4 * k) / 255, 60),
                                            "l2": np.linspace(0, 0.8 + 0.3 * (count - k), 60)}, grid,
                           model=f"m{k}", data="cifar10")
        for k in range(count)
    ]  # fmt: skip
    page = visit(without_plots(build_leaderboard(runs, tmp_path, None)), "#attacks=linf")
    shown = (
        "[...new Set([...document.querySelectorAll('.beside > div:not([hidden])')].map((view) => view.dataset.run))]"
    )
    assert page.evaluate(shown) == [f"m{k}" for k in reversed(range(count))][:MOST_BESIDE]
    page.goto(page.url.replace("attacks=linf", "attacks=l2"))
    page.wait_for_function(f"{shown}[0] === 'm0'")
    assert page.evaluate(shown) == [f"m{k}" for k in range(MOST_BESIDE)]


@pytest.mark.parametrize("board", ["site", "recipes", "own_board"])
def test_the_row_of_an_own_run_is_not_high(board: str, request: pytest.FixtureRequest, look: Visit) -> None:
    page = look(request.getfixturevalue(board))
    for width in (641, 768, 900, 1024, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        heights = page.eval_on_selector_all("#own, #board tr.own", "all => all.map((each) => each.offsetHeight)")
        assert len(heights) > 1 and 0 < max(heights) <= 170, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
