"""The columns of a model's answers: one for each class, always the same number."""

from collections.abc import Sequence

import torch
from torch import Tensor

from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import whole
from robustatlas.common.wording import counted

Classes = int | Sequence[str] | None
"""The number of classes, or their names in the order of their numbers; None: not known."""


def class_count(classes: Classes) -> int | None:
    """Return the number of classes, None if it is not known.

    >>> class_count(10), class_count(["cat", "dog"])
    (10, 2)
    """
    if classes is None:
        return None
    if (
        isinstance(classes, Sequence)
        and not isinstance(classes, str)
        and all(isinstance(each, str) for each in classes)
    ):
        count: int | None = len(classes)
    else:
        count = whole(classes)
    if count is None or count < 2:
        raise UserError(
            f"classes={brief(repr(classes))}; expected how many there are, or their names in the order of their "
            "numbers: at least 2."
        )
    return count


def class_names(classes: Classes) -> tuple[str, ...]:
    """Return the names of the classes; empty if they are only the numbers from 0.

    >>> class_names(["cat", "dog"]), class_names(["0", "1"]), class_names(10)
    (('cat', 'dog'), (), ())
    """
    names = tuple(classes) if isinstance(classes, Sequence) else ()
    return () if names == tuple(map(str, range(len(names)))) else names


EXCLUDED_BELOW = 30.0
"""Distance of the logit of an excluded class below the lowest one of a sample: float32 cannot tell its probability,
e^-30 of the lowest one, from 0."""


class Columns:
    """The columns of a model's answers: the ``expected`` number, or else that of the first answer.

    Excluded classes, whose logit is -inf throughout in the first answer, get a finite logit below all others of
    their sample: they are never answered, and margins, losses and gradients stay finite.
    """

    def __init__(self, expected: int | None) -> None:
        self.count = expected
        self.excluded: tuple[int, ...] | None = None

    def check(self, logits: Tensor) -> Tensor:
        """Return ``logits`` [B, C], finite at excluded classes; :class:`UserError` if C is not the number of columns.

        Logits of other shapes are returned as they are.
        """
        if logits.dim() != 2:
            return logits
        logits = self._bound_excluded(logits)
        self.count = self.count or logits.shape[1]
        if logits.shape[1] != self.count:
            raise UserError(
                f"The model answers with {counted(logits.shape[1], 'column')}; expected {self.count}, one for "
                "each class, as it says of itself or answered before."
            )
        return logits

    def _bound_excluded(self, logits: Tensor) -> Tensor:
        """Return ``logits`` [B, C], finite at the excluded classes."""
        if self.excluded is None and len(logits):
            self.excluded = tuple((logits.detach() == -torch.inf).all(0).nonzero().flatten().tolist())
        if not self.excluded:
            return logits
        if not bool((logits.detach()[:, list(self.excluded)] == -torch.inf).all()):
            raise UserError(
                f"The model excludes classes (logits of -inf, such as of class {self.excluded[0]}) at some inputs and "
                "not at others; expected the same classes throughout, or logits before a softmax and a logarithm."
            )
        positions = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
        positions[list(self.excluded)] = True
        lowest = logits.detach().masked_fill(positions, torch.inf).amin(1, keepdim=True)
        return torch.where(positions, lowest - EXCLUDED_BELOW, logits)
