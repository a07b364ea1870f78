"""A comparison of models for machines and for papers: JSON, CSV, LaTeX."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robustatlas.common.escaping import json_text, latex_text, spreadsheet_cell
from robustatlas.common.latex import pvalue
from robustatlas.common.wording import counted, value_as_typed
from robustatlas.outcomes.strengths import strengths_as_typed
from robustatlas.report.numbers.number import Number, Status
from robustatlas.report.numbers.of_several import SharedNumbers
from robustatlas.report.numbers.pairs import MOST_COMPARED, Pair
from robustatlas.report.numbers.plain import plain


@dataclass(frozen=True)
class Comparison:
    """A comparison of models in the forms that programs and papers read."""

    numbers: SharedNumbers

    @property
    def _pairs(self) -> Sequence[Pair]:
        """Every pair of models, or of many models the first with each of the others."""
        pairs = self.numbers.pairs
        return pairs if len(self.numbers.models) <= MOST_COMPARED else [pair for pair in pairs if pair.first == 0]

    @property
    def _names(self) -> tuple[str, ...]:
        return self.numbers.shared.names

    def json(self) -> str:
        """One object: what is shared, the models with their numbers, the pairs with their differences."""
        shared = self.numbers.shared
        models = [
            {
                "name": name,
                "numbers": {label: _number(number) for label, number in model.numbers.items()},
            }
            for name, model in zip(self._names, self.numbers.models, strict=True)
        ]
        pairs = [
            {
                "first": self._names[pair.first],
                "second": self._names[pair.second],
                "differences": {
                    name: (plain(value) or {}) | {"p": pair.p_values[name]} for name, value in pair.differences.items()
                },
            }
            for pair in self._pairs
        ]
        told = {
            "data": self.numbers.models[0].table.data,
            "samples": shared.samples,
            "attacks": {attack: [value_as_typed(attack, at) for at in grid] for attack, grid in shared.grid.items()},
            "headline": {"numbers": [*self.numbers.headline_labels], "why": self.numbers.headline.why},
            "worst case at": strengths_as_typed(self.numbers.worst_at),
            "models": models,
            "pairs": pairs,
            "notes": shared.notes,
        }
        return json_text(told, indent=1) + "\n"

    def csv(self) -> str:
        """A row for each model and number, then one for each pair and number: the difference, with its p-value."""
        rows: list[list[Any]] = [["model", "against", "number", "value", "low", "high", "p", "status"]]
        for name, model in zip(self._names, self.numbers.models, strict=True):
            rows += [
                [name, "", label, number.value, number.low, number.high, "", number.status.value]
                for label, number in model.numbers.items()
            ]
        for pair in self._pairs:
            names = self._names[pair.first], self._names[pair.second]
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
        models = [f"{latex_text(name)} ({place})" for place, name in enumerate(self._names, start=1)]
        data = latex_text(self.numbers.models[0].table.data)
        pairs = [f"$p$ ({pair.first + 1}, {pair.second + 1})" for pair in self._pairs]
        lines = [
            rf"% {self.numbers.shared.samples} images of {data}; 95 \% intervals over images in brackets; p-values are",
            f"% corrected (Holm) for {counted(len(self._pairs), 'pair')}, for each number by itself.",
            rf"\begin{{tabular}}{{l{'r' * (len(models) + len(pairs))}}}",
            r"\toprule",
            " & ".join(["", *models, *pairs]) + r" \\",
            r"\midrule",
        ]
        for key in self.numbers.labels:
            cells = [_cell(model.numbers[key]) for model in self.numbers.models]
            chances = [f"${pvalue(pair.p_values[key])}$" if key in pair.p_values else "--" for pair in self._pairs]
            lines.append(" & ".join([latex_text(key), *cells, *chances]) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cell(number: Number) -> str:
    status = "" if number.status is Status.OK else f" ({number.status.value})"
    return f"{number:.1f}{status}"


def _number(number: Number) -> dict[str, Any]:
    return (plain(number) or {}) | {"status": number.status.value}
