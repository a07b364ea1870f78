"""The leaderboard as a folder of static files: published defenses and the user's own runs, side by side."""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.attack_labels import GROUPS, attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.files import explain_write_errors, parse_path
from robustatlas.common.styles import Style, model_styles
from robustatlas.common.typed_strengths import (
    STANDARD_STRENGTHS,
    STANDARD_TOLERANCE,
    axis_label,
    falling_scale_start,
    format_strength,
    text_as_typed,
)
from robustatlas.common.wording import join_words, pluralise
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references import Reference, available_fields, available_references
from robustatlas.metrics.references.reference import CLEAN, point_value
from robustatlas.metrics.trainings import mean_over_trainings
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.comparable import Subject, attack_differences, different_data, refusal_to_compare
from robustatlas.outcomes.strengths import read_strengths, strength_position
from robustatlas.report import field, pages, words
from robustatlas.report.facts.field import Beside, field_places
from robustatlas.report.facts.ranks import ranks, score_of
from robustatlas.report.facts.rows import (
    HYPERVOLUME_ATTACK,
    RATIO,
    STABILITY,
    About,
    Ground,
    Row,
    join_trainings,
    model_facts,
    published_rows,
    read_about,
    run_row,
    sparse_rows,
    training_interval,
)
from robustatlas.report.looks import look_of, style_sheet
from robustatlas.report.numbers.against import against_what
from robustatlas.report.numbers.number import CERTIFIED, HYPERVOLUME, MEDIAN, WORST, Numbers
from robustatlas.report.numbers.plain import finite
from robustatlas.report.numbers.shared import subject_of
from robustatlas.report.numbers.steadiness import ALPHA
from robustatlas.report.numbers.texts import status_text
from robustatlas.report.numbers.units import unit_of
from robustatlas.report.pages import parts
from robustatlas.results.result import Result

MOST_BESIDE = 5
"""Runs of a board that are shown beside the field: those that rank best."""

BESIDE_CANDIDATES = 20
"""Runs of which the page has what stands beside the field, the best ones by its first ranking: a visitor's
ranking shows the best :data:`MOST_BESIDE` of these."""

LONG = 100
"""A board of more rows is a long one: its data are compressed in the page, and only rows near the screen are drawn."""

SCRIPTS = (
    "page.js",
    "scrolling.js",
    "metrics.js",
    "plots.js",
    "address.js",
    "columns.js",
    "exports.js",
    "groups.js",
    "table.js",
    "drawer.js",
    "comparison.js",
    "leaderboard.js",
)
STYLES = ("base.css", "leaderboard.css")


def board_data(
    reference: Reference,
    rows: Sequence[Row],
    title: str,
    compared: bool = True,
    images: int | None = None,
    alpha: float = ALPHA,
) -> dict[str, Any]:
    """Return the data of the page's script: attacks with the reference, and each row's accuracies on its strengths.

    Strengths that the reference does not have are left out; entries that a row does not have are None. ``compared``:
    whether the reference is one, or that of `Ground`; ``images``: that all rows share.
    """
    attacks = sorted(reference.accuracies.attacks, key=lambda attack: _sort_key(reference, attack))
    if not rows:
        raise UserError(f"There is nothing to show: {reference.name} has no published defenses, and no run is given.")
    unique = _with_unique_names(rows)
    single = [training for row in unique for training in row.trainings or [row]]
    styles = _styles(unique)
    looks = list(dict.fromkeys(styles))
    shown = zip(unique, sparse_rows(unique), map(looks.index, styles), strict=True)
    return {
        "title": title,
        "compared": compared,
        "long": len(rows) > LONG,
        "hypervolume": attack_label(HYPERVOLUME_ATTACK).label,
        "official": reference.weights is None and reference.name in {*available_references()} - {*available_fields()},
        "alpha": alpha,
        "reference": _reference(reference, rows),
        "images": images,
        "attacks": [
            {
                "name": attack,
                "label": attack_label(attack).label,
                "axis": axis_label(unit_of(attack), attack=attack),
                "falls": falling_scale_start(attack),
                "usual": STANDARD_STRENGTHS.get(attack),
                "group": attack_label(attack).group,
                "ranked": attack in reference.ranked,
                "strengths": reference.accuracies.distances(attack).tolist(),
                "written": [
                    format_strength(at, attack=attack) for at in reference.accuracies.distances(attack).tolist()
                ],
                "reference": reference.accuracies.values(attack).tolist(),
                "weights": _weights(reference, attack),
                "standard": _standard(attack, reference.accuracies.distances(attack)),
            }
            for attack in attacks
        ],
        "looks": [look_of(style) for style in looks],
        "bounds": _bounds(single),
        "defenses": [_defense(row, reference, few, look) for row, few, look in shown],
    }


