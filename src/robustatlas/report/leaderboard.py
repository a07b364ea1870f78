"""The leaderboard as a folder of static files: published defenses and the user's own runs, side by side."""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from robustatlas.common.wording import add_mark, join_words, pluralise
from robustatlas.metrics.references import Reference, available_fields, available_references
from robustatlas.metrics.references.reference import CLEAN, point_value
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.comparable import Subject, attack_differences, different_data, refusal_to_compare
from robustatlas.outcomes.strengths import read_strengths, strength_position
from robustatlas.report import field, pages, words
from robustatlas.report.facts.field import field_places
from robustatlas.report.facts.ranks import ranks, score_of
from robustatlas.report.facts.rows import (
    HYPERVOLUME_ATTACK,
    About,
    Ground,
    Row,
    model_facts,
    published_rows,
    read_about,
    run_row,
    sparse_rows,
)
from robustatlas.report.looks import look_of, style_sheet
from robustatlas.report.numbers.against import against_what
from robustatlas.report.numbers.plain import finite
from robustatlas.report.numbers.shared import distinct_names, subject_of
from robustatlas.report.numbers.steadiness import ALPHA
from robustatlas.report.numbers.units import unit_of
from robustatlas.report.pages import parts
from robustatlas.results.result import Result

MOST_BESIDE = 5
"""Runs of a board that are shown beside the field."""

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
    attacks = sorted(reference.accuracies.attacks, key=lambda attack: _place(reference, attack))
    if not rows:
        raise UserError(f"There is nothing to show: {reference.name} has no published defenses, and no run is given.")
    unique = _with_unique_names(rows)
    styles = _styles(unique)
    looks = list(dict.fromkeys(styles))
    shown = zip(unique, sparse_rows(unique), styles, strict=True)
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
        "bounds": _bounds(unique),
        "defenses": [_defense(row, reference, few) | {"look": looks.index(style)} for row, few, style in shown],
    }


