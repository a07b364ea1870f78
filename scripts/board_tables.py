"""The numbers of a board made of several trainings of each defense: means, intervals over images, spread."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from robustatlas.metrics import Interval, SampleStatistic, bootstrap_replicates
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.numbers.against import hold_against
from robustatlas.report.numbers.statistics import reference_statistics
from robustatlas.results.result import Result

_METRICS = ("CR ind-avg", "CR ind-worst", "mUAR")


def mean_reference(name: str, references: Sequence[Reference]) -> Reference:
    """The mean of the references of all seeds, for who compares a network of none of them."""
    first, tables = references[0], [reference.accuracies for reference in references]
    if len(references) == 1:
        return replace(first, name=name)
    grids = {attack: first.accuracies.strengths(attack).tolist() for attack in first.accuracies.attacks}
    cells = {
        attack: {strength: statistics.fmean(t.at(attack, strength) for t in tables) for strength in grid}
        for attack, grid in grids.items()
    }
    mean = AccuracyTable(statistics.fmean(t.clean for t in tables), cells)
    marks = tuple(dict.fromkeys(mark for reference in references for mark in reference.marks))
    notes = (*first.notes, f"Mean over {len(references)} replicates with seeds of their own.")
    return replace(first, name=name, accuracies=mean, notes=notes, marks=marks)


def table(attacks: Sequence[str], results: Mapping[str, Sequence[Result]], references: Sequence[Reference]) -> str:
    """The board in Markdown, the highest competitiveness ratio first: means over the trainings of each defense, in
    percent, with 95 % intervals over images, and +- the standard deviation between trainings."""
    rows = []
    for name, runs in results.items():
        counted = [
            reference_statistics(run, hold_against(run, reference))
            for run, reference in zip(runs, references, strict=True)
        ]
        ratio, worst, mean = (_mean_over_seeds([of[metric] for of in counted if metric in of]) for metric in _METRICS)
        tables = [run.accuracies() for run in runs]
        averages = [f"{statistics.fmean(t.values(attack).mean() for t in tables):.0f}" for attack in attacks]
        clean = statistics.fmean(t.clean for t in tables)
        place = -math.inf if ratio is None else ratio[0].value
        rows.append((place, [f"`{name}`", f"{clean:.1f}", *map(_format_number, (ratio, worst, mean)), *averages]))
    rows.sort(key=lambda row: -row[0])
    head = ["defense", "clean", "CR", "worst CR", "mUAR", *attacks]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *(cells for _, cells in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _mean_over_seeds(each: Sequence[SampleStatistic]) -> tuple[Interval, float | None] | None:
    """Return the mean over trainings with its interval, and their standard deviation if there are several.

    The interval is for the draw of images, which are the same for all trainings. None if no reference is above 0.
    """
    if not each:
        return None
    values = [statistic.value for statistic in each]
    draws = bootstrap_replicates(each).mean(0)
    low, high = np.percentile(draws, [2.5, 97.5])
    interval = Interval(statistics.fmean(values), float(low), float(high), 0.95)
    return interval, statistics.stdev(values) if len(values) > 1 else None


def _format_number(number: tuple[Interval, float | None] | None) -> str:
    if number is None:
        return "–"
    interval, spread = number
    between = "" if spread is None else f" ± {spread:.1f}"
    return f"{interval.value:.1f} [{interval.low:.1f}, {interval.high:.1f}]{between}"
