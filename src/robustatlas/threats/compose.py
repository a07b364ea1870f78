"""Several threat models one after the other, optimised together (Laidlaw and Feizi 2019; Hsiung et al. 2023)."""

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, map_tensors
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.color import Brightness, Contrast, Hue, Saturation
from robustatlas.threats.lp import Linf
from robustatlas.threats.warp import Rotation

Thetas: TypeAlias = tuple[Tree, ...]


@dataclass(frozen=True)
class Compose(ThreatModel):
    """Composition of ``parts`` in order, each with its own theta; one strength scales all of them.

    At strength epsilon, part i has the strength epsilon * strengths[i]: epsilon = 1 is the full strength of every
    part. theta is the tuple of the parts' thetas. A part is applied to the result of the parts before it;
    :meth:`steepest` and :meth:`move`, which do not know their thetas, use the original images.

    Example:
        >>> from robustatlas.threats.flow import StAdv
        >>> both = Compose((StAdv(), Linf()), strengths=(0.05, 8 / 255))
        >>> x = torch.rand(2, 3, 8, 8)
        >>> [theta.shape for theta in both.neutral(x)]
        [torch.Size([2, 8, 8, 2]), torch.Size([2, 3, 8, 8])]
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

    @property
    def chooses(self) -> bool:
        return any(part.chooses for part in self.parts)

    def for_data(self, first: Tensor) -> ThreatModel:
        return replace(self, parts=tuple(part.for_data(first) for part in self.parts))

    def check(self, x: Tensor) -> None:
        for part in self.parts:
            part.check(x)

    def max_size(self, x: Tensor) -> float:
        return max(part.max_size(x) / strength for part, strength in zip(self.parts, self.strengths, strict=True))

    def neutral(self, x: Tensor) -> Thetas:
        return tuple(part.neutral(x) for part in self.parts)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Thetas:
        thetas = []
        for i, (part, strength) in enumerate(zip(self.parts, self.strengths, strict=True)):
            thetas.append(part.start(x, strength * epsilon, noise.child(i)))
            x = part.apply(x, thetas[-1]).detach()
        return tuple(thetas)

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> Thetas:
        return tuple(part.choose(x, gradient, noise.child(i)) for i, part in enumerate(self.parts))

    def apply(self, x: Tensor, theta: Thetas) -> Tensor:
        for part, own in zip(self.parts, theta, strict=True):
            x = part.apply(x, own)
        return x

    @torch.no_grad()
    def project(self, x: Tensor, theta: Thetas, epsilon: Tensor) -> Thetas:
        thetas = []
        for part, strength, own in zip(self.parts, self.strengths, theta, strict=True):
            thetas.append(part.project(x, own, strength * epsilon))
            x = part.apply(x, thetas[-1])
        return tuple(thetas)

    def steepest(self, x: Tensor, gradient: Thetas) -> Thetas:
        """Return each part's, times its full strength, so that equal shares of the strengths are equally far."""
        return tuple(
            map_tensors(lambda step, full=strength: full * step, part.steepest(x, own))
            for part, strength, own in zip(self.parts, self.strengths, gradient, strict=True)
        )

    def move(self, x: Tensor, theta: Thetas, direction: Thetas, length: Tensor) -> Thetas:
        return tuple(
            part.move(x, own, map_tensors(lambda step, full=strength: step / full, along), strength * length)
            for part, strength, own, along in zip(self.parts, self.strengths, theta, direction, strict=True)
        )

    @torch.no_grad()
    def size(self, x: Tensor, theta: Thetas) -> Tensor:
        sizes = []
        for part, strength, own in zip(self.parts, self.strengths, theta, strict=True):
            sizes.append(part.size(x, own) / strength)
            x = part.apply(x, own)
        return torch.stack(sizes).amax(0)


def carben(linf: float = 8 / 255) -> Compose:
    """Return the full composite attack: hue, saturation, rotation, brightness, contrast, then linf, in this order.

    Full strengths are those of Hsiung et al. 2023: hue pi radians, saturation and contrast factors .7 to 1.3,
    brightness .2, rotation 10 degrees. For another order or a subset, build a :class:`Compose` from the parts.
    """
    return Compose(
        (Hue(), Saturation(), Rotation(), Brightness(), Contrast(), Linf()), (math.pi, 0.3, 10.0, 0.2, 0.3, linf)
    )
