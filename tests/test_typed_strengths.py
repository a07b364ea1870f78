"""Strengths that fall: what is typed is what is read, ordered, compared and printed, in every place that takes one."""

import ast
import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.metrics import (
    AccuracyTable,
    RobustnessCurve,
    adversarial_hypervolume,
    audited,
    change_of_slope,
    common_strengths,
    competitiveness_ratio,
    envelope,
    stability_constant,
    union_accuracy,
)
from robustatlas.metrics.competitiveness import competitiveness_in_out, percent_seen
from robustatlas.metrics.figures import (
    plot_accuracy_matrix,
    plot_curves,
    plot_frontier,
    plot_frontiers,
    plot_panels,
    plot_two_sided,
)
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.metrics.two_sided import TwoSided
from robustatlas.outcomes import query
from robustatlas.outcomes.strengths import check_strengths, parse_grid, read_strength, read_strengths
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.grids import grid_advice
from robustatlas.report.facts.rows import read_about, run_row
from robustatlas.report.gate.requirements import Requirement, required_number
from robustatlas.report.in_latex import run_in_latex
from robustatlas.report.leaderboard import board_data
from robustatlas.report.page import build_report
from robustatlas.report.sheet import plot_gallery
from robustatlas.results.result import Result
from robustatlas.studies.numbers import RunNumbers, number_label, study_number
from robustatlas.training.calibration import calibrate, with_calibration
from run_files import write
from study_files import without_sizes, written

ATTACKS = ("resolution", "jpeg-quality")
STANDING = {80: 90.0, 50: 60.0, 20: 30.0}
"""Robust accuracy at each strength: all differ, and each stands at the mirror image of another strength."""
FAILS_FROM = {85: 4, 60: 12, 30: 12, inf: 12}
"""The typed size from which on samples are misclassified, and how many of them."""
MEDIAN = 30
SAMPLES = sum(FAILS_FROM.values())
LABELS = np.arange(SAMPLES) % 10


def made_up(attack: str, model: str = "made", fails_from: dict[float, int] = FAILS_FROM) -> Result:
    sizes = [size for size, count in fails_from.items() for _ in range(count)]
    linf = np.where(np.arange(SAMPLES) < 10, 0.05, inf)
    return Result.from_arrays(
        LABELS,
        LABELS,
        minimal_size={attack: sizes, "linf": linf},
        strengths={attack: [*STANDING], "linf": [0.1, 0.2]},
        model=model,
        data="digits",
    )


@pytest.fixture(scope="module", params=ATTACKS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Result, Path]:
    """The name of an attack whose strengths fall, and a run under it, in memory and on disk."""
    result = made_up(request.param)
    return request.param, result, write(tmp_path_factory.mktemp("falls") / "run", result)


def value_of(text: str, result: Result) -> float:
    return required_number(Requirement.parse(f"{text}>=0"), result, facts_of(result)).value


def of_json(attack: str, run: Path) -> dict[float, float]:
    told = json.loads(entered("show", run, "--json").out)["attacks"][attack]
    return dict(zip(told["strengths"], [entry["value"] for entry in told["accuracy"]], strict=True))


def of_csv(attack: str, run: Path) -> dict[float, float]:
    rows = csv.DictReader(io.StringIO(entered("show", run, "--csv").out))
    return {float(row["strength"]): float(row["accuracy"]) for row in rows if row["attack"] == attack}


def of_terminal(attack: str, run: Path) -> dict[float, float]:
    lines = [line.split() for line in entered("show", run, "--all").out.splitlines()]
    row = next(k for k, line in enumerate(lines) if line[:1] == [attack])
    return dict(zip(map(float, lines[row - 1][1:-1]), map(float, lines[row][1:-1]), strict=True))


def of_headlines(attack: str, run: Path) -> dict[float, float]:
    seen = {}
    for strength in STANDING:
        told = json.loads(entered("show", run, "--json", "--headline", f"{attack}@{strength}").out)["headline"]
        assert told["numbers"][0]["strengths"] == [strength]
        seen[strength] = told["accuracy"]["value"]
    return seen


def of_unions(attack: str, run: Path) -> dict[float, float]:
    seen = {}
    for strength in STANDING:
        told = json.loads(entered("show", run, "--json", "--union", f"{attack}={strength}").out)
        assert told["worst case"]["at"] == {attack: strength}
        seen[strength] = told["worst case"]["accuracy"]["value"]
    return seen


def of_accuracies(attack: str, run: Path) -> dict[float, float]:
    sql = f"SELECT strength, accuracy FROM accuracies WHERE attack = '{attack}' ORDER BY strength DESC"
    return dict(query(sql, run).rows)


