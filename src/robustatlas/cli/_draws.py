"""Randomised models on the command line: over how many draws gradients are averaged, and by which rules they err."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from robustatlas.cli._help import MODEL
from robustatlas.cli._terminal import print_run
from robustatlas.common.errors import UserError

if TYPE_CHECKING:
    from robustatlas.data import Dataset
    from robustatlas.evaluation.request import Request
    from robustatlas.models.classifier import Classifier

Draws = Annotated[
    int | None,
    MODEL.option(
        "N",
        "The model draws random numbers: take the mean of N draws for gradients, and for an error what most of "
        "fresh draws make.",
        min=1,
    ),
]
AnyOf = Annotated[
    int | None,
    MODEL.option(
        "N",
        "Evaluate a model that draws random numbers by two rules, what most draws say and what any of N says, "
        "each with clean accuracy by the same rule; the directory has a run for each.",
        min=2,
    ),
]


def evaluate_by_rules(model: Classifier, data: Dataset, request: Request, any_of: int, card: Mapping[str, Any]) -> None:
    from robustatlas.trust.rules import evaluated_by_rules

    found, console = evaluated_by_rules(model, data, request, any_of), Console(highlight=False)
    console.print(found)
    for result in found.results.values():
        result.describe(card)
        assert result.run is not None and result.run.path is not None
        print_run(result.run.path, console)


def check_alone(any_of: int | None, others: Mapping[str, object]) -> None:
    """That two rules are asked for without the options that are of a single result.

    Example:
        >>> check_alone(10, {"--until": None})
    """
    given = [name for name, value in others.items() if value]
    if any_of is not None and given:
        raise UserError(f"--any-of makes a run for each rule, and {given[0]} is of one run; leave one of them out.")