def _reference(reference: Reference, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "name": reference.name,
        "source": reference.source,
        "clean": finite(reference.clean),
        "weight": 1 if reference.weights is None else reference.weights.get(CLEAN, 0),
        "what": against_what(reference, [each.name for row in rows for each in row.trainings or [row]]),
        "trained": not reference.models,
    }


def _weights(reference: Reference, attack: str) -> list[float] | None:
    """Return the weight of each strength of a ranked attack; None: 1 wherever a reader chooses it."""
    if reference.weights is None or attack not in reference.ranked:
        return None
    found = [point_value(reference.weights, attack, s) for s in reference.accuracies.distances(attack).tolist()]
    return [float(weight) for weight in np.nan_to_num(found)]


def build_leaderboard(
    results: Iterable[Result],
    output: str | Path,
    reference: Reference | None,
    about: str | Path | Mapping[str, Mapping[str, Any]] | None = None,
    title: str | None = None,
    alpha: float = ALPHA,
) -> Path:
    """Write the leaderboard site; it works from the folder, without a server and without a network.

    Args:
        results: runs to show next to the published defenses of the reference; may be empty. They are taken one by one
            (without a reference twice), so that most of :class:`robustatlas.results.result.Results` are not in memory.
        output: the folder; created where it does not exist.
        reference: the accuracies that models reach when they are trained against the very attack; None for a board
            that needs none: it ranks by the mean accuracy at the (attack, strength) that all runs share.
        about: model name -> what is to be said of it (see `robustatlas.report.facts.rows.About`), or the path of a JSON
            file of that; for models that are not named, what their runs keep.
        title: of the site.
        alpha: of the stability constants, in percentage points.

    Runs whose names differ in the seed alone (``avg-seed0``, ``avg-seed1``) are one row: the means over the trainings.

    Returns:
        the path of the page to open.

    Raises:
        UserError: as of `Reference.drop_zeros`; nothing to show; runs about different data; the folder is a file.
    """
    details = read_about(about)
    runs = list(results) if reference is None and isinstance(results, Iterator) else results
    ground = Ground.from_results(runs) if reference is None else None
    compared = ground.reference if ground else reference.drop_zeros() if reference else None
    assert compared is not None
    own_runs = _read_runs(runs, compared, details, ground)
    if strangers := [name for name in details if name not in own_runs.known_names]:
        names = ", ".join(row.name for row in own_runs.rows) or "none"
        raise UserError(
            f"{', '.join(strangers)} is described, but no run has a model of that name; the runs have {names}."
        )
    rows = _with_unique_names([*published_rows(compared), *join_trainings(own_runs.rows)])
    images = None if ground is None else len(ground.index)
    board = board_data(compared, rows, title or _title(reference), reference is not None, images, alpha)
    folder = parse_path(output)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder for the leaderboard.")
    files = {name: pages.static(name) for name in (*STYLES, *SCRIPTS)} | {"plotly.min.js": pages.plotly_script()}
    ranking = _ranking(rows, compared)
    styles = dict(zip([row.name for row in rows], _styles(rows), strict=True))
    beside = _best_beside([row for _, row, _ in ranking if row.own_run], own_runs.field_places)
    page = pages.render(
        "leaderboard.html",
        board=board,
        summary=_summary(board),
        doubts=list(dict.fromkeys([*own_runs.refusals, *(doubt for row in own_runs.rows for doubt in row.doubts)])),
        ranking=ranking,
        scripts=SCRIPTS,
        fields=[
            view
            for place, (row, places) in enumerate(beside, start=1)
            for view in field.views(row.label, places, place)
        ],
        most_beside=MOST_BESIDE,
        looks=style_sheet([styles[row.name] for row, _ in beside]),
    )
    _write_all(folder, files | {"index.html": page})
    return folder / "index.html"


