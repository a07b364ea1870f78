"""The leaderboard as a folder of static files: published defenses and the user's own runs, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robustatlas.errors import UserError
from robustatlas.metrics.accuracies import AccuracyTable, read_json, same_strength
from robustatlas.metrics.hypervolume import adversarial_hypervolume
from robustatlas.references import Reference
from robustatlas.report import pages, words
from robustatlas.report.vocabulary import GROUPS, describe

if TYPE_CHECKING:
    from robustatlas.outcomes import Result

ALPHA = 3.0
"""Largest difference of difficulty in the stability constant, in percentage points (MultiRobustBench)."""

PUBLISHED_SAMPLES = {"multirobustbench-cifar10": 10_000}
"""Test images behind each accuracy of the published defenses of a reference."""

HYPERVOLUME_ATTACK = "linf"
"""The attack whose margins give the hypervolume of a row."""

SCRIPTS = ("page.js", "metrics.js", "plots.js", "address.js", "exports.js", "leaderboard.js")
STYLES = ("base.css", "leaderboard.css")


@dataclass(frozen=True)
class Entry:
    """One row of the board.

    Attributes:
        name: of the defense; unique on a board.
        accuracies: in percent.
        title: of the paper.
        url: of the paper; shown as a link where it is an http or https address.
        architecture: of the network.
        extra_data: whether it was trained with more than the data set's own images; None where unknown.
        trained_on: attack -> largest strength it was trained against.
        samples: number of test images behind the accuracies; None where unknown, and then no interval is shown.
        hypervolume: adversarial hypervolume in [0, 1]; None where unknown.
        notes: free text.
        own_run: whether it is a run of the user.
    """

    name: str
    accuracies: AccuracyTable
    title: str = ""
    url: str = ""
    architecture: str = ""
    extra_data: bool | None = None
    trained_on: Mapping[str, float] = field(default_factory=dict)
    samples: int | None = None
    hypervolume: float | None = None
    notes: str = ""
    own_run: bool = False


def published_entries(reference: Reference) -> list[Entry]:
    """The defenses that come with a reference."""
    return [
        Entry(
            name=defense.name,
            accuracies=defense.accuracies,
            title=defense.title,
            url=defense.paper_url,
            architecture=defense.architecture,
            extra_data=defense.extra_data,
            trained_on=defense.trained_on,
            samples=PUBLISHED_SAMPLES.get(reference.name),
            notes="; ".join(defense.notes),
        )
        for defense in reference.defenses
    ]


def run_entry(result: Result, about: Mapping[str, Any] | None = None) -> Entry:
    """The row of a run.

    Args:
        result: the run; attacks that judge each strength on its own count only if every strength was searched.
        about: what a run does not know of its model: `title`, `url`, `architecture`, `extra_data`, `trained_on` and
            `notes`.

    Example:
        >>> from robustatlas.outcomes import Result
        >>> result = Result.from_arrays([0, 1], [0, 1], {"linf": [0.015, 0.04]}, {"linf": [0.01, 0.02]}, model="mine")
        >>> entry = run_entry(result, {"trained_on": {"linf": 0.03}})
        >>> entry.name, entry.samples, entry.accuracies.values("linf")
        ('mine', 2, array([100.,  50.]))
    """
    given = dict(about or {})
    known = {"title", "url", "architecture", "extra_data", "trained_on", "notes"}
    if unknown := sorted(given.keys() - known):
        raise UserError(f"{', '.join(unknown)} says nothing about a defense; known are {', '.join(sorted(known))}")
    notes = [given.pop("notes", "")]
    if result.missing:
        lacking = ", ".join(f"{attack} ({count})" for attack, count in result.missing.items())
        notes.append(f"unfinished run, samples not yet evaluated: {lacking}")
    return Entry(
        name=result.manifest.settings.model.name,
        accuracies=result.accuracies(),
        samples=len(result.index),
        hypervolume=_hypervolume(result),
        notes="; ".join(note for note in notes if note),
        own_run=True,
        **given,
    )


def board_data(reference: Reference, entries: Sequence[Entry], title: str) -> dict[str, Any]:
    """What the page's script reads: attacks with the reference, and every entry's accuracies on the same strengths.

    Strengths that the reference does not have are left out; cells that an entry does not have are None.
    """
    attacks = sorted(reference.accuracies.attacks, key=lambda attack: _place(reference, attack))
    if not entries:
        raise UserError(f"there is nothing to show: {reference.name} has no published defenses, and no run is given")
    return {
        "title": title,
        "alpha": ALPHA,
        "reference": {"name": reference.name, "source": reference.source, "clean": _number(reference.clean)},
        "attacks": [
            {
                "name": attack,
                "label": describe(attack).label,
                "axis": describe(attack).axis,
                "group": describe(attack).group,
                "ranked": attack in reference.ranked,
                "strengths": reference.accuracies.strengths(attack).tolist(),
                "reference": reference.accuracies.values(attack).tolist(),
            }
            for attack in attacks
        ],
        "defenses": [_defense(entry, reference) for entry in _with_unique_names(entries)],
    }


def build_leaderboard(
    results: Iterable[Result],
    output: str | Path,
    reference: Reference,
    about: str | Path | Mapping[str, Mapping[str, Any]] | None = None,
    title: str | None = None,
) -> Path:
    """Write the leaderboard site; it works from the folder, without a server and without a network.

    Args:
        results: runs to show next to the published defenses of the reference; may be empty.
        output: the folder; created where it does not exist.
        reference: the accuracies that models reach when they are trained against the very attack.
        about: model name -> what its run does not know (see `run_entry`), or the path of a JSON file of that.
        title: of the site.

    Returns:
        the path of the page to open.
    """
    details = read_about(about)
    own = [run_entry(result, details.pop(result.manifest.settings.model.name, None)) for result in results]
    if details:
        names = ", ".join(entry.name for entry in own) or "none"
        raise UserError(
            f"{', '.join(details)} is described, but no run has a model of that name; the runs have {names}"
        )
    board = board_data(reference, [*published_entries(reference), *own], title or _title(reference))
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder for the leaderboard")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*STYLES, *SCRIPTS):
        (folder / name).write_text(pages.static(name), encoding="utf-8")
    (folder / "plotly.min.js").write_text(pages.plotly_script(), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(
        pages.render("leaderboard.html", board=board, summary=_summary(board), scripts=SCRIPTS), encoding="utf-8"
    )
    return page


def read_about(about: str | Path | Mapping[str, Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    """Model name -> what a run does not know of its model, given as such or as the path of a JSON file.

    >>> read_about({"mine": {"trained_on": {"linf": 0.03}}})
    {'mine': {'trained_on': {'linf': 0.03}}}
    """
    entries = read_json(about) if isinstance(about, str | Path) else (about or {})
    if not isinstance(entries, Mapping) or not all(isinstance(entry, Mapping) for entry in entries.values()):
        raise UserError(f'{about} must hold {{"model name": {{"trained_on": {{"linf": 0.03}}, ...}}}}')
    return dict(entries)


def _title(reference: Reference) -> str:
    names = {"multirobustbench-cifar10": "Multiattack robustness on CIFAR-10"}
    return names.get(reference.name, f"Multiattack robustness: {reference.name}")


def _summary(board: Mapping[str, Any]) -> str:
    own = sum(defense["ownRun"] for defense in board["defenses"])
    published = len(board["defenses"]) - own
    ranked = sum(attack["ranked"] for attack in board["attacks"])
    shown = [words.count(published, "published defense")] if published else []
    shown += [f"{words.count(own, 'run')} of yours"] if own else []
    levels = "several strengths" if any(len(attack["strengths"]) > 1 for attack in board["attacks"]) else "one strength"
    against = (
        "models that were trained for each of them" if published else f"the reference {board['reference']['name']}"
    )
    return (
        f"{words.listed(shown)}, measured with {words.count(len(board['attacks']), 'attack')} at {levels} and held "
        f"against {against}. The official ranking counts {words.count(ranked, 'attack')}; choose your own below."
    )


def _defense(entry: Entry, reference: Reference) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "url": pages.web_address(entry.url),
        "architecture": entry.architecture,
        "extraData": entry.extra_data,
        "trainedOn": dict(entry.trained_on),
        "clean": _number(entry.accuracies.clean),
        "accuracies": {
            attack: _aligned(entry.accuracies.cells[attack], reference.accuracies.strengths(attack).tolist())
            for attack in reference.accuracies.attacks
            if attack in entry.accuracies.cells
        },
        "samples": entry.samples,
        "hypervolume": entry.hypervolume,
        "notes": entry.notes,
        "ownRun": entry.own_run,
    }


def _aligned(cells: Mapping[float, float], strengths: Sequence[float]) -> list[float | None]:
    """Accuracies at the strengths, None where the cells have none of that strength."""
    return [
        next((value for own, value in cells.items() if same_strength(own, strength)), None) for strength in strengths
    ]


def _with_unique_names(entries: Sequence[Entry]) -> list[Entry]:
    taken: set[str] = set()
    unique = []
    for entry in entries:
        name, count = entry.name, 1
        while name in taken:
            count += 1
            name = f"{entry.name} ({count})"
        taken.add(name)
        unique.append(replace(entry, name=name))
    return unique


def _place(reference: Reference, attack: str) -> tuple[int, bool, int]:
    """By group; within a group ranked attacks come first, and then the reference's own order counts."""
    return (
        GROUPS.index(describe(attack).group),
        attack not in reference.ranked,
        reference.accuracies.attacks.index(attack),
    )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _hypervolume(result: Result) -> float | None:
    """Mean adversarial hypervolume of linf, where the run recorded the margins at every strength."""
    if HYPERVOLUME_ATTACK not in result.attacks:
        return None
    clean = None if np.isnan(result.clean_margin).any() else result.clean_margin
    try:
        return adversarial_hypervolume(result.margins(HYPERVOLUME_ATTACK), clean).mean
    except UserError:
        return None
