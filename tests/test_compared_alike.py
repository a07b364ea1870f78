"""What is compared is computed on what is shared, else it says of what it is; a board says against what it holds."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import AccuracyStatistics, confidence_intervals
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.metrics.stability import stability_constant
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts import facts_of, shared_of_runs
from robustatlas.report.facts.rows import About, Ground, Row, run_row
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.numbers.number import WORST
from robustatlas.report.numbers.shared import distinct_names
from robustatlas.report.page import build_report
from robustatlas.report.words import headline, percent
from robustatlas.results.result import Result

GRID = {"linf": [0.1, 0.2], "l2": [0.5, 1.0], "l1": [2.0]}


def result(name: str, attacks: tuple[str, ...], index: np.ndarray, scale: float = 1.0, seed: int = 0) -> Result:
    """Sizes that each image has by itself, whatever other images a run has."""
    drawn = np.random.default_rng(seed).uniform(0.05, 1.5, (600, len(GRID)))[index]
    wrong = index % 10 == 0
    sizes = {a: np.where(wrong, 0.0, scale * GRID[a][-1] * drawn[:, k]) for k, a in enumerate(GRID) if a in attacks}
    strengths = {attack: GRID[attack] for attack in sizes}
    return Result.from_arrays(index % 7, index % 7 + wrong, sizes, strengths, model=name, data="made", index=index)


@pytest.fixture
def unlike() -> list[Result]:
    """Three attacks on 600 images, and two on 100 of them."""
    return [
        result("large", ("linf", "l2", "l1"), np.arange(600)),
        result("small", ("linf", "l2"), np.arange(0, 600, 6), scale=0.8),
    ]


def cells(text: str) -> list[list[str]]:
    """The table of the models, without what stands in its heads."""
    (table,) = re.findall(r'aria-label="The models and their lines in the figures">(.*?)</table>', text, re.S)
    rows = re.findall(r"<tr.*?</tr>", table.partition("<tbody>")[2], re.S)
    plain = [[re.sub(r"<[^>]+>", " ", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)] for row in rows]
    return [[" ".join(cell.split()) for cell in row] for row in plain]


def test_a_report_of_unlike_runs_sets_beside_each_other_what_they_share(unlike: list[Result], tmp_path: Path) -> None:
    text = build_report(unlike, tmp_path / "report.html").read_text()
    alike = [result("large", ("linf", "l2"), np.arange(0, 600, 6)), unlike[1]]  # evaluated alike from the start
    for row, run in zip(cells(text), alike, strict=True):
        facts = facts_of(run)
        assert facts.average is not None
        for cell, number in ((row[1], facts.average), (row[3], facts.clean)):
            assert cell == percent(number).replace("%", "")
        assert row[4] == "100"
    assert "the 100 images of made" in text
    large = headline(facts_of(unlike[0]))
    assert large in text and "3 attacks and their 5 strengths" in large and "of 600 images" in large  # stands apart
    assert text.count("on all that it has") == 1  # the other one has no more
    panels = json.loads(re.findall(r'id="report-data">(.*?)</script>', text, re.S)[0])
    assert [card["attack"] for card in panels["cards"]] == ["linf", "l2", "l1"]
    assert "large on 600 images" in text.replace("</p>", "")


def test_runs_that_share_everything_are_said_once(unlike: list[Result], tmp_path: Path) -> None:
    other = result("other", ("linf", "l2", "l1"), np.arange(600), scale=0.7)
    text = build_report([unlike[0], other], tmp_path / "report.html").read_text()
    assert "that all of them have" not in text and "on all that it has" not in text
    assert shared_of_runs([unlike[0], other]).is_everything


def test_runs_that_share_nothing_stand_apart(unlike: list[Result], tmp_path: Path) -> None:
    alone = result("alone", ("l1",), np.arange(50))
    text = build_report([unlike[1], alone], tmp_path / "report.html").read_text()
    assert [row[-1] for row in cells(text)] == [headline(facts_of(run)) for run in (unlike[1], alone)]


def test_crossings_are_of_the_shared_images(tmp_path: Path) -> None:
    """On all images of each the curves cross; on the shared ones they are the same."""
    generator = np.random.default_rng(3)
    grid, labels = {"linf": [0.5, 1.0]}, np.zeros(3000, int)
    shared = generator.uniform(0.3, 0.7, 1500)
    steady, steep = (np.concatenate([shared, generator.uniform(*ends, 1500)]) for ends in ((0.001, 1), (0.49, 0.51)))
    first = Result.from_arrays(labels, labels, {"linf": steady}, grid, model="steady")
    places = np.concatenate([np.arange(1500), np.arange(5000, 6500)])
    second = Result.from_arrays(labels, labels, {"linf": steep}, grid, model="steep", index=places)
    assert "more robust below" not in build_report([first, second], tmp_path / "report.html").read_text()


def worst_of(row: Row) -> float | None:
    """The worst case over the attacks of a board."""
    worst = row.numbers.find(WORST)
    return worst and worst.value


def test_a_board_takes_average_and_union_over_shared_attacks_and_images(unlike: list[Result], tmp_path: Path) -> None:
    ground = Ground.from_results(unlike)
    assert ground.index.tolist() == list(range(0, 600, 6))
    large, small = (run_row(ground.restrict(run), ground.reference) for run in unlike)
    alike = result("large", ("linf", "l2"), np.arange(0, 600, 6))
    assert large.samples == small.samples == 100
    assert worst_of(large) == 100 * alike.survivors({"linf": 0.1, "l2": 0.5}).mean()
    page = build_leaderboard(unlike, tmp_path, None).read_text()
    assert "on the 100 images that all have" in page
    others = [unlike[0], result("far", ("linf", "l2"), np.arange(1, 600, 6))]
    assert "on the 100 images" in build_leaderboard(others, tmp_path / "two", None).read_text()
    none = [result("a", ("linf",), np.arange(5)), result("b", ("linf",), np.arange(5, 9))]
    with pytest.raises(UserError, match="share no samples"):
        build_leaderboard(none, tmp_path / "none", None)


def test_a_union_beside_a_reference_is_over_all_that_it_ranks(unlike: list[Result]) -> None:
    every = Reference("all", "", AccuracyTable(90, {a: dict.fromkeys(g, 80.0) for a, g in GRID.items()}), tuple(GRID))
    large, small = (run_row(run, every) for run in unlike)
    expected = 100 * unlike[0].survivors({"linf": 0.1, "l2": 0.5, "l1": 2.0}).mean()
    assert worst_of(large) == expected and worst_of(small) is None  # it lacks l1


# ---- against what --------------------------------------------------------------------------------------------------


@pytest.fixture
def ranked() -> list[Result]:
    first = result("first", ("linf", "l2"), np.arange(600))
    return [first, result("second", ("linf", "l2"), np.arange(600), scale=0.6, seed=1)]


def best_of(runs: list[Result]) -> Reference:
    return Reference.from_models("best", "made", {run.name: run.accuracies() for run in runs})


def test_a_board_says_that_its_reference_is_the_best_of_its_models(ranked: list[Result], tmp_path: Path) -> None:
    reference = best_of(ranked)
    page = build_leaderboard(ranked, tmp_path / "board", reference).read_text()
    lede = re.findall(r'<p class="lede">(.*?)</p>', page)[0]
    assert "the best of these models" in lede
    report = build_report(ranked, tmp_path / "report.html", reference).read_text()
    assert "the best of these models" in report
    for text in (page, report):
        assert "trained against" not in text.partition("<script")[0].replace("Trained against", "")
        assert "specialist" not in text and "trained for" not in text.partition("<script")[0]
    fewer = build_leaderboard(ranked[:1], tmp_path / "one", reference).read_text()
    assert "the best of 2 models" in fewer


def test_a_board_says_that_its_reference_was_trained(tmp_path: Path) -> None:
    page = build_leaderboard([], tmp_path / "board", load_reference("multirobustbench-cifar10")).read_text()
    assert "trained against each attack" in page
    field = build_leaderboard([], tmp_path / "field", load_reference("robustbench-cifar10-l2")).read_text()
    assert "the best of these models" in field  # no entry was trained against the others' attacks for it


def test_what_a_reference_is_made_of_is_kept(ranked: list[Result], tmp_path: Path) -> None:
    best_of(ranked).to_json(tmp_path / "best.json")
    assert load_reference(tmp_path / "best.json").models == ("first", "second")


def test_intervals_stay_within_what_is_possible(ranked: list[Result], tmp_path: Path) -> None:
    reference = best_of(ranked)
    facts = facts_of(ranked[0], reference=reference)
    assert facts.reference is not None
    every = [*facts.reference.numbers.values(), *(one for a in facts.attacks for one in a.against.values())]
    assert every and all(0 <= one.low <= one.value <= one.high <= 100 for one in every)
    stranger = facts_of(result("stranger", ("linf", "l2"), np.arange(600)), reference=reference)
    assert stranger.reference is not None  # of another model more than 100 is possible
    assert max(one.high for one in stranger.reference.numbers.values()) > 100
    row = run_row(ranked[0], reference)
    assert max(one.high for one in row.numbers if one.what.startswith("CR ")) <= 100


def test_a_stability_constant_has_an_interval(ranked: list[Result]) -> None:
    """Percentiles of resamples, each computed by the plain function; at few samples between the exact bounds."""
    entries = {"linf": {0.1: 93.0, 0.2: 60.0}, "l2": {0.5: 92.5, 1.0: 61.5}}
    reference = Reference("made", "", AccuracyTable(99.0, entries), ("linf", "l2"))
    run, trained = ranked[0], {"linf": 0.2}
    facts = facts_of(run, reference=reference, trained_on=trained)
    assert facts.reference is not None and facts.reference.training is not None
    training = facts.reference.training
    generator = np.random.default_rng(0)
    drawn = np.concatenate([generator.integers(600, size=(min(128, 1000 - k), 600)) for k in range(0, 1000, 128)])
    right = {attack: run.correct(attack) for attack in run.attacks}
    for floor, pair in ((0.0, ("linf@0.1", "l2@0.5")), (1.0, ("linf@0.2", "l2@1"))):
        plain, ends, values = (
            stability_constant(run.accuracies(), reference, trained, floor=floor),
            training.steadiness[floor],
            [],
        )
        assert training.stability[floor] == plain and plain.pair == pair
        for rows in drawn:
            means = {a: dict(zip(GRID[a], (100 * one[rows].mean(0)).tolist(), strict=True)) for a, one in right.items()}
            table = AccuracyTable(100 * float(run.clean[rows].mean()), means)
            values.append(stability_constant(table, reference, trained, floor=floor).value)
        low, high = np.quantile(values, [0.025, 0.975])
        assert ends.value == pytest.approx(plain.value, rel=1e-5)
        assert (ends.low, ends.high) == pytest.approx((min(low, plain.value), max(high, plain.value)), rel=1e-4)
    few = run.select(np.arange(20))
    bound = confidence_intervals({"": AccuracyStatistics(few).stability(reference, trained)})[""]
    assert bound.low <= bound.value <= bound.high
    row = run_row(run, reference, About(trained_on=trained))
    for floor in (0.0, 1.0):
        found = row.numbers.find(f"SC floor {floor:g}")
        assert found is not None and found.interval == training.steadiness[floor]


def test_both_constants_stand_beside_each_other(ranked: list[Result], tmp_path: Path) -> None:
    about: Any = {run.name: {"linf": 0.2} for run in ranked}
    text = build_report(ranked, tmp_path / "report.html", best_of(ranked), trained_on=about).read_text()
    heads = re.findall(r"<th[^>]*>(SC.*?)</th>", text)
    assert heads == ["SC", "SC, ≥ 1 apart"]
    assert distinct_names(ranked) == ["first", "second"]
