"""What everyday changes have in common: a few numbers a sample, of which the strength bounds the first."""

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
"""What stands beyond the edges of the image: its mirror image, black, or a middle grey."""

BORDERS: Mapping[str, str] = {
    "reflect": "the image is mirrored",
    "black": "all is black",
    "grey": "all is middle grey",
}

Free = Literal["angle", "place", "draw"]
"""What a number from 0 to 1 is that no strength bounds: a direction from 0 to 180 degrees, a place from one edge to the
other, or which of many random patterns."""

_LEVEL = 0.5
_KEYS = 2.0**24


class Change(EachBounded):
    """Numbers theta ``[B, n]``: the first ``bounded``, which epsilon bounds, then one from 0 to 1 for each ``free``.

    Those that epsilon bounds are from -epsilon to epsilon where the change is ``signed`` (to the left and to the
    right), from 0 to epsilon where they are the amount of it (of rain).
    """

    bounded: ClassVar[int] = 1
    signed: ClassVar[bool] = False
    free: ClassVar[tuple[tuple[Free, int], ...]] = ()
    """The kind of each free number, and at how many values a sweep looks."""

    def check(self, x: Tensor) -> None:
        require_images(x, type(self).__name__.lower())

    def neutral(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), self.bounded + len(self.free))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        drawn = noise.uniform(self.bounded + len(self.free), dtype=x.dtype)
        bounded = drawn[:, : self.bounded]
        return self._joined((2 * bounded - 1 if self.signed else bounded) * epsilon[:, None], drawn)

    def typical(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Signed numbers anywhere within ``epsilon``, an amount in full, the rest at random."""
        drawn = self.start(x, epsilon, noise)
        return drawn if self.signed else self._joined(epsilon[:, None].expand(-1, self.bounded), drawn)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        most = epsilon[:, None]
        bounded = torch.minimum(theta[:, : self.bounded], most)
        bounded = torch.maximum(bounded, -most) if self.signed else bounded.clamp_min(0)
        return self._joined(bounded, theta.clamp(0, 1))

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return theta[:, : self.bounded].abs().amax(1)

    def _joined(self, bounded: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([bounded, rest[:, self.bounded :]], 1)


def pattern(theta: Tensor) -> Noise:
    """The random numbers that the last number [B] of ``theta`` stands for."""
    return Noise((theta[:, -1].detach().double() * _KEYS).long()).child(0)


def level_of(border: Border) -> float:
    """The pixel value that is taken for 0 while what lies beyond the edges counts as 0."""
    return _LEVEL if border == "grey" else 0.0


T = TypeVar("T")


def with_border(threat: T, border: str) -> T:
    """``threat`` with something else beyond the edges of images.

    Raises:
        UserError: no such border, or a threat model that never looks beyond an edge.
    """
    check_choice("border", border, get_args(Border))
    if not isinstance(threat, Bordered):
        raise UserError(f"{type(threat).__name__} never shows what lies beyond the edges of an image.")
    return cast(T, replace(threat, border=cast(Border, border)))


@dataclass(frozen=True)
class Bordered(Change):
    """A change that shows what lies beyond the edges of the image.

    Args:
        border: what that is.
    """

    border: Border = "reflect"

    def __post_init__(self) -> None:
        check_choice("border", self.border, get_args(Border))
