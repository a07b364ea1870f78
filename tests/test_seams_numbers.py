"""Every number that a surface shows is in the table of numbers: of runs of three models, of a board, of a study."""

import csv
import html
import io
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from robustatlas.common.typed_strengths import format_size
from robustatlas.metrics import Interval
from robustatlas.metrics.references import load_reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.numbers.against import hold_against
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.groups import groups_of
from robustatlas.report.numbers.number import CLEAN, MEAN, MEDIAN, ROBUST, Numbers
from robustatlas.report.numbers.of_run import numbers_against, numbers_of_run
from robustatlas.report.numbers.of_several import SharedNumbers, numbers_of_several
from robustatlas.report.numbers.shared import shared_of_runs
from robustatlas.report.page import build_report
from robustatlas.results.result import Result
from study_files import written

MODELS = ("digits-standard", "digits-linf", "digits-l2")
STRENGTHS = {"linf": [0.1, 0.2], "l2": [0.5, 1.0]}
BOARD = Path(__file__).parents[1] / "docs" / "board"
OF_BOARD = ("standard-seed0", "trades-linf-seed2")

STUDY = """
title = "A tiny study"
[data.digits]
name = "digits"
samples = 12
train_samples = 100
[training]
architecture = "digits-cnn"
settings = { epochs = 1, batch_size = 50, learning_rate = 0.02, held_out = 0 }
[models.linf]
recipe = "pgd"
against = { linf = 0.1 }
steps = 1
seeds = [3, 4]
[evaluations.main]
attacks = ["linf"]
strengths = { linf = "0.2:2" }
effort = "low"
diagnose = false
audit = 0
[outputs.scores]
kind = "scores"
numbers = ["clean", "linf@0.2", "average"]
"""

SHOWN = re.compile(r"([+-]?\d+\.\d+)\s?%?[\s│]*\(([+-]?\d+\.\d+)\s+to\s+([+-]?\d+\.\d+)")
"""A number with its interval, as every surface writes it."""

Written = tuple[str, str, str]


def table_of(run: Result, reference: Any = None) -> Numbers:
    """Return the table of a run."""
    table = numbers_of_run(run, worst_case_points(run.select_judged()))
    held = hold_against(run, reference, run.records.values(), run.identity) if reference else None
    return table + numbers_against(run, held) if held else table


def texts_of(numbers: Iterable[Interval]) -> set[Written]:
    """Return the texts of numbers, with one and with three digits, with and without a sign."""
    ends = [(one.value, one.low, one.high) for one in numbers]
    return {
        (f"{value:{form}}", f"{low:{form}}", f"{high:{form}}")
        for value, low, high in ends
        for form in ("z.1f", "+z.1f", "z.3f")
    }


def texts_of_several(several: SharedNumbers) -> set[Written]:
    """Return the texts of what is shared, and of the differences of each pair."""
    gaps = [gap for pair in several.pairs for gap in pair.differences.values()]
    both = [*gaps, *(Interval(-gap.value, -gap.high, -gap.low, gap.confidence) for gap in gaps)]
    return texts_of([*both, *(row for model in several.models for row in model.numbers.values())])


def shown_in(text: str) -> set[Written]:
    """Return the numbers with intervals that stand in a text."""
    return set(SHOWN.findall(text))


def page_text(page: Path) -> str:
    """Return what a person reads on a page."""
    return html.unescape(re.sub(r"<[^>]*>", " ", page.read_text(encoding="utf-8")))


