"""A comparison of models for machines and for papers: JSON, CSV, LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.escaping import json_text, latex_text, spreadsheet_cell
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import format_p_value, pluralise
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.strengths import read_strengths, strengths_as_typed
from robustatlas.report.numbers.against import choose_reference, hold_against
from robustatlas.report.numbers.number import Number, Numbers
from robustatlas.report.numbers.of_several import SharedNumbers, numbers_of_several
from robustatlas.report.numbers.pairs import MOST_COMPARED, Pair
from robustatlas.report.numbers.plain import number_json
from robustatlas.report.numbers.shared import shared_of_runs
from robustatlas.report.numbers.standings import standings_of
from robustatlas.report.numbers.texts import number_text
from robustatlas.report.words import verdict
from robustatlas.results.result import Result, Results, load_result


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models on the samples, attacks and strengths that all of them have, in the order in which they are given.

    Attributes:
        numbers: what is shared, the numbers of each model, and every pair of models.
    """

    numbers: SharedNumbers

    @property
    def table(self) -> Numbers:
        """Every number of every model, as rows."""
        return Numbers([number for model in self.numbers.models for number in model.numbers.values()])

    @property
    def sentences(self) -> list[str]:
        """Who is more robust, under what, and how sure that is."""
        return verdict(standings_of(self.numbers))

    def __repr__(self) -> str:
        return "\n".join([*self.sentences, *self.numbers.shared.notes])

    @property
    def _pairs(self) -> Sequence[Pair]:
        """Every pair of models, or of many models the first with each of the others."""
        pairs = self.numbers.pairs
        return pairs if len(self.numbers.models) <= MOST_COMPARED else [pair for pair in pairs if pair.first == 0]

    @property
    def _names(self) -> tuple[str, ...]:
        return self.numbers.shared.names

    def json(self) -> str:
        """Return one object: what is shared, the models with their numbers, the pairs with their differences."""
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
                    name: (number_json(value) or {}) | {"p": pair.p_values[name]}
                    for name, value in pair.differences.items()
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
        """Return a row for each model and number, then one for each pair and number: the difference and its p-value."""
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
        """Return a table for a paper (package booktabs): a row for each number, a column for each model with 95 %
        intervals, and one for the p-values of each pair."""
        models = [f"{latex_text(name)} ({place})" for place, name in enumerate(self.numbers.shared.labels, start=1)]
        data = latex_text(self.numbers.models[0].table.data)
        pairs = [f"$p$ ({pair.first + 1}, {pair.second + 1})" for pair in self._pairs]
        lines = [
            rf"% {self.numbers.shared.samples} images of {data}; 95 \% intervals over images in brackets; p-values are",
            f"% corrected (Bonferroni) for {pluralise(len(self.numbers.pairs), 'pair')}, for each number by itself.",
            rf"\begin{{tabular}}{{l{'r' * (len(models) + len(pairs))}}}",
            r"\toprule",
            " & ".join(["", *models, *pairs]) + r" \\",
            r"\midrule",
        ]
        for key in self.numbers.labels:
            cells = [number_text(model.numbers[key]) for model in self.numbers.models]
            chances = [
                f"${format_p_value(pair.p_values[key])}$" if key in pair.p_values else "--" for pair in self._pairs
            ]
            lines.append(" & ".join([latex_text(key), *cells, *chances]) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _number(number: Number) -> dict[str, Any]:
    return (number_json(number) or {}) | {"status": number.status.value}


KEPT = 16
"""Number of runs that stay in memory; of more, each is read as often as it is looked at, four or five times."""


def compare(
    runs: Sequence[Result] | Sequence[str | Path],
    reference: Reference | str | None = None,
    union: Mapping[str, float] | None = None,
    headline: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare runs on the samples, attacks and strengths that all of them have.

    Args:
        runs: two or more results, or two or more run directories, which are read one by one.
        reference: a reference, or its name or file; `"none"` for none, None for the shipped one that fits.
        union: attack -> strength of the worst case over attacks, as people type it; None for the usual ones.
        headline: attack -> strength of the numbers that come first, as people type it; None for the usual ones.

    Returns:
        the table of numbers, the pairs with their differences, and sentences on who is ahead.

    Raises:
        UserError: fewer than two runs are given, or they share nothing, or an attack or strength is not there.

    Example:
        >>> import numpy as np
        >>> sizes = {"strong": np.linspace(0.1, 0.9, 50), "weak": np.linspace(0.0, 0.5, 50)}
        >>> runs = [
        ...     Result.from_arrays([0] * 50, (size == 0).astype(int), {"linf": size}, {"linf": [0.3, 0.6]}, model=name)
        ...     for name, size in sizes.items()
        ... ]
        >>> found = compare(runs, "none")
        >>> found.numbers.pairs[0].leader("average accuracy"), len(found.table.select("clean accuracy"))
        (0, 2)
    """
    if len(runs) < 2:
        raise UserError(f"{pluralise(len(runs), 'run')} given; give two or more to compare.")
    paths = [Path(run) for run in runs if not isinstance(run, Result)]
    results: Sequence[Result] = (
        Results(paths, kept=KEPT)
        if len(paths) == len(runs)
        else [run if isinstance(run, Result) else load_result(run) for run in runs]
    )
    shared = shared_of_runs(results)
    first, leading = shared.table(0), results[0]
    chosen = reference if isinstance(reference, Reference) else choose_reference(reference, results)
    held = hold_against(first, chosen, leading.records.values(), leading.identity).require() if chosen else None
    worst_at, first_at = (None if given is None else read_strengths(given) for given in (union, headline))
    return Comparison(numbers_of_several(shared, held, worst_at, first_at))
