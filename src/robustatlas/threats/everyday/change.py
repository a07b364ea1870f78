"""Base of everyday changes: a few numbers for each sample, of which the strength bounds the first."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar, cast, get_args

import torch
from torch import Tensor

from robustatlas.common.errors import UserError, check_choice
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded
from robustatlas.threats.box import require_images

Border = Literal["reflect", "black", "grey"]
"""Content beyond the edges of the image: its mirror image, black, or a middle grey."""

BORDERS: Mapping[str, str] = {
    "reflect": "the image is mirrored",
    "black": "all is black",
    "grey": "all is middle grey",
}

FreeKind = Literal["angle", "place", "draw"]
"""Meaning of a number from 0 to 1 that the strength does not bound.

It is a direction from 0 to 180 degrees, a place from one edge to the other, or the choice of a random pattern.
"""

_LEVEL = 0.5
_KEYS = 2.0**24


class Change(EachBounded):
    """Base of changes by numbers theta ``[B, n]``.

    Epsilon bounds the first ``bounded`` numbers: from -epsilon to epsilon if the change is ``signed`` (left and right),
    from 0 to epsilon if it is an amount (of rain). Then follows one number from 0 to 1 for each of ``free``.
    """

    bounded: ClassVar[int] = 1
    signed: ClassVar[bool] = False
    free: ClassVar[tuple[tuple[FreeKind, int], ...]] = ()
    """Kind of each free number, and the number of its values that a sweep evaluates."""

    def check(self, x: Tensor) -> None:
        require_images(x, type(self).__name__.lower())

    def neutral(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), self.bounded + len(self.free))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        drawn = noise.uniform(self.bounded + len(self.free), dtype=x.dtype)
        bounded = drawn[:, : self.bounded]
        return self._join((2 * bounded - 1 if self.signed else bounded) * epsilon[:, None], drawn)

    def typical(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Return signed numbers at random within ``epsilon``, an amount of ``epsilon``, and random free numbers."""
        drawn = self.start(x, epsilon, noise)
        return drawn if self.signed else self._join(epsilon[:, None].expand(-1, self.bounded), drawn)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        bound = epsilon[:, None]
        bounded = torch.minimum(theta[:, : self.bounded], bound)
        bounded = torch.maximum(bounded, -bound) if self.signed else bounded.clamp_min(0)
        return self._join(bounded, theta.clamp(0, 1))

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return theta[:, : self.bounded].abs().amax(1)

    def _join(self, bounded: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([bounded, rest[:, self.bounded :]], 1)


def pattern_noise(theta: Tensor) -> Noise:
    """Return the random numbers that the last number [B] of ``theta`` selects."""
    return Noise((theta[:, -1].detach().double() * _KEYS).long()).child(0)


def border_level(border: Border) -> float:
    """Return the pixel value beyond the edges for a border of one colour."""
    return _LEVEL if border == "grey" else 0.0


T = TypeVar("T")


def with_border(threat: T, border: str) -> T:
    """Return ``threat`` with another border.

    Raises:
        UserError: the border is unknown, or the threat model never shows one.
    """
    check_choice("border", border, get_args(Border))
    if not isinstance(threat, Bordered):
        raise UserError(f"{type(threat).__name__} never shows what lies beyond the edges of an image.")
    return cast(T, replace(threat, border=cast(Border, border)))


@dataclass(frozen=True)
class Bordered(Change):
    """Base of changes that show what lies beyond the edges of the image.

    Args:
        border: content beyond the edges.
    """

    border: Border = "reflect"

    def __post_init__(self) -> None:
        check_choice("border", self.border, get_args(Border))
