"""What an attacker can learn of a model, and how often it may ask."""

from __future__ import annotations

from typing import Literal

from robustatlas.errors import UserError, brief
from robustatlas.scalars import whole

Knowledge = Literal["gradients", "scores", "labels"]
"""What an attacker can learn of a model."""

FEWEST_QUERIES = 3
"""One about the clean sample, one about another, one to verify it."""


def queries_of(given: int | None, knowledge: Knowledge) -> int | None:
    """Questions about one sample, where they are limited.

    Raises:
        UserError: too few, or of a model whose gradient is known.

    Example:
        >>> queries_of(500, "scores"), queries_of(None, "gradients")
        (500, None)
    """
    if given is None:
        return None
    count = whole(given)
    if count is None or count < FEWEST_QUERIES:
        raise UserError(
            f"queries={brief(repr(given))}; expected at least {FEWEST_QUERIES}: about the clean sample, about another, "
            "and one to verify it."
        )
    if knowledge == "gradients":
        raise UserError(
            f"queries={count} is for models that can only be asked (knowledge='scores' or 'labels'); leave it out."
        )
    return count