def of_broken(attack: str, run: Path) -> dict[float, float]:
    sql = "SELECT 100 * avg((NOT broken)::INT) FROM broken({}) WHERE attack = '" + attack + "'"
    return {strength: query(sql.format(strength), run).rows[0][0] for strength in STANDING}


def of_sizes(attack: str, run: Path) -> dict[float, float]:
    """SQL over the sizes of samples: one withstands a strength that is larger than the size that it fails from."""
    sql = "SELECT 100 * avg((minimal_size < {})::INT) FROM outcomes WHERE attack = '" + attack + "'"
    return {strength: query(sql.format(strength), run).rows[0][0] for strength in STANDING}


def of_page(attack: str, run: Path) -> dict[float, float]:
    """Of the strengths of an attack as a page says them to screen readers."""
    page = run.parent / "page.html"
    build_report([ra.load_result(run)], page)
    cells = re.findall(r'aria-label="strength ([\d.]+): ([\d.]+)%', page.read_text(encoding="utf-8"))
    return {float(strength): float(value) for strength, value in cells if float(strength) in STANDING}


def of_evidence(attack: str, run: Path) -> dict[float, float]:
    out = run.parent / "evidence.json"
    entered("export", run, "-o", out)
    told = json.loads(out.read_text(encoding="utf-8"))
    (record,) = [record for record in told["attacks"] if record["name"] == attack]
    sizes = [row["minimal_size"] for row in told["outcomes"] if row["attack"] == attack]
    standing = {s: [size is None or size < s for size in sizes] for s in record["strengths"]}
    return {strength: 100 * float(np.mean(stands)) for strength, stands in standing.items()}


def of_comparison(attack: str, run: Path) -> dict[float, float]:
    other = write(run.parent / "other", made_up(attack, "other")) if not (run.parent / "other").exists() else None
    other = other or run.parent / "other"
    assert json.loads(entered("compare", run, other, "--json").out)["attacks"][attack] == [*STANDING]
    seen = {}
    for strength in STANDING:
        told = json.loads(entered("compare", run, other, "--json", "--union", f"{attack}={strength}").out)
        seen[strength] = told["models"][0]["numbers"]["union accuracy"]["value"]
    return seen


ON_DISK: dict[str, Callable[[str, Path], dict[float, float]]] = {
    "show --json": of_json,
    "show --csv": of_csv,
    "show --all": of_terminal,
    "show --headline": of_headlines,
    "show --union": of_unions,
    "query: accuracies": of_accuracies,
    "query: broken(strength)": of_broken,
    "query: minimal_size": of_sizes,
    "report": of_page,
    "export": of_evidence,
    "compare": of_comparison,
}


@pytest.mark.parametrize("door", ON_DISK)
def test_a_run_says_each_strength_as_it_was_typed(found: tuple[str, Result, Path], door: str) -> None:
    attack, _, run = found
    seen = ON_DISK[door](attack, run)
    assert [*seen] == [*STANDING]
    assert seen == pytest.approx(STANDING)


def of_study(attack: str, result: Result) -> dict[float, float]:
    runs = [RunNumbers(result)] * 2
    return {s: study_number(f"{attack}@{s}", runs, None, {}).mean for s in STANDING}


def of_frames(attack: str, result: Result) -> dict[float, float]:
    frame = result.accuracies().to_pandas()
    rows = frame[frame["attack"] == attack]
    return dict(zip(rows["strength"].tolist(), rows["accuracy"].tolist(), strict=True))


def of_sample_frames(attack: str, result: Result) -> dict[float, float]:
    frame = result.to_pandas()
    sizes = frame[frame["attack"] == attack]["minimal_size"]
    return {strength: 100 * float((sizes < strength).mean()) for strength in STANDING}


def of_curve_frames(attack: str, result: Result) -> dict[float, float]:
    frame = result.curve(attack).to_pandas()
    return {s: 100 - float(frame[frame["size"] >= s]["robust_error"].iloc[-1]) for s in STANDING}


def of_latex(attack: str, result: Result) -> dict[float, float]:
    rows = [line.split("&") for line in run_in_latex(facts_of(result)).splitlines() if "&" in line]
    cells = [(row[-2].strip(" $"), row[-1]) for row in rows]
    return {float(at): float(re.findall(r"[\d.]+", cell)[0]) for at, cell in cells if at in ("80", "50", "20")}


def of_references(attack: str, result: Result) -> dict[float, float]:
    """Of a reference written to a file and read again, the accuracy by which each strength alone is divided."""
    own, seen = Reference("own", "made up", result.accuracies(), (attack,)), {}
    weights: Any
    for strength in STANDING:
        weights = {attack: {strength: 1}}
        ratio = competitiveness_ratio(AccuracyTable(100, {attack: dict.fromkeys(STANDING, 45)}), own, weights=weights)
        seen[strength] = 100 * 45 / ratio
    return seen


