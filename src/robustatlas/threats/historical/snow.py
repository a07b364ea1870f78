"""Snow as published (Kang et al. 2019)."""

from dataclasses import dataclass, replace

from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded, UnsupportedInputError
from robustatlas.threats.snow import (
    DENSITY,
    flake_grids,
    from_blocks,
    neutral_kernels,
    pale_image,
    random_flakes,
    random_kernels,
    snow_layer,
    to_blocks,
)


def _fourth_power(values: Tensor) -> Tensor:
    """Return values^4 with the derivative at the values clipped to [0, 1], which is where the published code takes
    it.
    """
    fixed = values.detach()
    return fixed**4 + 4 * fixed.clamp(1e-9, 1) ** 3 * (values - fixed)


@dataclass(frozen=True)
class HistoricalSnowTheta(Bundle):
    """``flakes`` [B, 7, h, w], the streaks ``kernels`` [B, 7, 13, 13] and the ``strength`` [B]."""

    flakes: Tensor
    kernels: Fixed
    strength: Fixed


@dataclass(frozen=True)
class HistoricalSnow(EachBounded):
    """The published map and update: flakes are moved, and only afterwards clipped to [0, 1] and scaled to their mean,
    so that images are made from values outside of the set.

    Images must be RGB with sides that are multiples of 32. Streaks belong to an image (the code shares them in a
    batch), so results do not depend on batch composition. Before the first step the code does not scale; here it does,
    by a percent or two. ``size`` is the strength, which :meth:`project` sets.
    """

    def check(self, x: Tensor) -> None:
        """Raise where the images are not RGB with sides that are multiples of 32."""
        if x.dim() != 4 or x.shape[1] != 3 or x.shape[2] % 32 or x.shape[3] % 32:
            raise UnsupportedInputError(
                "snow in its historical form needs RGB images [B, 3, H, W] whose height and width are multiples of 32; "
                f"got shape {tuple(x.shape)}: use the default form, which takes any size and grey images."
            )

    def neutral(self, x: Tensor) -> HistoricalSnowTheta:
        """Return strength 0, which still makes the image paler."""
        flakes, nothing = x.new_zeros(len(x), *flake_grids(x)), x.new_zeros(len(x))
        return HistoricalSnowTheta(flakes, Fixed(neutral_kernels(x)), Fixed(nothing))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> HistoricalSnowTheta:
        kernels = random_kernels(noise.child(1), x.dtype)
        return HistoricalSnowTheta(random_flakes(x, noise.child(0)), Fixed(kernels), Fixed(epsilon))

    def apply(self, x: Tensor, theta: HistoricalSnowTheta) -> Tensor:
        """Return the image in the snow."""
        base = 0.75 * x + 0.25 * pale_image(x)
        layer = snow_layer(_fourth_power(theta.flakes), theta.kernels.values, *x.shape[2:])
        return (base + per_sample(theta.strength.values, x) * layer).clamp(0, 1)

    def project(self, x: Tensor, theta: HistoricalSnowTheta, epsilon: Tensor) -> HistoricalSnowTheta:
        return replace(theta, strength=Fixed(epsilon))

    def move(
        self, x: Tensor, theta: HistoricalSnowTheta, direction: HistoricalSnowTheta, length: Tensor
    ) -> HistoricalSnowTheta:
        """Return a step from where clipping and scaling put the flakes."""
        flakes = theta.flakes.clamp(1e-9, 1)
        blocks = to_blocks(flakes)
        blocks = blocks * (DENSITY / blocks.mean(dim=1, keepdim=True).clamp_min(DENSITY))
        inside = replace(theta, flakes=from_blocks(blocks, flakes))
        moved: HistoricalSnowTheta = super().move(x, inside, direction, length)
        return moved

    def size(self, x: Tensor, theta: HistoricalSnowTheta) -> Tensor:
        return theta.strength.values