def _ranking(rows: Sequence[Row], reference: Reference) -> list[tuple[int | None, Row, float | None]]:
    """Return place, row and score in percent, first places first: what a browser without scripts shows."""
    scores = [score_of(row, reference) or (None, None) for row in rows]
    ranked = [
        (None, None) if row.unranked or masked_shares(row, reference.ranked) else score
        for row, score in zip(rows, scores, strict=True)
    ]
    places = ranks(*map(list, zip(*ranked, strict=True)))
    found = [(place, row, score) for place, row, (score, _) in zip(places, rows, scores, strict=True)]
    return sorted(found, key=lambda one: (one[0] is None, one[0]))


def _styles(rows: Sequence[Row]) -> list[Style]:
    """Return the styles of rows: runs as on a page of the same runs, published defenses other than these."""
    run_styles = model_styles([row.name for row in rows if row.own_run])
    published_styles = model_styles([row.name for row in rows if not row.own_run], taken=run_styles)
    of_runs, of_published = iter(run_styles), iter(published_styles)
    return [next(of_runs if row.own_run else of_published) for row in rows]


@dataclass(frozen=True)
class _OwnRuns:
    """The runs of a board without their outcomes, which need much memory.

    Attributes:
        rows: one for each run.
        known_names: names under which the models of the runs can be described.
        field_places: name of a row -> the fields that its run can stand beside.
        refusals: sentences on what is not compared.
    """

    rows: list[Row]
    known_names: set[str]
    field_places: Mapping[str, tuple[Beside, ...]]
    refusals: list[str]


def _read_runs(
    results: Iterable[Result], reference: Reference, details: Mapping[str, About], ground: Ground | None
) -> _OwnRuns:
    """Read the runs one by one.

    Raises:
        UserError: the runs are about different data.
    """
    rows: list[Row] = []
    names: set[str] = set()
    places: list[tuple[Beside, ...]] = []
    subjects: list[Subject] = []
    for result in results:
        shared = result if ground is None else ground.restrict(result)
        rows.append(run_row(shared, reference, model_facts(result, details)))
        names |= {result.name, result.recorded_name}
        subjects.append(subject_of(result, result.name))
        places.append(field_places(result))
    if problem := different_data(subjects):
        raise UserError(f"{problem} Make a board for each data set.")
    differences = attack_differences(subjects)
    refusals = [refusal_to_compare(attack, how) for attack, how in differences.items()]
    refusals += [subject.unfinished_note for subject in subjects if subject.missing]
    unique = _with_unique_names([row.drop_attacks(differences) for row in rows])
    beside = {row.name: found for row, found in zip(unique, places, strict=True) if found}
    return _OwnRuns(unique, names, beside, refusals)


def _best_beside(rows: Sequence[Row], places: Mapping[str, tuple[Beside, ...]]) -> list[tuple[Row, tuple[Beside, ...]]]:
    """Return the best of the ranked rows with what a run of them stands beside; of trainings the first speaks."""
    first = [(row, (row.trainings or (row,))[0].name) for row in rows]
    return [(row, places[name]) for row, name in first if name in places][:BESIDE_CANDIDATES]