def of_steps(sizes: Any, broken: Any) -> dict[float, float]:
    """Of the steps of a curve: the last size that is not smaller than a strength says what is broken there."""
    return {s: 100 - 100 * float(broken[sizes >= s][-1]) / SAMPLES for s in STANDING}


def of_audits(attack: str, result: Result) -> dict[float, float]:
    """Of an audit of every sample by a search that finds nothing more."""
    robust, rows = result.correct(attack), np.arange(result.samples)
    found = audited(robust, rows, robust, result.strengths(attack))
    return dict(zip(found.strengths.tolist(), found.estimate.tolist(), strict=True))


IN_MEMORY: dict[str, Callable[[str, Result], dict[float, float]]] = {
    "requirements": lambda attack, result: {s: value_of(f"{attack}@{s}", result) for s in STANDING},
    "numbers of studies": of_study,
    "frames of accuracies": of_frames,
    "frames of samples": of_sample_frames,
    "frames of curves": of_curve_frames,
    "strengths and accuracies": lambda attack, result: dict(
        zip(result.strengths(attack).tolist(), result.outcome(attack).accuracies().tolist(), strict=True)
    ),
    "correct": lambda attack, result: dict(
        zip(result.strengths(attack).tolist(), 100 * result.correct(attack).mean(0), strict=True)
    ),
    "survivors": lambda attack, result: {s: 100 * float(result.survivors({attack: s}).mean()) for s in STANDING},
    "accuracy_bounds": lambda attack, result: {s: result.accuracy_bounds({attack: s}).low for s in STANDING},
    "attack_bounds": lambda attack, result: {s: result.attack_bounds(attack, s).high for s in STANDING},
    "restrict": lambda attack, result: {
        s: result.restrict({attack: [s]}).accuracies().values(attack)[0] for s in STANDING
    },
    "common_strengths": lambda attack, result: {
        s: result.restrict({attack: [s]}).accuracies().at(attack, s) for s in common_strengths([result])[attack]
    },
    "minimal_size": lambda attack, result: {s: 100 * float((result.minimal_size(attack) < s).mean()) for s in STANDING},
    "minimal_strength": lambda attack, result: {
        s: 100 * float((result.minimal_strength(attack) < s).mean()) for s in STANDING
    },
    "union_accuracy of sizes": lambda attack, result: {
        s: union_accuracy({attack: result.minimal_size(attack)}, {attack: s}) for s in STANDING
    },
    "union_accuracy of strengths": lambda attack, result: {
        s: union_accuracy({attack: result.minimal_strength(attack)}, {attack: s}) for s in STANDING
    },
    "AccuracyTable.entries": lambda attack, result: dict(result.accuracies().entries[attack]),
    "AccuracyTable.at": lambda attack, result: {s: result.accuracies().at(attack, s) for s in STANDING},
    "AccuracyTable.strengths": lambda attack, result: dict(
        zip(result.accuracies().strengths(attack).tolist(), result.accuracies().values(attack).tolist(), strict=True)
    ),
    "AccuracyTable.restrict": lambda attack, result: {
        s: result.accuracies().restrict([attack], {attack: [s]}).values(attack)[0] for s in STANDING
    },
    "AccuracyTable.from_dict": lambda attack, result: dict(
        AccuracyTable.from_dict(result.accuracies().to_dict()).entries[attack]
    ),
    "AccuracyTable again": lambda attack, result: dict(AccuracyTable(100, result.accuracies().entries).entries[attack]),
    "RobustnessCurve.at": lambda attack, result: {s: 100 - float(result.curve(attack).at(s)) for s in STANDING},
    "RobustnessCurve.robust_accuracy": lambda attack, result: dict(
        zip(STANDING, result.curve(attack).robust_accuracy([*STANDING]).tolist(), strict=True)
    ),
    "RobustnessCurve of sizes": lambda attack, result: {
        s: 100 - float(RobustnessCurve(result.minimal_size(attack), attack=attack).at(s)) for s in STANDING
    },
    "RobustnessCurve.steps": lambda attack, result: of_steps(*result.curve(attack).steps),
    "RobustnessCurve.band": lambda attack, result: {
        s: 100 - float(np.mean(result.curve(attack).band(1e-9).at(s))) for s in STANDING
    },
    "envelope": lambda attack, result: {s: 100 - float(envelope([result.curve(attack)]).at(s)) for s in STANDING},
    "TwoSided.at": lambda attack, result: {
        s: TwoSided(result.curve(attack), result.curve(attack), 20.0).at(s).most for s in STANDING
    },
    "Audited": lambda attack, result: of_audits(attack, result),
    "files of accuracies": lambda attack, result: {
        float(s): value for s, value in result.accuracies().to_dict()["entries"][attack].items()
    },
    "LaTeX": of_latex,
    "weights of a reference": of_references,
}


