"""Data of the figures of a report: curves, sizes and margins of each attack, and ratios to a reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common import wording
from robustatlas.common.attack_labels import attack_label
from robustatlas.common.styles import Style
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, axis_label, falling_scale_start
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.looks import look_of
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.report.step_curves import REACH, StepCurve
from robustatlas.report.words import line_in_words, percent

BINS = 24

Found = Sequence[AttackFacts | None]
"""One attack in each run of the page; None where the run does not have it."""


def figure_data(groups: Sequence[Sequence[RunFacts]], styles: Sequence[Style]) -> dict[str, Any]:
    """Return the data of the page's figures: a card for each attack, in each figure a line for each run that has it.

    Args:
        groups: the runs of the page, on what they share, and with the attacks that stand apart; an attack is in one.
        styles: of the runs.
    """
    groups = [runs for runs in groups if runs]
    runs = groups[-1]
    found = [_cards_and_ratios(group) for group in groups]
    return {
        "runs": [run.name for run in runs],
        "short": [wording.elide_middle(run.name, 34) for run in runs],
        "styles": [look_of(style) for style in styles],
        "about": "; ".join(dict.fromkeys(_caption(group) for group in groups if any(run.attacks for run in group))),
        "cards": [card for cards, _ in found for card in cards],
        "ratios": [ratio for _, ratios in found for ratio in ratios],
    }


def _cards_and_ratios(runs: Sequence[RunFacts]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    attacks = dict.fromkeys(attack.attack for run in runs for attack in run.attacks)
    by_attack = {
        attack: [next((item for item in run.attacks if item.attack == attack), None) for run in runs]
        for attack in attacks
    }
    cards = [_card(attack, runs, found) for attack, found in by_attack.items()]
    held = {attack: found for attack, found in by_attack.items() if any(item and item.against for item in found)}
    return cards, [_ratios(attack, runs, found) for attack, found in held.items()]


def _caption(runs: Sequence[RunFacts]) -> str:
    images = dict.fromkeys(f"{wording.pluralise(run.samples, 'image')} of {run.data}" for run in runs)
    reference = next((f"; reference {run.reference.name}" for run in runs if run.reference), "")
    behind = [run.name for run in runs if masked_shares(run, [attack.attack for attack in run.attacks])]
    mark = f"; {wording.join_words(behind)}: {wording.MASKED}" if behind else ""
    return f"{wording.join_words(list(images))}; {round(100 * CONFIDENCE)}% intervals{reference}{mark}"


def _head(attack: str, found: Found) -> dict[str, Any]:
    unit = next(item.unit for item in found if item)
    return {
        "label": attack_label(attack).label,
        "axis": axis_label(unit, attack=attack),
        "falls": falling_scale_start(attack),
    }


def _card(attack: str, runs: Sequence[RunFacts], found: Found) -> dict[str, Any]:
    end = max(float(item.strengths[-1]) for item in found if item)
    usual = STANDARD_STRENGTHS.get(attack)
    return _head(attack, found) | {
        "attack": attack,
        "usual": usual if usual and usual[0] <= end else None,
        "end": end,
        "reach": REACH * end,
        "curve": _curves(runs, found),
        "sizes": _sizes(found, end),
        "frontier": _frontiers(runs, found) if any(item and item.frontier for item in found) else None,
    }


def _curves(runs: Sequence[RunFacts], found: Found) -> dict[str, Any]:
    several = len(runs) > 1
    said = [line_in_words(run, item, several) for run, item in zip(runs, found, strict=True) if item and item.accuracy]
    lines: list[dict[str, Any] | None] = []
    for run, item in zip(runs, found, strict=True):
        if item is None or item.curve is None:
            lines.append(None)
            continue
        end, held = float(item.strengths[-1]), run.certified_under(item.attack)
        certified = StepCurve.from_curve(held.curve, np.array(held.strengths), end) if held else None
        lines.append(
            _steps(StepCurve.from_curve(item.curve, item.strengths, end))
            | ({"certified": _steps(certified)} if certified else {})
            | _typical(run, item)
        )
    return {"lines": lines, "said": " ".join(said)}


def _typical(run: RunFacts, item: AttackFacts) -> dict[str, Any]:
    if not item.typical:
        return {}
    cells = [run.clean, *item.typical]
    found = {"error": [c.value for c in cells], "low": [c.low for c in cells], "high": [c.high for c in cells]}
    return {
        "typical": {"sizes": [0.0, *item.strengths.tolist()]}
        | {name: _rounded(100 - np.array(values)) for name, values in found.items()}
    }


def _steps(curve: StepCurve) -> dict[str, Any]:
    ends = {"low": _rounded(curve.low), "high": _rounded(curve.high)}
    return {"sizes": _rounded(curve.sizes, 7), "error": _rounded(curve.error)} | ends


def _sizes(found: Found, end: float) -> dict[str, Any]:
    edges = np.linspace(0, end, BINS + 1)
    lines: list[dict[str, Any] | None] = []
    for item in found:
        if item is None:
            lines.append(None)
            continue
        sizes = item.sizes
        counts, _ = np.histogram(sizes[(sizes > 0) & (sizes <= end)], edges)
        beyond = int((np.isfinite(sizes) & (sizes > end)).sum())
        lines.append(
            {"counts": counts.tolist(), "never": item.unbroken_count, "clean": item.clean_errors, "beyond": beyond}
        )
    return {"edges": _rounded(edges), "lines": lines}


def _frontiers(runs: Sequence[RunFacts], found: Found) -> dict[str, Any]:
    lines: list[dict[str, Any] | None] = []
    said = []
    for run, item in zip(runs, found, strict=True):
        if item is None or item.frontier is None:
            lines.append(None)
            continue
        frontier, volume = item.frontier, item.frontier.volume
        lines.append(
            {"sizes": _rounded(frontier.sizes), "mean": _rounded(frontier.mean), "searched": frontier.searched}
        )
        at_most = "" if frontier.searched and not masked_shares(run, [item.attack]) else "at most "
        said.append(f"{run.name}: AH {at_most}{volume.value:.3f} ({volume.low:.3f} to {volume.high:.3f}).")
    return {"lines": lines, "said": " ".join(said)}


def _ratios(attack: str, runs: Sequence[RunFacts], found: Found) -> dict[str, Any]:
    head = _head(attack, found)
    lines = [
        {
            "ratio": _interval_ends(item.against.get("CR")),
            "uar": _interval_ends(item.against.get("UAR")),
            "ownThreat": item.own_threat,
        }
        if item
        else None
        for item in found
    ]
    return head | {
        "lines": lines,
        "said": {
            key: " ".join(
                f"{head['label']}{f', {run.name}' if len(runs) > 1 else ''}: {percent(item.against[name])}."
                for run, item in zip(runs, found, strict=True)
                if item and name in item.against
            )
            for key, name in (("ratio", "CR"), ("uar", "UAR"))
        },
    }


def _interval_ends(interval: Interval | None) -> list[float] | None:
    return _rounded(np.array([interval.value, interval.low, interval.high])) if interval else None


def _rounded(values: NDArray[np.float64], digits: int = 5) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=np.float64).tolist()]
