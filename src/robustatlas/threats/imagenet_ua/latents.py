"""Base of the attacks of ImageNet-UA: optimised latent numbers, random draws, and a map to images."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, Tree, dot, gradient, per_sample, require_gradient, select
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import require_images
from robustatlas.threats.imagenet_ua.geometry import SIGNED, Geometry
from robustatlas.threats.imagenet_ua.sizes import BySize

DRAWS = 16
"""Number of draws among which the most promising is chosen, the same as for the streaks of snow."""


@dataclass(frozen=True)
class Latents(Bundle):
    """Optimised ``latent`` numbers [B, ...], and ``drawn`` tensors [B, ...]."""

    latent: Tensor
    drawn: tuple[Fixed, ...] = ()


@dataclass(frozen=True)
class FadedLatents(Bundle):
    """:class:`Latents` and ``fade`` [B], the degree in units of epsilon to which the map is faded in."""

    latent: Tensor
    drawn: tuple[Fixed, ...]
    fade: Tensor


class LatentThreat(ThreatModel):
    """Base of maps of the image and latent numbers in a box or a ball around 0, which do not change it at 0.

    Example:
        >>> from robustatlas.threats.imagenet_ua.glitch import UaGlitch
        >>> threat, x = UaGlitch(), torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    title: ClassVar[str]
    """Name of the attack in messages."""
    geometry: ClassVar[Geometry] = SIGNED
    varied: ClassVar[bool] = False
    """True if the draws are random, and chosen among :data:`DRAWS` of them."""

    def check(self, x: Tensor) -> None:
        require_images(x, self.title)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of the latent numbers of one sample; by default that of the image."""
        return tuple(x.shape[1:])

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        """Return the tensors of a sample that are not optimised; default: none."""
        return ()

    def active(self, *drawn: Tensor) -> Tensor | None:
        """Return a mask that is 1 for latent numbers that are used; None: all are."""
        return None

    @abstractmethod
    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        """Return the map, in [0, 1]."""

    @property
    def chooses(self) -> bool:
        return self.varied

    def neutral(self, x: Tensor) -> Any:
        """Return latent numbers of 0 and one fixed draw."""
        return self._make_neutral(
            x, Noise.for_samples(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), self.title)
        )

    def _make_neutral(self, x: Tensor, noise: Noise) -> Any:
        return Latents(x.new_zeros(len(x), *self.shape(x)), tuple(map(Fixed, self.draw(x, noise))))

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Return random latent numbers; those that are not used are set to 0 afterwards."""
        return self.geometry.random(self.shape(x), epsilon, noise)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Any:
        drawn = self.draw(x, noise.child(0))
        return Latents(self._mask_inactive(self.begin(x, epsilon, noise.child(1)), drawn), tuple(map(Fixed, drawn)))

    def _mask_inactive(self, latent: Tensor, drawn: tuple[Tensor, ...]) -> Tensor:
        active = self.active(*drawn)
        return latent if active is None else latent * active

    @torch.no_grad()
    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> Any:
        """Return latent numbers of 0 and the most promising of :data:`DRAWS` draws."""
        best = self._make_neutral(x, noise.child(0))
        best_gain = self.gradient_gain(x, gradient, best)
        for number in range(1, DRAWS):
            other = self._make_neutral(x, noise.child(number))
            gain = self.gradient_gain(x, gradient, other)
            best, best_gain = select(gain > best_gain, other, best), torch.maximum(best_gain, gain)
        return best

    def gradient_gain(self, x: Tensor, slope: Tensor, theta: Any) -> Tensor:
        """Return ``[B]``: the rise of an objective with the gradient ``slope`` of the image in a steepest step."""
        with torch.enable_grad():
            leaf = require_gradient(theta)
            rise = gradient((self.apply(x, leaf) * slope).flatten(1).sum(1), leaf)
        one = x.new_ones(len(x))
        return dot(rise, self.project(x, self.move(x, theta, self.steepest(x, rise), one), one))

    def apply(self, x: Tensor, theta: Any) -> Tensor:
        return self.distort(x, theta.latent, *_values(theta))

    def project(self, x: Tensor, theta: Any, epsilon: Tensor) -> Any:
        return replace(theta, latent=self.geometry.project(self._mask_inactive(theta.latent, _values(theta)), epsilon))

    def steepest(self, x: Tensor, gradient: Any) -> Any:
        return replace(
            gradient, latent=self.geometry.direction(self._mask_inactive(gradient.latent, _values(gradient)))
        )

    def size(self, x: Tensor, theta: Any) -> Tensor:
        return self.geometry.size(theta.latent)

    def move(self, x: Tensor, theta: Any, direction: Any, length: Tensor) -> Any:
        return replace(theta, latent=self.geometry.step(theta.latent, direction.latent, length))


def _values(theta: Tree) -> tuple[Tensor, ...]:
    return tuple(fixed.values for fixed in theta.drawn)


class Faded(LatentThreat):
    """Base of maps that are faded in: x + a (map(x) - x), with a = fade / ``whole``, where the fade is in [0,
    min(epsilon, whole)].

    Published maps change the image at every strength. Here the set of strength 0 is the image, and the sets are nested.
    From epsilon = ``whole`` on, the smallest published strength, they contain each image of the published set with the
    same draws.
    """

    whole: ClassVar[BySize[float]]

    def _make_neutral(self, x: Tensor, noise: Noise) -> FadedLatents:
        rest = super()._make_neutral(x, noise)
        return FadedLatents(rest.latent, rest.drawn, x.new_zeros(len(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> FadedLatents:
        begun = super().start(x, epsilon, noise)
        return FadedLatents(begun.latent, begun.drawn, epsilon.clamp_max(self.whole.value(x)))

    def apply(self, x: Tensor, theta: FadedLatents) -> Tensor:
        return self.mix(x, super().apply(x, theta), self.share(x, theta))

    def share(self, x: Tensor, theta: FadedLatents) -> Tensor:
        """Return ``[B, 1, 1, 1]``: the degree to which the map is faded in, from 0 to 1."""
        return per_sample(theta.fade / self.whole.value(x), x)

    @staticmethod
    def mix(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
        """Return the mixture of ``x`` (at ``share`` 0) and ``other`` (at ``share`` 1)."""
        return (x + share * (other - x)).clamp(0, 1)

    def project(self, x: Tensor, theta: FadedLatents, epsilon: Tensor) -> FadedLatents:
        fade = theta.fade.clamp_min(0).minimum(epsilon).clamp_max(self.whole.value(x))
        inside: FadedLatents = super().project(x, theta, epsilon)
        return replace(inside, fade=fade)

    def steepest(self, x: Tensor, gradient: FadedLatents) -> FadedLatents:
        """Return the ascent direction; at the unchanged image, where latent numbers have no effect, fade the map in."""
        direction: FadedLatents = super().steepest(x, gradient)
        unseen = (gradient.latent == 0).flatten(1).all(1)
        return replace(direction, fade=torch.where(unseen, 1, gradient.fade.sign()))

    def size(self, x: Tensor, theta: FadedLatents) -> Tensor:
        return torch.maximum(super().size(x, theta), theta.fade)

    def move(self, x: Tensor, theta: FadedLatents, direction: FadedLatents, length: Tensor) -> FadedLatents:
        moved: FadedLatents = super().move(x, theta, direction, length)
        return replace(moved, fade=theta.fade + length * direction.fade)