@pytest.mark.parametrize("door", IN_MEMORY)
def test_a_result_says_each_strength_as_it_was_typed(found: tuple[str, Result, Path], door: str) -> None:
    attack, result, _ = found
    seen = IN_MEMORY[door](attack, result)
    assert [*seen] == [*STANDING]
    assert seen == pytest.approx(STANDING)


# ---- sizes, and sentences in which the direction matters ----------------------------------------------------------


def test_the_median_size_is_the_typed_one(found: tuple[str, Result, Path]) -> None:
    attack, result, run = found
    by_sizes, by_searches = (
        required_number(Requirement.parse(f"median-{attack}{sign}40"), result, facts_of(result))
        for sign in (">=", "<=")
    )
    (shown,) = facts_of(result).numbers.select("median size", attack)
    assert (by_sizes.value, by_sizes.low) == (MEDIAN, value_as_typed(attack, shown.high)), "as far as examples do"
    assert by_sizes.low <= MEDIAN < by_sizes.high
    assert by_searches.value == 50  # where 60 % were searched and stand; at 20, the next one, 30 % do
    for bound, code in ((f">={MEDIAN}", 0), (f">={MEDIAN + 1}", 3), ("<=50", 0), ("<=49", 3)):
        entered("check", run, "--value", "--require", f"median-{attack}{bound}", code=code)
    told = json.loads(entered("show", run, "--json").out)
    assert told["attacks"][attack]["median size"] == MEDIAN
    assert told["attacks"][attack]["unit"] == typed_axis(attack)
    assert f"median size {MEDIAN}" in repr(result)
    assert f"half break at {MEDIAN}" in repr(result.curve(attack))
    sql = f"SELECT median(minimal_size), max(minimal_size), min(minimal_size) FROM outcomes WHERE attack = '{attack}'"
    assert query(sql, run).rows == [(MEDIAN, 85, -inf)]


def typed_axis(attack: str) -> str:
    return plot_curves(RobustnessCurve([1.0], attack=attack, unit=attack_named(attack).about.unit)).get_xlabel()


def test_a_gate_judges_what_was_typed(found: tuple[str, Result, Path]) -> None:
    attack, _, run = found
    for strength, standing in STANDING.items():
        entered("check", run, "--value", "--require", f"{attack}@{strength}>={standing}")
        entered("check", run, "--value", "--require", f"{attack}@{strength}>={standing + 1}", code=3)
    assert f"--strengths {attack}=10" in entered("check", run, "--require", f"{attack}@10>=1", code=3).line
    entered("check", run, "--value", "--require", f"{attack}@40>=30", "--require", f"{attack}@40<=60")
    entered("check", run, "--value", "--require", f"{attack}@40>=31", code=3)
    for strange in (100, 120):
        assert f"{attack}@{strange}" in entered("check", run, "--require", f"{attack}@{strange}>=1", code=1).err


def test_headlines_and_unions_say_what_there_is(found: tuple[str, Result, Path]) -> None:
    attack, _, run = found
    assert "searched next to it: 20" in entered("show", run, "--headline", f"{attack}@10", code=1).line
    assert "searched next to it: 80" in entered("show", run, "--union", f"{attack}=95", code=1).line
    for option, text in (("--union", f"{attack}=120"), ("--headline", f"{attack}@120"), ("--union", f"{attack}=100")):
        said = entered("show", run, option, text, code=1).line
        assert text in said and "below 100" in said
        assert "--strengths" not in said, "no command is proposed that would be refused"
        assert re.search(rf"{attack}[@=]\d\d\b", said.replace(text, "")), "a strength of this attack is the example"
    assert "at 20" in entered("show", run, "--headline", f"{attack}@20").line


def test_who_leads_above_and_below_a_crossing(tmp_path: Path) -> None:
    """One model withstands much down to 70 and nothing below; the other is worse above and keeps what it has."""
    steady = {85: 20, inf: 20}
    sudden = {65: 40}
    tables = {"steady": steady, "sudden": sudden}
    runs = [write(tmp_path / name, made_up("resolution", name, fails)) for name, fails in tables.items()]
    said = entered("compare", *runs, "--explain", columns=200).line
    assert "steady is more robust below, sudden above" in said
    page = tmp_path / "page.html"
    build_report([ra.load_result(run) for run in runs], page)
    text = html.unescape(page.read_text(encoding="utf-8"))
    assert re.search(r"steady is more robust below (\d+), sudden above", text)


# ---- references, weights and what a model was trained on ----------------------------------------------------------