def _reference(reference: Reference, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "name": reference.name,
        "source": reference.source,
        "clean": finite(reference.clean),
        "weight": 1 if reference.weights is None else reference.weights.get(CLEAN, 0),
        "what": against_what(reference, [row.name for row in rows]),
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

    Returns:
        the path of the page to open.

    Raises:
        UserError: as of `Reference.drop_zeros`; nothing to show; runs about different data; the folder is a file.
    """
    details = read_about(about)
    runs = list(results) if reference is None and isinstance(results, Iterator) else results
    ground = Ground.from_results(runs) if reference is None else None
    against = ground.reference if ground else reference.drop_zeros() if reference else None
    assert against is not None
    own, known, first, unlike = _run_rows(runs, against, details, ground)
    if strangers := [name for name in details if name not in known]:
        names = ", ".join(row.name for row in own) or "none"
        raise UserError(
            f"{', '.join(strangers)} is described, but no run has a model of that name; the runs have {names}."
        )
    rows = [*published_rows(against), *own]
    images = None if ground is None else len(ground.index)
    board = board_data(against, rows, title or _title(reference), reference is not None, images, alpha)
    folder = parse_path(output)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder for the leaderboard.")
    files = {name: pages.static(name) for name in (*STYLES, *SCRIPTS)} | {"plotly.min.js": pages.plotly_script()}
    page = pages.render(
        "leaderboard.html",
        board=board,
        summary=_summary(board),
        doubts=list(dict.fromkeys([*unlike, *(doubt for row in own for doubt in row.doubts)])),
        ranking=_ranking(rows, against),
        scripts=SCRIPTS,
        fields=_field_views(first),
        looks=style_sheet(_styles(rows)[len(rows) - len(own) :][:MOST_BESIDE]),
    )
    _write_all(folder, files | {"index.html": page})
    return folder / "index.html"


def _ranking(rows: Sequence[Row], reference: Reference) -> list[tuple[int | None, Row, float | None]]:
    """Place, row and score in percent, first places first: what a browser without scripts shows."""
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
    own = model_styles([row.name for row in rows if row.own_run])
    published = model_styles([row.name for row in rows if not row.own_run], taken=own)
    ours, others = iter(own), iter(published)
    return [next(ours if row.own_run else others) for row in rows]


def _run_rows(
    results: Iterable[Result], reference: Reference, details: Mapping[str, About], ground: Ground | None
) -> tuple[list[Row], set[str], list[Result], list[str]]:
    """Return the rows of runs, the names of their models, the first runs, and sentences on what is not compared.

    Of a thousand runs all but the first are let go again.

    Raises:
        UserError: the runs are about different data.
    """
    rows: list[Row] = []
    names: set[str] = set()
    first: list[Result] = []
    subjects: list[Subject] = []
    for result in results:
        shared = result if ground is None else ground.restrict(result)
        rows.append(run_row(shared, reference, model_facts(result, details)))
        names |= {result.name, result.recorded_name}
        subjects.append(subject_of(result, result.name))
        if len(first) < MOST_BESIDE:
            first.append(result)
    if differ := different_data(subjects):
        raise UserError(f"{differ} Make a board for each data set.")
    unlike = attack_differences(subjects)
    said = [refusal_to_compare(attack, how) for attack, how in unlike.items()]
    said += [subject.unfinished_note for subject in subjects if subject.missing]
    return [row.drop_attacks(unlike) for row in rows], names, first, said


def _field_views(runs: Sequence[Result]) -> list[field.FieldView]:
    names = [add_mark(name, run.is_suspect) for name, run in zip(distinct_names(runs), runs, strict=True)]
    return [
        view
        for place, (run, name) in enumerate(zip(runs[:MOST_BESIDE], names, strict=False), start=1)
        for view in field.views(name, field_places(run), place)
    ]


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
    own = sum(defense["ownRun"] for defense in board["defenses"])
    published = len(board["defenses"]) - own
    ranked = sum(attack["ranked"] for attack in board["attacks"])
    shown = [pluralise(published, "published defense")] if published else []
    shown += [f"{pluralise(own, 'run')} of yours"] if own else []
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
    """The level of the board that is nearest to the strength at which papers give the accuracy; None where none is."""
    if attack not in STANDARD_STRENGTHS:
        return None
    usual, written = STANDARD_STRENGTHS[attack]
    level = int(np.abs(strengths - usual).argmin())
    off = abs(strengths[level] / usual - 1)
    return {"level": level, "strength": written, "exact": bool(off < 1e-5)} if off < STANDARD_TOLERANCE else None


def _headline(row: Row) -> str:
    """The number that comes first of a run, in words that follow its name; empty for published rows."""
    return "" if row.headline is None else words.headline_sentence(row.headline)


def _defense(row: Row, reference: Reference, few: bool) -> dict[str, Any]:
    strengths = {attack: reference.accuracies.distances(attack).tolist() for attack in reference.accuracies.attacks}
    shared = {attack: grid for attack, grid in strengths.items() if attack in row.accuracies.entries}
    return {
        "name": row.label,
        "parts": parts(row.label),
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
            attack: _aligned(row.accuracies.distance_entries[attack], grid) for attack, grid in shared.items()
        },
        "ratios": {kind: [number.low, number.high] for kind, number in row.ratios.items()},
        "constants": {f"{floor:g}": [number.low, number.high] for floor, number in row.constants.items()},
        "most": 100 if row.name in reference.models else None,
        "invalid": list(row.invalid),
        "unranked": row.unranked,
        "certified": {
            attack: [_rounded(value) for value in entries.values()] for attack, entries in row.certified.items()
        },
        "samples": row.samples,
        "few": few,
        "hypervolume": row.hypervolume,
        "hypervolumeIs": row.hypervolume_is,
        "union": row.worst,
        "own": dict(row.own),
        "petaflops": row.petaflops,
        "notes": row.notes,
        "ownRun": row.own_run,
        "halves": {attack: words.median_sentence(median) for attack, median in row.medians.items()},
        "ownThreats": list(row.own_threat),
        "headline": _headline(row),
    }


def _bounds(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each number of images the accuracies that some row has on so many, and their exact bounds."""
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


def _aligned(entries: Mapping[float, float], strengths: Sequence[float]) -> list[float | None]:
    """Accuracies at the strengths, None where the entries have none of that strength."""
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


def _place(reference: Reference, attack: str) -> tuple[int, bool, int]:
    """By group; within a group ranked attacks come first, and then the reference's own order counts."""
    return (
        GROUPS.index(attack_label(attack).group),
        attack not in reference.ranked,
        reference.accuracies.attacks.index(attack),
    )
