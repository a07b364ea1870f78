"""How many columns a model's answers have: one for each class, always."""

from collections.abc import Callable, Sequence

from torch import Tensor

from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import whole
from robustatlas.common.wording import counted

Classes = int | Sequence[str] | None
"""How many classes there are, or their names in the order of their numbers; None: not told."""


def class_count(classes: Classes) -> int | None:
    """How many classes are told; None where nothing is.

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
    """The names that are told; none where they are the numbers from 0 alone.

    >>> class_names(["cat", "dog"]), class_names(["0", "1"]), class_names(10)
    (('cat', 'dog'), (), ())
    """
    names = tuple(classes) if isinstance(classes, Sequence) else ()
    return () if names == tuple(map(str, range(len(names)))) else names


class Columns:
    """The number of columns of a model's answers: what is ``expected``, or else what its first answer has."""

    def __init__(self, expected: int | None) -> None:
        self.count = expected

    def checked(self, answers: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """``answers``, of which each has as many columns; a :class:`UserError` says so where one has not."""

        def run(x: Tensor) -> Tensor:
            logits = answers(x)
            if logits.dim() == 2:
                self.count = self.count or logits.shape[1]
                if logits.shape[1] != self.count:
                    raise UserError(
                        f"The model answers with {counted(logits.shape[1], 'column')}; expected {self.count}, one for "
                        "each class, as it says of itself or answered before."
                    )
            return logits

        return run