def test_a_reference_file_holds_what_was_typed(found: tuple[str, Result, Path], tmp_path: Path) -> None:
    attack, _, run = found
    file = tmp_path / "own.json"
    row = {str(strength): 45 for strength in STANDING}
    row["20"] = 60
    document = {"name": "own", "source": "typed by hand", "accuracies": {"clean": 100, "entries": {attack: row}}}
    file.write_text(json.dumps(document), encoding="utf-8")
    read = load_reference(str(file))
    assert read.accuracies.strengths(attack).tolist() == [80, 50, 20]
    assert read.accuracies.values(attack).tolist() == [45, 45, 60]
    assert list(read.to_dict()["accuracies"]["entries"][attack]) == ["80.0", "50.0", "20.0"]
    told = json.loads(entered("show", run, "--json", "--reference", file).out)["reference"]["numbers"]
    expected = 100 * sum(STANDING.values()) / (45 + 45 + 60)
    assert told[f"UAR {attack}" if f"UAR {attack}" in told else "mUAR"]["value"] == pytest.approx(expected)
    weights = tmp_path / "weights.json"
    weights.write_text(json.dumps({attack: {"20": 1}}), encoding="utf-8")
    told = json.loads(entered("show", run, "--json", "--reference", file, "--weights", weights).out)["reference"]
    assert told["numbers"]["CR ind-avg"]["value"] == pytest.approx(100 * 30 / 60)
    document["accuracies"]["entries"][attack]["20"] = 0  # type: ignore[index]
    assert f"{attack}@20" in Reference.from_dict(document).drop_zeros().marks[0]
    weights.write_text(json.dumps({attack: {"30": 1}}), encoding="utf-8")
    said = entered("show", run, "--reference", file, "--weights", weights, code=1).line
    assert f"{attack}@30" in said and "80, 50" in said


def test_what_a_model_was_trained_on_is_typed(found: tuple[str, Result, Path]) -> None:
    """Clean images and all that harms no more than the training are seen: 80 and 50 of a training at 50."""
    attack, result, _ = found
    table, own = result.accuracies().restrict([attack]), Reference("own", "", result.accuracies(), (attack,))
    for strength, seen in ((80, 2), (50, 3), (20, 4)):
        assert percent_seen(table, own, {attack: strength}) == pytest.approx(100 * seen / 4)
    weights: Any = {attack: {20: 1}}
    assert competitiveness_in_out(table, own, {attack: 50}, weights=weights).outside == pytest.approx(100)
    pair = stability_constant(table, own, {attack: 80}, difficulty={"clean": 0, attack: {80: 10, 50: 11, 20: 30}}).pair
    assert pair == (f"{attack}@80", f"{attack}@50")
    with pytest.raises(ra.UserError, match="below 100"):
        percent_seen(table, own, {attack: 100})
    about = read_about({"made": {"trained_on": {attack: 80}}})["made"]
    assert about.model_dump()["trained_on"] == {attack: 80}
    (defense,) = board_data(own, [run_row(result, own, about)], "title")["defenses"]
    assert defense["trainedWords"] == {attack: "≥ 80"}
    assert (defense["trainedOn"], defense["trainedTyped"]) == ({attack: 20}, {attack: 80})


def test_a_card_reads_what_was_typed(found: tuple[str, Result, Path], tmp_path: Path) -> None:
    attack, result, run = found
    file = tmp_path / "own.json"
    Reference("own", "made up", result.accuracies().restrict([attack]), (attack,)).to_json(file)
    seen = {
        strength: json.loads(
            entered("show", run, "--json", "--reference", file, "--trained-on", f"{attack}={strength}").out
        )["reference"]["seen"]
        for strength in STANDING
    }
    assert seen == pytest.approx({80: 50, 50: 75, 20: 100})
    ra.load_result(run).describe({"trained_on": {attack: 80}})
    assert json.loads(entered("show", run, "--json", "--reference", file).out)["reference"]["seen"] == 50


# ---- figures ------------------------------------------------------------------------------------------------------


def tick_at(axes: Any, typed_strength: float) -> str:
    return str(axes.xaxis.get_major_formatter()(100 - typed_strength, 0))