def plain_numbers(data: Any) -> Iterator[Mapping[str, float]]:
    """Yield each number with an interval of JSON."""
    if isinstance(data, Mapping):
        if data.keys() >= {"value", "low", "high"}:
            yield data
        else:
            for one in data.values():
                yield from plain_numbers(one)
    elif isinstance(data, list):
        for one in data:
            yield from plain_numbers(one)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runs of the demo, on fewer images and at fewer strengths."""
    folder, data = tmp_path_factory.mktemp("demo"), ra.load_dataset("digits")
    for name in MODELS:
        options: dict[str, Any] = {"strengths": STRENGTHS, "samples": 15, "effort": "low"}
        model = ra.load_model(f"builtin:{name}")
        ra.evaluate(model, data, list(STRENGTHS), run=folder / name, progress=False, diagnose=False, **options)
    return {name: folder / name for name in MODELS}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Some runs of the board of the documentation."""
    folder = tmp_path_factory.mktemp("board")
    shutil.unpack_archive(BOARD / "runs.tar.xz", folder, filter="data")
    return {name: folder / "runs" / name for name in OF_BOARD}


def check_texts(run: Path, table: Numbers) -> None:
    """Compare what a person reads of a run in a terminal and in a paper with its table."""
    for words, least in ((["--explain", "--all"], 4), (["--latex"], 4), ([], 2)):
        shown = shown_in(entered("show", run, *words, columns=200).line)
        assert len(shown) >= least and shown - texts_of(table) == set(), words
    values = {f"{one:.1f}" for row in table for one in (row.value, table.mean(row.what, next(iter(row.at), None)))}
    lines = [line.split() for line in entered("show", run, "--all", columns=200).out.splitlines() if line.strip()]
    cells = [cell for name, *cells in lines if name in {*STRENGTHS, "worst", "mean"} for cell in cells]
    drawn = [cell for cell in cells if re.fullmatch(r"\d+\.\d", cell)]
    assert len(drawn) >= 6 and {*drawn} <= values, "the accuracies at each strength"


def check_data(run: Path, table: Numbers, *options: object) -> None:
    """Compare what programs read of a run with its table, to the last bit."""
    exact = {(row.value, row.low, row.high) for row in table}
    told = json.loads(entered("show", run, "--json", *options).out)
    found = [told[name] for name in ("clean accuracy", "average accuracy", "worst case", "headline", "attacks")]
    numbers = [one for one in plain_numbers(found) if one["low"] is not None]
    assert len(numbers) > 8 and {(one["value"], one["low"], one["high"]) for one in numbers} <= exact
    for attack, one in told["attacks"].items():
        (median,) = table.select(MEDIAN, attack)
        assert one["median size"] == (median.value if np.isfinite(median.value) else None)
        assert [found["value"] for found in one["accuracy"]] == [row.value for row in table.select(ROBUST, attack)]
    lines = list(csv.DictReader(io.StringIO(entered("show", run, "--csv").out)))
    assert len(lines) == 1 + len(table.select(ROBUST))
    for line in lines:
        assert (float(line["accuracy"]), float(line["low"]), float(line["high"])) in exact


@pytest.mark.parametrize("name", MODELS)
def test_of_a_run_of_the_demo(name: str, demo: dict[str, Path], tmp_path: Path) -> None:
    run = ra.load_result(demo[name])
    table = table_of(run)
    known = texts_of(table)
    check_texts(demo[name], table)
    check_data(demo[name], table)
    page = shown_in(page_text(build_report([run], tmp_path / "page.html")))
    assert len(page) >= 5 and page <= known
    drawn = shown_in(str(ra.card([run], "none")))
    ends = {row.attack: (row.value, row.low, row.high) for row in table.select(MEDIAN)}
    sizes = {tuple(format_size(end, attack=attack) for end in three) for attack, three in ends.items()}
    assert drawn <= known | sizes and drawn & sizes and drawn & known
    entered("export", demo[name], "--to", "evidence", "--output", tmp_path / "evidence.json")
    evidence = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    assert evidence["clean_accuracy"] == table.select(CLEAN)[0].value
    bounds = [f"{asked}>=0" for asked in ("clean", "average", "union", "linf@0.1", "l2@1", "median-l2")]
    said = entered("check", demo[name], *(word for bound in bounds for word in ("--require", bound))).line
    judged = re.findall(r" is ([\d.]+) \(([\d.]+) to ([\d.]+)\)", said)
    rows = {(f"{row.value:.4g}", f"{row.low:.4g}", f"{row.high:.4g}") for row in table if row.what != MEDIAN}
    assert len(judged) == len(bounds) and set(judged[:-1]) <= rows
    wrong = {(f"{row.value + 1:z.1f}", f"{row.low:z.1f}", f"{row.high:z.1f}") for row in table.select(CLEAN)}
    assert not wrong <= known, "the check can fail"


