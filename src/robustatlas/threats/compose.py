"""Several threat models one after the other, optimised together (Laidlaw and Feizi 2019; Hsiung et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from robustatlas.errors import UserError
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.color import Brightness, Contrast, Hue, Saturation
from robustatlas.threats.lp import Linf
from robustatlas.threats.warp import Rotation


@dataclass(frozen=True)
class Compose(ThreatModel):
    """``parts`` applied in order, each with its own theta; the strength is one number for all of them.

    At strength epsilon, part i has the strength epsilon * strengths[i]: epsilon = 1 is the full strength of every
    part. theta is ``[B, D]``, the flattened thetas of the parts side by side. A part sees the images that the parts
    before it made.

    Example:
        >>> from robustatlas.threats.flow import StAdv
        >>> both = Compose((StAdv(), Linf()), strengths=(0.05, 8 / 255))
        >>> x = torch.rand(2, 3, 8, 8)
        >>> both.neutral(x).shape
        torch.Size([2, 320])
        >>> bool((both.apply(x, both.neutral(x)) == x).all())
        True
    """

    parts: tuple[ThreatModel, ...]
    strengths: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.parts or len(self.parts) != len(self.strengths):
            raise UserError(
                f"A composition got {len(self.parts)} threat models and {len(self.strengths)} strengths; "
                "expected at least one threat model and one full strength for each."
            )
        if not all(math.isfinite(s) and s > 0 for s in self.strengths):
            raise UserError(f"A composition got the full strengths {self.strengths}; expected positive finite numbers.")

    def check(self, x: Tensor) -> None:
        for part in self.parts:
            part.check(x)

    def neutral(self, x: Tensor) -> Tensor:
        return self._joined([part.neutral(x) for part in self.parts])

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        thetas = []
        for i, (part, strength) in enumerate(zip(self.parts, self.strengths, strict=True)):
            thetas.append(part.start(x, strength * epsilon, noise.child(i)))
            x = part.apply(x, thetas[-1]).detach()
        return self._joined(thetas)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        for part, own in zip(self.parts, self._split(theta, x), strict=True):
            x = part.apply(x, own)
        return x

    @torch.no_grad()
    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        thetas = []
        for part, strength, own in zip(self.parts, self.strengths, self._split(theta, x), strict=True):
            thetas.append(part.project(x, own, strength * epsilon))
            x = part.apply(x, thetas[-1])
        return self._joined(thetas)

    def steepest(self, gradient: Tensor) -> Tensor:
        parts = zip(self.parts, self.strengths, self._split(gradient), strict=True)
        return self._joined([strength * part.steepest(own) for part, strength, own in parts])

    def move(self, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        moved = []
        pieces = zip(self.parts, self.strengths, self._split(theta), self._split(direction), strict=True)
        for part, strength, own, step in pieces:
            moved.append(part.move(own, step / strength, strength * length))
        return self._joined(moved)

    @torch.no_grad()
    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        sizes = []
        for part, strength, own in zip(self.parts, self.strengths, self._split(theta, x), strict=True):
            sizes.append(part.size(x, own) / strength)
            x = part.apply(x, own)
        return torch.stack(sizes).amax(0)

    @cached_property
    def _layouts(self) -> dict[int, tuple[torch.Size, ...]]:
        """Shapes of the parts' thetas by the length of theta."""
        return {}

    def _joined(self, thetas: list[Tensor]) -> Tensor:
        joined = torch.cat([theta.flatten(1) for theta in thetas], 1)
        self._layouts[joined.shape[1]] = tuple(theta.shape[1:] for theta in thetas)
        return joined

    def _split(self, joined: Tensor, x: Tensor | None = None) -> list[Tensor]:
        """The parts' thetas in ``joined``.

        :meth:`steepest` and :meth:`move` are not given the images that the thetas' shapes follow from, hence they are
        remembered per length.
        """
        if joined.shape[1] not in self._layouts and x is not None:
            self.neutral(x[:1])
        shapes = self._layouts[joined.shape[1]]
        pieces = torch.split(joined, [shape.numel() for shape in shapes], 1)
        return [piece.reshape(-1, *shape) for piece, shape in zip(pieces, shapes, strict=True)]


def carben(linf: float = 8 / 255) -> Compose:
    """The full composite attack: hue, saturation, rotation, brightness, contrast, then linf, in this order.

    Full strengths are those of Hsiung et al. 2023 ("Towards compositional adversarial robustness"): hue pi radians,
    saturation and contrast factors .7 to 1.3, brightness .2, rotation 10 degrees. For another order or a subset, build
    a :class:`Compose` from the parts.
    """
    return Compose(
        (Hue(), Saturation(), Rotation(), Brightness(), Contrast(), Linf()), (math.pi, 0.3, 10.0, 0.2, 0.3, linf)
    )