def _write_all(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files into a folder, all or none: only once every one is on the disk do they take their names."""
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            for name, text in texts.items():
                (Path(new) / name).write_text(text, encoding="utf-8")
            for name in texts:
                (Path(new) / name).replace(folder / name)


def _title(reference: Reference | None) -> str:
    if reference is None:
        return "Multiattack robustness"
    names = {"multirobustbench-cifar10": "Multiattack robustness on CIFAR-10"}
    return names.get(reference.name, f"Multiattack robustness: {reference.name}")


def _summary(board: Mapping[str, Any]) -> str:
    own_rows = [defense for defense in board["defenses"] if defense["ownRun"]]
    published = len(board["defenses"]) - len(own_rows)
    ranked = sum(attack["ranked"] for attack in board["attacks"])
    runs = sum(len(defense.get("trainings", [defense])) for defense in own_rows)
    recipes = f" in {pluralise(len(own_rows), 'row')}" if runs > len(own_rows) else ""
    shown = [pluralise(published, "published defense")] if published else []
    shown += [f"{pluralise(runs, 'run')} of yours{recipes}"] if runs else []
    strengths = (
        "several strengths" if any(len(attack["strengths"]) > 1 for attack in board["attacks"]) else "one strength"
    )
    measured = f"{join_words(shown)}, measured with {pluralise(len(board['attacks']), 'attack')} at {strengths}"
    if not board["compared"]:
        return (
            f"{measured}. Ranked by the mean of the clean accuracy and those under {pluralise(ranked, 'attack')}, on "
            f"the {pluralise(board['images'], 'image')} that all have."
        )
    what, name = board["reference"]["what"], board["reference"]["name"]
    if not board["reference"]["trained"]:
        return f"{measured}, relative to {what}. The ranking counts {pluralise(ranked, 'attack')}."
    against = what if published else f"the reference {name}, of {what}"
    whose = "official ranking" if board["official"] else "ranking of the reference"
    return f"{measured} and held against {against}. The {whose} counts {pluralise(ranked, 'attack')}."


def _standard(attack: str, strengths: NDArray[np.float64]) -> dict[str, Any] | None:
    """Return the level of the board that is nearest to the strength that papers give, if one is near."""
    if attack not in STANDARD_STRENGTHS:
        return None
    usual, written = STANDARD_STRENGTHS[attack]
    level = int(np.abs(strengths - usual).argmin())
    off = abs(strengths[level] / usual - 1)
    return {"level": level, "strength": written, "exact": bool(off < 1e-5)} if off < STANDARD_TOLERANCE else None


def _headline(row: Row) -> str:
    """Return the headline of a run, in words that follow its name; empty for published rows."""
    return "" if row.headline is None else words.headline_sentence(row.headline)


def _defense(row: Row, reference: Reference, few: bool, look: int) -> dict[str, Any]:
    strengths = {attack: reference.accuracies.distances(attack).tolist() for attack in reference.accuracies.attacks}
    shared = {attack: grid for attack, grid in strengths.items() if attack in row.accuracies.entries}
    hypervolume, worst = row.numbers.find(HYPERVOLUME, HYPERVOLUME_ATTACK), row.numbers.find(WORST)
    return {
        "name": row.label,
        "parts": parts(row.label),
        "look": look,
        "title": row.about.title,
        "url": pages.web_address(row.about.url),
        "architecture": row.about.architecture,
        "extraData": row.about.extra_data,
        "trainedOn": read_strengths(row.about.trained_on) if row.about.tells_training else None,
        "trainedTyped": dict(row.about.trained_on),
        "trainedWords": {
            attack: f"{'≤' if falling_scale_start(attack) is None else '≥'} {text_as_typed(at)}"
            for attack, at in row.about.trained_on.items()
        },
        "clean": finite(row.accuracies.clean),
        "accuracies": {
            attack: _grid_accuracies(row.accuracies.distance_entries[attack], grid) for attack, grid in shared.items()
        },
        "ratios": _ends_by_kind(row.numbers, RATIO),
        "constants": _ends_by_kind(row.numbers, STABILITY),
        "most": 100 if any(each.name in reference.models for each in row.trainings or [row]) else None,
        "invalid": list(row.invalid),
        "unranked": row.unranked,
        "certified": _certified(row, reference),
        "samples": row.samples,
        "few": few,
        "hypervolume": hypervolume and hypervolume.value,
        "hypervolumeIs": status_text(hypervolume) if hypervolume else "",
        "union": worst and worst.value,
        "own": {number.what: number.value for name in row.own_names for number in row.numbers.select(name)},
        "petaflops": row.petaflops,
        "notes": "; ".join(row.notes),
        "ownRun": row.own_run,
        "halves": {median.attack: words.median_sentence(median) for median in row.numbers.select(MEDIAN)},
        "ownThreats": list(row.own_threat),
        "headline": _headline(row),
    } | (_trainings(row, reference, few, look) if row.trainings else {})


def _ends_by_kind(numbers: Numbers, name: str) -> dict[str, list[float | None]]:
    """Return kind -> the ends of each number that is called `name` and its kind."""
    return {one.what.removeprefix(name): _ends(one) for one in numbers if one.what.startswith(name)}


def _ends(number: Interval) -> list[float | None]:
    return [finite(number.low), finite(number.high)]


def _certified(row: Row, reference: Reference) -> dict[str, list[float | None]]:
    """Return the accuracies that are certified of the model itself, at the strengths of the board."""
    found: dict[str, list[float | None]] = {}
    for number in row.numbers.select(CERTIFIED):
        if number.attack in reference.accuracies.attacks and number.attack not in found:
            grid = reference.accuracies.distances(number.attack).tolist()
            points = {one.strength: one.value for one in row.numbers.select(CERTIFIED, number.attack)}
            found[number.attack] = [value and _rounded(value) for value in _grid_accuracies(points, grid)]
    return found


def _trainings(row: Row, reference: Reference, few: bool, look: int) -> dict[str, Any]:
    """Return what the row of several trainings has beside: its trainings, and intervals over the choice of them.

    `perDeviation` times the standard deviation of a number is half of its interval, as `mean_over_trainings` has it.
    """
    count = len(row.trainings)
    spans: dict[str, list[list[float | None]]] = {}
    for attack in [attack for attack in reference.accuracies.attacks if attack in row.accuracies.entries]:
        tables = [training.accuracies.distance_entries[attack] for training in row.trainings]
        grid = reference.accuracies.distances(attack).tolist()
        values = zip(*(_grid_accuracies(table, grid) for table in tables), strict=True)
        spans[attack] = [
            _ends(training_interval([*each], most=100.0)) if None not in each else [None, None] for each in values
        ]
    half = mean_over_trainings([0.0] * (count - 1) + [1.0])
    return {
        "trainings": [_defense(training, reference, few, look) for training in row.trainings],
        "perDeviation": (half.high - half.value) / float(np.std([0.0] * (count - 1) + [1.0], ddof=1)),
        "cleanBounds": _ends(training_interval([training.accuracies.clean for training in row.trainings], most=100.0)),
        "low": {attack: [low for low, _ in each] for attack, each in spans.items()},
        "high": {attack: [high for _, high in each] for attack, each in spans.items()},
    }


def _bounds(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return for each number of images the accuracies of the rows with that number, and their exact bounds."""
    found = []
    for samples in dict.fromkeys(row.samples for row in rows if row.samples):
        alike = [row for row in rows if row.samples == samples]
        entries = (entries for row in alike for entries in row.accuracies.entries.values())
        values = {row.accuracies.clean for row in alike}.union(*(row.values() for row in entries))
        of = sorted(filter(math.isfinite, values))
        low, high = alike[0].bounds(of) or ([], [])
        found.append({"samples": samples, "of": of, "low": [*map(_rounded, low)], "high": [*map(_rounded, high)]})
    return found


def _rounded(value: float) -> float:
    return round(value, 4)


def _grid_accuracies(entries: Mapping[float, float], strengths: Sequence[float]) -> list[float | None]:
    """Return the accuracies at strengths; None where the entries have none of that strength."""
    values = list(entries.values())
    found = [strength_position(at, entries) for at in strengths]
    return [None if position is None else values[position] for position in found]


def _with_unique_names(rows: Sequence[Row]) -> list[Row]:
    taken: set[str] = set()
    unique = []
    for row in rows:
        name, count = row.name, 1
        while name in taken:
            count += 1
            name = f"{row.name} ({count})"
        taken.add(name)
        unique.append(replace(row, name=name))
    return unique


def _sort_key(reference: Reference, attack: str) -> tuple[int, bool, int]:
    """Return the place of an attack: by group, in a group the ranked attacks first, then in the reference's order."""
    return (
        GROUPS.index(attack_label(attack).group),
        attack not in reference.ranked,
        reference.accuracies.attacks.index(attack),
    )
