"""Groups of trainings held against each other by a rank-sum test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from robustatlas.common.errors import UserError
from robustatlas.metrics.comparison import holm, rank_sum_test
from robustatlas.studies.description import Study
from robustatlas.studies.numbers import Cell, Sheet, number_label
from robustatlas.studies.outputs.base import Made, Output

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished

_SIGNIFICANT = 0.05


class GroupTests(Output):
    """The trainings of one model against those of each other, by Wilcoxon's rank-sum test over trainings (and not over
    images): a row for each number and other model."""

    numbers: Annotated[list[str], Field(min_length=1)]
    first: str

    def selected_models(self, study: Study) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.first, *super().selected_models(study))))

    def check(self, study: Study, place: str) -> None:
        super().check(study, place)
        for model in self.selected_models(study):
            if len(study.model_seeds(model)) < 2:
                raise UserError(
                    f"{place} compares groups of trainings, and models.{model} has one; give it seeds, such as seeds = "
                    "3."
                )

    def make(self, done: Finished, folder: Path) -> Made:
        """The table, with p-values corrected (Holm) for all of its rows."""
        others = [model for model in self.selected_models(done.study) if model != self.first]
        pairs = [(name, model) for name in self.numbers for model in others]
        ours = {name: self.number(done, name, self.first) for name in self.numbers}
        theirs = {pair: self.number(done, *pair) for pair in pairs}
        if lacking := [number for number in (*ours.values(), *theirs.values()) if number.why]:
            raise UserError(f"{self.title or 'the test'} has numbers that cannot be computed: {lacking[0].why}.")
        tests = {pair: rank_sum_test(ours[pair[0]].values, number.values) for pair, number in theirs.items()}
        corrected = dict(zip(pairs, holm([test.p_value for test in tests.values()]).tolist(), strict=True))
        rows: list[tuple[Cell, ...]] = []
        for (name, model), test in tests.items():
            p, mark = corrected[name, model], "+" if test.effect > 0 else "-"
            said = mark if p <= _SIGNIFICANT else "="
            rows.append(
                (number_label(name), done.label(model), ours[name].value_text, theirs[name, model].value_text,
                 f"{test.p_value:.4f}", f"{p:.4f}", said)
            )  # fmt: skip
        first = done.label(self.first)
        count = next(iter(ours.values())).values.size
        notes = (
            f"Wilcoxon's rank-sum test over trainings ({count} of {first}), two-sided; corrected: Holm, all rows.",
            f"+ / - / =: {first} is better, worse, or not shown to differ at 5 %.",
        )
        heads = ("number", "against", first, "that one", "p", "corrected", "verdict")
        return Made({"": Sheet(self.title, heads, rows, notes)})
