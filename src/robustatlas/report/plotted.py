"""What the figures of a report plot: curves, sizes and margins of each attack, and ratios to a reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common import wording
from robustatlas.common.standard import STANDARD
from robustatlas.common.styles import Style
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.looks import look_of
from robustatlas.report.multiples import Panel
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.report.words import line_in_words, percent

CURVE_POINTS = 400
"""Points of a curve on the page; longer curves keep this many of their steps."""

BINS = 24

Found = Sequence[AttackFacts | None]
"""One attack in each run of the page; None where the run does not have it."""


def plotted(groups: Sequence[Sequence[RunFacts]], styles: Sequence[Style], charts: Sequence[Panel]) -> dict[str, Any]:
    """The data of the page's figures: a card for each attack, and in each figure a line for each run that has it.
    ``groups``: the runs of the page, on what they share, and with the attacks that stand apart; an attack is in one.
    ``charts``: the small ones, in which the names of the lines have their places."""
    groups = [runs for runs in groups if runs]
    runs = groups[-1]
    found = [_of_group(group, charts) for group in groups]
    return {
        "runs": [run.name for run in runs],
        "short": [wording.shortened(run.name, 34) for run in runs],
        "styles": [look_of(style) for style in styles],
        "about": "; ".join(dict.fromkeys(_about(group) for group in groups if any(run.attacks for run in group))),
        "cards": [card for cards, _ in found for card in cards],
        "ratios": [ratio for _, ratios in found for ratio in ratios],
    }


def _of_group(runs: Sequence[RunFacts], charts: Sequence[Panel]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    attacks = dict.fromkeys(attack.attack for run in runs for attack in run.attacks)
    by_attack = {
        attack: [next((item for item in run.attacks if item.attack == attack), None) for run in runs]
        for attack in attacks
    }
    cards = [
        _card(attack, runs, found, next((chart for chart in charts if chart.attack == attack), None))
        for attack, found in by_attack.items()
    ]
    held = {attack: found for attack, found in by_attack.items() if any(item and item.against for item in found)}
    return cards, [_ratios(attack, runs, found) for attack, found in held.items()]


def _about(runs: Sequence[RunFacts]) -> str:
    images = dict.fromkeys(f"{wording.counted(run.samples, 'image')} of {run.data}" for run in runs)
    reference = next((f"; reference {run.reference.name}" for run in runs if run.reference), "")
    behind = [run.name for run in runs if masked(run, [attack.attack for attack in run.attacks])]
    mark = f"; {wording.listed(behind)}: {wording.MASKED}" if behind else ""
    return f"{wording.listed(list(images))}; {round(100 * CONFIDENCE)}% intervals{reference}{mark}"


def _head(attack: str, found: Found) -> dict[str, Any]:
    unit = next(item.unit for item in found if item)
    return {
        "label": wording.wording(attack).label,
        "axis": wording.axis(unit, of=attack),
        "falls": wording.falls_from(attack),
    }


def _card(attack: str, runs: Sequence[RunFacts], found: Found, chart: Panel | None) -> dict[str, Any]:
    end = max(float(item.strengths[-1]) for item in found if item)
    usual = STANDARD.get(attack)
    return _head(attack, found) | {
        "attack": attack,
        "usual": usual if usual and usual[0] <= end else None,
        "end": end,
        "curve": _curves(runs, found, end) | {"names": _names(chart, end) if chart else []},
        "sizes": _sizes(found, end),
        "frontier": _frontiers(runs, found) if any(item and item.frontier for item in found) else None,
    }


def _curves(runs: Sequence[RunFacts], found: Found, end: float) -> dict[str, Any]:
    several = len(runs) > 1
    said = [line_in_words(run, item, several) for run, item in zip(runs, found, strict=True) if item and item.accuracy]
    lines: list[dict[str, Any] | None] = []
    for run, item in zip(runs, found, strict=True):
        if item is None or item.curve is None:
            lines.append(None)
            continue
        held = run.certified_under(item.attack)
        more = {"certified": _curve(held.curve, np.array(held.strengths), end)} if held else {}
        lines.append(_curve(item.curve, item.strengths, end) | more | _typical(run, item))
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


def _names(chart: Panel, end: float) -> list[dict[str, Any]]:
    return [
        {"run": line.series - 1, "name": line.name, "size": line.label[0] * end / 100, "accuracy": 100 - line.label[1]}
        for line in chart.lines
        if line.name
    ]


def _curve(curve: RobustnessCurve, strengths: NDArray[np.float64], end: float) -> dict[str, Any]:
    """The steps of a curve up to the end of the axis, all strengths among them. The error is 100 minus the accuracy of
    the table. The band holds each point by itself, as the intervals of the tables do."""
    jumps = curve.jumps[(curve.jumps > 0) & (curve.jumps < end)]
    if len(jumps) > CURVE_POINTS:
        jumps = jumps[np.unique(np.linspace(0, len(jumps) - 1, CURVE_POINTS).round().astype(int))]
    sizes = np.unique(np.concatenate([[0.0], jumps, strengths[strengths <= end], [end]]))
    low, high = curve.band(CONFIDENCE, kind="pointwise").at(sizes)
    error = curve.at(sizes)
    return {"sizes": sizes.tolist(), "error": error.tolist(), "low": _rounded(low), "high": _rounded(high)}


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
        lines.append({"counts": counts.tolist(), "never": item.never, "clean": item.clean_errors, "beyond": beyond})
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
        at_most = "" if frontier.searched and not masked(run, [item.attack]) else "at most "
        said.append(f"{run.name}: AH {at_most}{volume.value:.3f} ({volume.low:.3f} to {volume.high:.3f}).")
    return {"lines": lines, "said": " ".join(said)}


def _ratios(attack: str, runs: Sequence[RunFacts], found: Found) -> dict[str, Any]:
    head = _head(attack, found)
    lines = [
        {"ratio": _plain(item.against.get("CR")), "uar": _plain(item.against.get("UAR")), "ownThreat": item.own_threat}
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


def _plain(interval: Interval | None) -> list[float] | None:
    return _rounded(np.array([interval.value, interval.low, interval.high])) if interval else None


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=np.float64).tolist()]