def test_figures_count_as_people_type(found: tuple[str, Result, Path]) -> None:
    attack, result, _ = found
    unit = attack_named(attack).about.unit
    curve = RobustnessCurve(result.minimal_size(attack), attack=attack, unit=unit)
    known = RobustnessCurve(50 + curve.minimal_sizes / 2, attack=attack, unit=unit)
    both = TwoSided(known, curve, 20.0)
    for axes in (
        plot_curves(curve, up_to=20),
        plot_two_sided(both, at=50, up_to=20),
        plot_panels({attack: {"made": curve}}, up_to={attack: 20}).axes[0],
        plot_frontier([0.5, 0.0], 1.0, 20.0, attack=attack, unit=unit),
        plot_frontiers({"made": [1.0, 0.5, 0.0]}, 20.0, attack=attack, unit=unit),
    ):
        assert tick_at(axes, 80) == "80"
        assert axes.get_xlim() == (0, 80)
        assert "100 - " not in axes.get_xlabel()
    assert str(both.at(50)) in plot_two_sided(both, at=50).get_legend().get_title().get_text()
    for strange in (100, 120):
        for draw in (plot_curves, plot_two_sided):
            with pytest.raises(ra.UserError, match="below 100"):
                draw(both if draw is plot_two_sided else curve, up_to=strange)  # type: ignore[operator]
    ends = [text.get_text() for text in plot_accuracy_matrix(result.accuracies().restrict([attack])).texts]
    assert "20" in ends and "80" not in ends


def test_a_gallery_draws_the_strengths_that_are_typed() -> None:
    torch_model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(8)
    figure = plot_gallery(torch_model, data, "resolution", sample=0, strengths={"resolution": [75, 25]})
    titles = [axes.get_title() for axes in figure.axes if "≥" in axes.get_title()]
    assert [re.search(r"≥ (\d+)", title)[1] for title in titles] == ["75", "25"]  # type: ignore[index]
    with pytest.raises(ra.UserError, match="falling numbers below 100"):
        plot_gallery(torch_model, data, "resolution", sample=0, strengths={"resolution": [25, 75]})


# ---- reading ------------------------------------------------------------------------------------------------------


@given(st.floats(min_value=0.5, max_value=99.5).map(lambda value: round(value, 6)))
def test_what_is_read_is_printed_as_it_was_typed(value: float) -> None:
    for attack in (*ATTACKS, "jpeg-quality.wrong", "linf"):
        read = read_strength(value, attack)
        assert value_as_typed(attack, read) == pytest.approx(value, rel=1e-9)
        assert read == pytest.approx(value if attack == "linf" else 100 - value)
        assert read_strength(repr(value), attack) == read


@given(st.lists(st.integers(min_value=1, max_value=99), min_size=1, unique=True))
def test_what_falls_is_in_order_where_it_falls(strengths: list[int]) -> None:
    """The order of harm: a list is accepted where it falls, and nowhere else."""
    read = [read_strength(each, "resolution") for each in strengths]
    if strengths == sorted(strengths, reverse=True):
        check_strengths(read, "resolution")
    else:
        with pytest.raises(ra.UserError, match=f"not in falling order \\({', '.join(map(str, strengths))}\\)"):
            check_strengths(read, "resolution")


def test_texts_of_strengths() -> None:
    assert parse_grid("80,50,20", "resolution") == (80, 50, 20)
    assert parse_grid("10:9", "resolution") == (90, 80, 70, 60, 50, 40, 30, 20, 10)
    assert read_strengths({"linf": 0.1, "resolution": "80"}) == {"linf": 0.1, "resolution": 20}
    for strange in ("100,50", "120", "100:3", "nothing"):
        with pytest.raises(ra.UserError, match="below 100"):
            parse_grid(strange, "resolution")


def test_parts_of_compositions_are_typed() -> None:
    attack = ra.compose("resolution", "linf", strengths=(80, 8 / 255))
    assert attack.threat.strengths == (20, 8 / 255)  # type: ignore[attr-defined]
    assert attack.about.unit == "share of resolution 80, linf 8/255"
    with pytest.raises(ra.UserError, match="no slope"):
        attack_named("pgd-resolution")


def test_arrays_are_read_as_they_are_typed() -> None:
    """Sizes too; 0 is misclassified without a change, inf is never."""
    sizes = {"resolution": [85, 0, inf, 20]}
    result = Result.from_arrays([0, 0, 0, 0], [0, 1, 0, 0], sizes, {"resolution": [80, 20]})
    assert result.minimal_size("resolution").tolist() == [85, 100, -inf, 20]
    assert result.minimal_strength("resolution").tolist() == [80, 100, -inf, 20]
    again = {"resolution": result.minimal_size("resolution")}
    same = Result.from_arrays([0, 0, 0, 0], [0, 1, 0, 0], again, {"resolution": result.strengths("resolution")})
    assert same.minimal_size("resolution").tolist() == [85, 100, -inf, 20]
    assert result.accuracies().values("resolution").tolist() == [50, 25]
    with pytest.raises(ra.UserError, match=r"falling order \(20, 80\)"):
        Result.from_arrays([0, 0, 0, 0], [0, 1, 0, 0], sizes, {"resolution": [20, 80]})


