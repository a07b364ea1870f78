"""Base of sweeps: the sizes that they evaluate do not depend on the answers of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.models.objectives import margin_of
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, S
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE, merged_strengths


@dataclass(frozen=True)
class SweepingOptimizer(Optimizer[S]):
    """Base of optimizers that evaluate the multiples of ``spacing`` and at each strength of the attack.

    The spacing does not depend on the strengths. So a sweep to larger or to more strengths looks at each point that a
    sweep to fewer looks at, and its accuracies are never above.

    Attributes:
        spacing: distance between sizes, in the unit of the strengths.
        strengths: those of the attack, increasing; :meth:`include_strengths` sets them.

    Raises:
        UserError: a spacing that is not a positive number.
    """

    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    minimum_size: ClassVar[bool] = True
    fewest_steps: ClassVar[int] = 0
    sweeps: ClassVar[bool] = True

    spacing: float
    strengths: tuple[float, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.spacing < math.inf:
            raise UserError(f"{type(self).__name__} got spacing={self.spacing!r}; expected a positive number.")

    def to_record(self) -> dict[str, Any]:
        """Return the settings that determine numbers: strengths are recorded with the attack."""
        settings = {name: value for name, value in vars(self).items() if name != "strengths"}
        return {"kind": type(self).__name__} | settings

    def include_strengths(self, strengths: tuple[float, ...]) -> Self:
        return replace(self, strengths=strengths)

    def lengthened(self, factor: float) -> Self:
        """Return the optimizer with ``factor`` times as many sizes."""
        return replace(self, spacing=self.spacing / factor)

    @property
    def multiples(self) -> tuple[float, ...]:
        """Multiples of the spacing up to the largest strength."""
        return _multiples(self.spacing, max(self.strengths, default=0.0))

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes that it looks at, increasing.

        Example:
            >>> from robustatlas.optimizers.scan import Scan
            >>> Scan(2.0).include_strengths((5.0, 8.0)).sizes
            (2.0, 4.0, 5.0, 6.0, 8.0)
        """
        return _sizes(self.multiples, self.strengths)


@cache
def _multiples(spacing: float, largest: float) -> tuple[float, ...]:
    count = math.floor(largest / spacing * (1 + STRENGTH_TOLERANCE))
    return tuple(round(number * spacing, 10) for number in range(1, count + 1))


@cache
def _sizes(multiples: tuple[float, ...], strengths: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(merged_strengths([np.array(strengths), np.array(multiples)]))


_CLEAR = 1e-4
"""Share of the largest logit by which a margin is below zero where rounding cannot undo the mistake."""


def is_clear(evaluation: Evaluation, problem: Problem) -> Tensor:
    """Return the points [B] that are misclassified by more than rounding.

    Only a clear mistake ends a sweep: one that verification refuses would hide those behind it.
    """
    largest = evaluation.logits.abs().amax(1)
    return evaluation.fooled & (margin_of(evaluation.logits, problem.labels) < -_CLEAR * largest)


def count_within(sizes: Tensor, epsilon: Tensor) -> Tensor:
    """Return the number [B] of ``sizes`` [K], which do not fall, that are at most ``epsilon`` [B], but for rounding."""
    return torch.searchsorted(sizes, epsilon * (1 + STRENGTH_TOLERANCE), right=True)
