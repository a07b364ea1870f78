"""A comparison of models for machines and for papers: JSON, CSV, LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustatlas.common.escaping import json_text, latex_text, spreadsheet_cell
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import MASKED, format_p_value, pluralise
from robustatlas.metrics.intervals import Interval
from robustatlas.report.facts.pairs import Pair


@dataclass(frozen=True)
class Comparison:
    """What is written of a comparison. ``grid``: attack -> the shared strengths. ``numbers``: of each model, name of a
    number -> its value. ``masked``: of each model, the numbers that are upper bounds only. ``notes``: sentences on what
    is left out and why, and on what is missing."""

    data: str
    samples: int
    grid: Mapping[str, Sequence[float]]
    models: Sequence[str]
    numbers: Sequence[Mapping[str, Interval]]
    masked: Sequence[Mapping[str, object]]
    pairs: Sequence[Pair]
    notes: Sequence[str] = ()

    def json(self) -> str:
        """One object: what is shared, the models with their numbers, the pairs with their differences."""
        models = [
            {
                "name": name,
                "numbers": {key: _plain(value) for key, value in numbers.items()},
                "masked": [*masked],
            }
            for name, numbers, masked in zip(self.models, self.numbers, self.masked, strict=True)
        ]
        pairs = [
            {
                "first": self.models[pair.first],
                "second": self.models[pair.second],
                "differences": {
                    name: _plain(value) | {"p": pair.p_values[name]} for name, value in pair.differences.items()
                },
            }
            for pair in self.pairs
        ]
        told = {
            "data": self.data,
            "samples": self.samples,
            "attacks": {attack: [value_as_typed(attack, at) for at in grid] for attack, grid in self.grid.items()},
            "models": models,
            "pairs": pairs,
            "notes": [*self.notes],
        }
        return json_text(told, indent=1) + "\n"

    def csv(self) -> str:
        """A row for each model and number, then one for each pair and number: the difference, with its p-value."""
        rows: list[list[Any]] = [["model", "against", "number", "value", "low", "high", "p", "note"]]
        for name, numbers, masked in zip(self.models, self.numbers, self.masked, strict=True):
            rows += [
                [name, "", key, value.value, value.low, value.high, "", MASKED if key in masked else ""]
                for key, value in numbers.items()
            ]
        for pair in self.pairs:
            names = self.models[pair.first], self.models[pair.second]
            rows += [
                [*names, key, value.value, value.low, value.high, pair.p_values[key], ""]
                for key, value in pair.differences.items()
            ]
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows([*map(spreadsheet_cell, row)] for row in rows)
        return written.getvalue()

    def latex(self) -> str:
        """A table for a paper (package booktabs): a row for each number, a column for each model with 95 % intervals,
        and one for the p-values of each pair."""
        models = [f"{latex_text(name)} ({place})" for place, name in enumerate(self.models, start=1)]
        data = latex_text(self.data)
        pairs = [f"$p$ ({pair.first + 1}, {pair.second + 1})" for pair in self.pairs]
        lines = [
            rf"% {self.samples} images of {data}; 95 \% intervals over images in brackets; p-values are",
            f"% corrected (Holm) for {pluralise(len(self.pairs), 'pair')}, for each number by itself.",
            rf"\begin{{tabular}}{{l{'r' * (len(models) + len(pairs))}}}",
            r"\toprule",
            " & ".join(["", *models, *pairs]) + r" \\",
            r"\midrule",
        ]
        for key in self.numbers[0]:
            cells = [
                f"{numbers[key]:.1f}{' (upper bound)' if key in masked else ''}"
                for numbers, masked in zip(self.numbers, self.masked, strict=True)
            ]
            chances = [
                f"${format_p_value(pair.p_values[key])}$" if key in pair.p_values else "--" for pair in self.pairs
            ]
            lines.append(" & ".join([latex_text(key), *cells, *chances]) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _plain(value: Interval) -> dict[str, float]:
    return {"value": value.value, "low": value.low, "high": value.high}