def test_better_strengths_are_proposed_as_they_are_typed() -> None:
    outcome = made_up("resolution", fails_from={inf: 36, 15: 4}).outcome("resolution")
    advice = grid_advice(outcome, 100.0)
    assert advice is not None
    option, _, steps = advice.option.removeprefix("--strengths resolution=").partition(":")
    assert float(option) < 20
    assert len(parse_grid(f"{option}:{steps}", "resolution")) == int(steps)


def test_curves_say_where_they_change_as_it_is_typed(found: tuple[str, Result, Path]) -> None:
    """Sizes of every kind are typed ones, in the order of harm; a size that changes nothing is refused."""
    attack, result, _ = found
    curve = result.curve(attack)
    assert curve.minimal_sizes.tolist() == result.minimal_size(attack).tolist()
    assert curve.jumps.tolist() == [85, 60, 30]
    assert curve.quantile([0.1, 0.5, 0.9]).tolist() == [85, MEDIAN, -inf]
    assert curve.band().sizes.tolist() == [100, 85, 60, 30]
    assert curve.area(20) == pytest.approx((10 * 25 + 40 * 30 + 70 * 10) / 80)
    other = RobustnessCurve([80] * 8 + [40] * 32, attack=attack)
    assert [(one.start, one.end) for one in curve.crossings(other)] == [(80, 80), (60, 60), (40, 40)]
    steep = RobustnessCurve(np.concatenate([np.linspace(100, 50, 50), np.linspace(50, 40, 50)]), attack=attack)
    bend = change_of_slope(steep, up_to=40)
    assert 48 < bend.size < 52
    assert bend.low >= bend.size >= bend.high
    for strange in (100, 120, inf):
        with pytest.raises(ra.UserError, match="below 100"):
            curve.area(strange)
        with pytest.raises(ra.UserError, match="below 100"):
            change_of_slope(curve, strange)
    for asked in (lambda: curve.at(101), lambda: result.survivors({attack: 101})):
        with pytest.raises(ra.UserError, match="at most 100"):
            asked()
    assert float(curve.at(100)) == 0


def test_other_functions_read_strengths_as_they_are_typed() -> None:
    grid = {90: 94.0, 80: 90.0, 70: 85.0, 60: 80.0, 50: 70.0, 40: 50.0, 30: 20.0}
    linf = dict(zip((1, 2, 4, 8, 16, 32), (91.0, 88.0, 82.0, 71.0, 46.0, 23.0), strict=True))
    table = AccuracyTable(95, {"linf": linf, "resolution": grid})
    found = calibrate("resolution", table)
    assert (found.strengths, found.smallest, found.largest) == ((80, 70, 60, 50, 40, 30), 90, 30)
    assert calibrate("resolution", table, up_to=40).strengths == (90, 80, 70, 60, 50, 40)
    (kept,) = [with_calibration(Reference("own", "", table, ("linf", "resolution")), found).accuracies]
    assert [*kept.entries["resolution"]] == [80, 70, 60, 50, 40, 30]
    margins = [[0.8, 0.5, 0.2, -0.1]]
    assert adversarial_hypervolume(margins, strengths=[80, 60, 40, 20], attack="resolution").mean == 0.375
    with pytest.raises(ra.UserError):
        adversarial_hypervolume(margins, strengths=[20, 40, 60, 80], attack="resolution")


@given(st.data())
def test_every_door_agrees_with_the_typed_sizes(data: st.DataObject) -> None:
    """Of any sizes and strengths: a sample stands where it fails only from less than the strength, as counted here."""
    attack = data.draw(st.sampled_from(ATTACKS))
    strengths = sorted(data.draw(st.sets(st.integers(1, 99), min_size=1, max_size=5)), reverse=True)
    sizes = np.array(data.draw(st.lists(st.sampled_from([-inf, *range(1, 101)]), min_size=1, max_size=20)), float)
    labels = np.zeros(len(sizes), np.int64)
    result = Result.from_arrays(labels, np.where(sizes == 100, 1, 0), {attack: sizes}, {attack: strengths})
    table, curve = result.accuracies(), result.curve(attack)
    assert result.strengths(attack).tolist() == [*table.entries[attack]] == strengths
    assert result.minimal_size(attack).tolist() == curve.minimal_sizes.tolist() == sizes.tolist()
    for strength in strengths:
        expected = pytest.approx(100 * float((sizes < strength).mean()))
        assert table.at(attack, strength) == expected
        assert float(curve.robust_accuracy(strength)) == expected
        assert 100 * float(result.survivors({attack: strength}).mean()) == expected
        assert result.accuracy_bounds({attack: strength}).low == expected
        assert union_accuracy({attack: result.minimal_strength(attack)}, {attack: strength}) == expected


# ---- a study ------------------------------------------------------------------------------------------------------