def test_of_several_runs(demo: dict[str, Path], tmp_path: Path) -> None:
    runs = [ra.load_result(run) for run in demo.values()]
    several = numbers_of_several(shared_of_runs(runs))
    known, each = texts_of_several(several), set().union(*(texts_of(table_of(run)) for run in runs))
    rows = [number for model in several.models for number in model.numbers.values() if number.what != "AH"]
    assert texts_of(rows) <= each, "what runs share is everything, so the numbers are those of each alone"
    shown = shown_in(entered("compare", *demo.values(), columns=300).line)
    assert len(shown) > 8 and shown <= known
    told = json.loads(entered("compare", *demo.values(), "--json").out)
    for model, ours in zip(told["models"], several.models, strict=True):
        values = {label: number.value for label, number in ours.numbers.items()}
        assert {label: one["value"] for label, one in model["numbers"].items()} == values
    for pair, ours in zip(told["pairs"], several.pairs, strict=True):
        gaps = {label: (gap.value, gap.low, gap.high, gap.p_value) for label, gap in ours.differences.items()}
        found = {label: (one["value"], one["low"], one["high"], one["p"]) for label, one in pair["differences"].items()}
        assert found == gaps
    for one in plain_numbers(told):
        found = Interval(one["value"], one["low"], one["high"], 0.95)
        assert texts_of([found]) <= known
    page = shown_in(page_text(build_report(runs, tmp_path / "page.html")))
    assert len(page) > 20 and page <= known | each


def test_of_the_board(board: dict[str, Path], tmp_path: Path) -> None:
    reference = load_reference(BOARD / "reference.json")
    runs = [ra.load_result(run) for run in board.values()]
    about = {name: one for name, one in json.loads((BOARD / "about.json").read_text()).items() if name in OF_BOARD}
    page = build_leaderboard(runs, tmp_path, reference, about, "A board")
    data = json.loads(page.read_text(encoding="utf-8").split('id="board-data">')[1].split("</script>")[0])
    rows = {row["name"]: row for row in data["defenses"]}
    for run in runs:
        table, row = table_of(run, reference), rows[run.name]
        (clean,) = table.select(CLEAN)
        assert row["clean"] == clean.value
        assert row["accuracies"].keys() == {*run.attacks}
        for attack, accuracies in row["accuracies"].items():
            assert accuracies == pytest.approx([one.value for one in table.select(ROBUST, attack)], abs=5e-4)
        for kind, (low, high) in row["ratios"].items():
            ratio = table.find(f"CR {kind}")
            assert ratio is not None and (ratio.low, ratio.high) == (low, high)
        assert shown_in(row["headline"]) <= texts_of(table) and shown_in(row["headline"])
        assert row["halves"].keys() == {median.attack for median in table.select(MEDIAN)}
    check_data(board[run.name], table, "--reference", BOARD / "reference.json")


def test_of_a_study(tmp_path: Path) -> None:
    ra.study(written(tmp_path, STUDY), tmp_path / "out", progress=False)
    runs = [ra.load_result(tmp_path / "out/runs/main/linf" / f"seed-{seed}") for seed in (3, 4)]
    numbers = groups_of({"linf": runs}).numbers["linf"]
    with (tmp_path / "out/outputs/scores.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    for label, name in (("clean", CLEAN), ("average", MEAN), ("L∞ 0.2", "L∞ at 0.2")):
        found = numbers[name]
        shown = [float(row[label]), *(float(row[f"{label}, trainings {end}"]) for end in ("low", "high"))]
        low, high = np.clip([found.trainings.low, found.trainings.high], 0, 100)
        assert shown == pytest.approx([found.mean, low, high], abs=1e-3)
