"""Published defenses by the accuracies of a reference: no run is needed."""

from __future__ import annotations

import math
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.escaping import figure_text
from robustatlas.metrics.competitiveness import RatioKind, competitiveness_ratio, percent_seen
from robustatlas.metrics.figures.paper import INK, styled_axes
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.metrics.references.matching import restrict_training
from robustatlas.metrics.references.reference import Defense
from robustatlas.metrics.stability import stability_constant
from robustatlas.report.facts.ranks import ranked_entries
from robustatlas.report.facts.rows import published_rows
from robustatlas.studies.description import Study
from robustatlas.studies.numbers import NO_PAIR, Cell, Sheet, StudyNumber
from robustatlas.studies.outputs.base import Made, Output, Wanted
from robustatlas.studies.outputs.scores import Band, plot_scatter

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished

_RATIOS: tuple[RatioKind, ...] = ("ind-avg", "ind-worst", "exp", "max")
_NUMBERS = ("clean", *(f"CR {kind}" for kind in _RATIOS), "SC", "seen")
"""As the leaderboard of MultiRobustBench has them; "seen" is the percentage of the points seen in training."""

_EXTRA = "Extra data: as the source says, which does not count generated images."


class Defenses(Output):
    """The published defenses of a reference that have all ranked accuracies.

    For each its network, extra data and numbers, beside those ``printed`` (defense -> number -> value). Figures: clean
    accuracy over CR by what the defenses were trained against, and the mean CR under each attack. ``without``: names
    left out, also with ``*``.
    """

    reference: str
    without: list[str] = Field(default_factory=list)
    printed: dict[str, dict[str, float]] = Field(default_factory=dict)

    def wants(self, study: Study) -> Wanted:
        return Wanted()

    def make(self, done: Finished, folder: Path) -> Made:
        reference = load_reference(self.reference)
        numbers = self._numbers(reference)
        printed = [name for name in _NUMBERS if any(name in values for values in self.printed.values())]
        rows: list[tuple[Cell, ...]] = [
            (*_name_and_training(reference.defense(name)), *(_cell(values[number], number) for number in _NUMBERS),
             *(_printed_value(self.printed.get(name, {}), number) for number in printed))
            for name, values in sorted(numbers.items(), key=lambda one: -one[1]["CR ind-avg"])
        ]  # fmt: skip
        heads = ("defense", "network", "extra data", "trained against", *_NUMBERS)
        heads += tuple(f"{number}, printed" for number in printed)
        tables = [reference.defense(name).accuracies for name in numbers]
        by_attack = {
            attack: float(np.mean([competitiveness_ratio(table, reference, attacks=[attack]) for table in tables]))
            for attack in reference.ranked
        }
        means = [(attack_label(attack).label, value) for attack, value in by_attack.items()]
        sheets = {
            "": Sheet(self.title, heads, rows, (_EXTRA,)),
            "by-attack": Sheet(f"{self.title}: mean CR ind-avg under each attack", ("attack", "CR ind-avg"), means),
        }
        figures = {
            "average": self._scatter_against_clean(reference, numbers, "CR ind-avg"),
            "worst": self._scatter_against_clean(reference, numbers, "CR ind-worst"),
            "by-attack": _bars(dict(means)),
        }
        return Made(sheets, figures)

    def _numbers(self, reference: Reference) -> dict[str, dict[str, float]]:
        """Defense -> its numbers; the stability constant is NaN where there is no pair."""
        found = {}
        for row in published_rows(reference):
            entries = ranked_entries(row, reference)
            if entries is None or any(fnmatchcase(row.name, name) for name in self.without):
                continue
            trained_on = restrict_training(row.about.trained_on, entries[1].attacks)
            constant = stability_constant(*entries, trained_on)
            values = {f"CR {kind}": competitiveness_ratio(*entries, kind) for kind in _RATIOS}
            values |= {"clean": row.accuracies.clean, "seen": percent_seen(*entries, trained_on)}
            found[row.name] = values | {"SC": math.nan if constant.pair is None else constant.value}
        return found

    def _scatter_against_clean(self, reference: Reference, numbers: dict[str, dict[str, float]], name: str) -> Any:
        points: dict[str, list[tuple[Band, Band]]] = defaultdict(list)
        for defense, values in numbers.items():
            points[_trained(reference.defense(defense))].append(((values["clean"],) * 3, (values[name],) * 3))
        return plot_scatter(points, "clean", name)


def _name_and_training(defense: Defense) -> tuple[str, ...]:
    extra = "yes" if defense.extra_data else "no"
    return defense.name, defense.architecture or "not stated", extra, _trained(defense)


def _cell(value: float, number: str) -> str:
    return NO_PAIR if math.isnan(value) else f"{value:.1f}" if number == "seen" else f"{value:.2f}"


def _trained(defense: Defense) -> str:
    return ", ".join(attack_label(attack).label for attack in defense.trained_on) or "none"


def _printed_value(values: dict[str, float], number: str) -> Cell:
    return StudyNumber.published(values[number], 2) if number in values else "none"


def _bars(values: dict[str, float]) -> Any:
    with styled_axes(None, 2.15) as axes:
        axes.barh([*map(figure_text, values)], [*values.values()], color=INK)
        axes.invert_yaxis()
        axes.set_xlabel("CR ind-avg (%)")
    return axes.figure