def test_a_study_says_each_strength_as_its_file_does(tmp_path: Path) -> None:
    """Numbers of its tables are those of its runs, and each stands at the strength that was typed."""
    assert number_label("resolution@80") == "Resolution 80"
    outputs = """
[outputs.all]
kind = "accuracies"
attacks = ["resolution"]

[outputs.curves]
kind = "curves"
attack = "resolution"
at = [75, 25]
up_to = 10

[outputs.pictures]
kind = "gallery"
models = ["plain"]
attacks = ["resolution"]
strengths = { resolution = "25:3" }
"""
    changes = [
        ('attacks = ["linf"]', 'attacks = ["resolution"]'),
        ('strengths = { linf = "0.2:2" }', "strengths = { resolution = [75, 50, 25] }"),
        ('numbers = ["clean", "linf@0.1", "average"]', 'numbers = ["resolution@75", "resolution@25"]'),
        ("against = { linf = 0.1 }", "against = { resolution = 75 }"),
        ('[models.bits]\nof = "plain"\ndefense = "bits=3"\n', ""),
        ("seeds = 2", "seeds = 1"),
        ("seeds = [3, 4]", "seeds = 1"),
    ]
    text = without_sizes(written(tmp_path, written(tmp_path).read_text(encoding="utf-8"), *changes).read_text("utf-8"))
    text = text[: text.index("[outputs.tests]")] + outputs
    done = ra.study(written(tmp_path, text), tmp_path / "out", progress=False)
    assert done.complete
    result = ra.load_result(tmp_path / "out" / "runs" / "main" / "plain" / "seed-0")
    standing = dict(zip((75, 50, 25), result.accuracies().values("resolution").tolist(), strict=True))
    assert standing[75] > standing[25]

    def table(name: str) -> list[dict[str, str]]:
        with (tmp_path / "out" / "outputs" / f"{name}.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))

    (scores,) = [row for row in table("scores") if row["model"] == "plain"]
    for strength in (75, 25):
        assert float(scores[f"Resolution {strength}"]) == pytest.approx(standing[strength], abs=1e-3)
    (row,) = [row for row in table("all-resolution") if row["model"] == "plain"]
    assert [float(row[str(strength)]) for strength in standing] == pytest.approx([*standing.values()], abs=1e-3)
    curves = {row["size"]: float(row["plain"]) for row in table("curves")}
    assert curves == pytest.approx({str(s): 100 - standing[s] for s in (75, 25)}, abs=1e-3)
    about = ra.load_result(tmp_path / "out" / "runs" / "main" / "linf" / "seed-0").about
    assert about["trained_on"] == {"resolution": 75}
    assert "| resolution 75 |" in (tmp_path / "out" / "study.md").read_text(encoding="utf-8")


# ---- all doors and printers ---------------------------------------------------------------------------------------

SOURCE = Path(ra.__file__).parent
OTHER_NUMBERS = {
    "cli/_options.py": "means and deviations",
    "cli/certify.py": "settings of a method",
    "evaluation/field.py": "means and deviations",
    "evaluation/throughput.py": "passes a second",
    "outcomes/strengths.py": "read_strength itself",
    "report/gate/requirements.py": "bounds",
    "studies/description.py": "strengths that stay as they are typed until their attack is known",
    "training/against.py": "strengths that stay as they are typed until their attack is known",
}
"""Files that read numbers from texts by `fraction`, and which; strengths are read by `read_strength`."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_strengths_are_read_by_one_function() -> None:
    """No other file turns texts into numbers, nor has a number from which strengths fall."""
    reading = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "parse_fraction"
    }
    assert reading == set(OTHER_NUMBERS)
    turning = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "round"
        and any(isinstance(part, ast.Name) and part.id in {"top", "start"} for part in ast.walk(node))
    }  # fmt: skip
    assert turning == {"common/typed_strengths.py", "outcomes/strengths.py"}


ONLY_RISE = {
    "metrics/hypervolume.py": "arrays at hand, of no attack",
    "outcomes/strengths.py": "parts of 255",
    "training/references.py": "names of folders, by what was typed",
    "threats/base.py": "attacks whose strengths rise; those that fall have a sentence of their own",
    "threats/probe.py": "threat models of one's own, by themselves",
}
"""Files that format strengths by themselves, and which."""


def test_strengths_are_written_by_few_functions() -> None:
    """Nobody formats what is called a strength or size by `:g`, as that forgets how it is typed."""

    def is_strength(node: ast.FormattedValue) -> bool:
        spec = ast.unparse(node.format_spec) if node.format_spec else ""
        names = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        names |= {part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute)}
        written = any(isinstance(part, ast.Call) for part in ast.walk(node.value))
        return "g" in spec and not written and any(re.search("strength|epsilon|^size$|minimal", name) for name in names)

    writing = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and is_strength(node)
    }
    assert writing == set(ONLY_RISE)
