"""Snow: flakes on seven regular grids, each smeared along a random streak, over a slightly paler image."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, per_sample, select
from robustatlas.common.host import constant_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import require_grey_or_colour
from robustatlas.threats.lp import project_l1_ball

GRIDS = 7
SPACING = 4
KERNEL = 13
BLOCK = 8
DENSITY = 0.2
"""Largest mean of a block of 8 by 8 flakes, relative to the largest flake."""

FULL_PALENESS_STRENGTH = 1 / 16
"""Strength from which the image may be as pale as in the published attack: a quarter of the way."""

_CENTRE = KERNEL // 2


def streak(row: Tensor, column: Tensor, width: Tensor, size: int = KERNEL) -> Tensor:
    """Return ``[..., size, size]``: an anti-aliased line of ``width`` from the centre to (``row``, ``column``), both
    beyond the centre.
    """
    centre = size // 2
    rise, run = (row - centre)[..., None, None], (column - centre)[..., None, None]
    steep = rise.abs() > run.abs()
    slope = torch.where(steep, run / rise, rise / run)
    half = (width[..., None, None] * torch.sqrt(1 + slope.abs())) / 4
    index = torch.arange(size, dtype=row.dtype, device=row.device)
    rows, columns = index[:, None], index
    along, across = torch.where(steep, rows, columns), torch.where(steep, columns, rows)
    cover = (1 + half - (across - centre - slope * (along - centre)).abs()).clamp(0, 1)
    end = torch.where(steep, rise, run) + centre
    return cover * ((along >= centre) & (along <= end) & (across >= centre))


def random_streaks(noise: Noise, dtype: torch.dtype) -> Tensor:
    """Return ``[B, 7, 13, 13]``: streaks through the centre, blurred, all leaning to the same side."""
    row = 8 + noise.child(0).integers(5, GRIDS).to(dtype)
    column = 8 + noise.child(1).integers(5, GRIDS).to(dtype)
    draw = noise.child(2).uniform(GRIDS, dtype=dtype)
    width = 1 + 2 * ((draw >= 0.6).to(dtype) + (draw >= 0.9).to(dtype))
    lines = streak(row, column, width)
    lines[..., : _CENTRE + 1, : _CENTRE + 1] = lines[..., _CENTRE:, _CENTRE:].flip(-1, -2)

    return blur_lines(lines, 0.41 + 0.19 * noise.child(3).uniform(GRIDS, dtype=dtype), "constant")


def blur_lines(lines: Tensor, sigma: Tensor, border: Literal["constant", "reflect"]) -> Tensor:
    """Return ``lines`` [B, K, k, k] smoothed over 3 by 3 pixels with ``sigma`` [B, K]; zeros or a mirror beyond."""
    side = torch.exp(-0.5 / sigma.square())[..., None, None]
    total = 1 + 2 * side
    padded = F.pad(lines, (1, 1, 1, 1), mode=border)
    rows = (side * (padded[..., :-2, :] + padded[..., 2:, :]) + padded[..., 1:-1, :]) / total
    return (side * (rows[..., :-2] + rows[..., 2:]) + rows[..., 1:-1]) / total


def random_kernels(noise: Noise, dtype: torch.dtype) -> Tensor:
    """Return ``[B, 7, 13, 13]``: random streaks that lean to one side or to the other."""
    lines = random_streaks(noise, dtype)
    mirrored = noise.child(4).uniform(1, 1, 1, dtype=dtype) < 0.5
    return torch.where(mirrored, lines.flip(-1), lines)


def snow_layer(flakes: Tensor, kernels: Tensor, height: int, width: int) -> Tensor:
    """Return ``[B, 1, height, width]``: ``flakes`` [B, 7, h, w] on their grids, smeared with ``kernels`` [B, 7, 13,
    13].
    """
    batch, _, rows, columns = flakes.shape
    canvas = flakes.new_zeros(batch, GRIDS, rows * SPACING, columns * SPACING)
    for j in range(SPACING):
        canvas[:, j, ::SPACING, j::SPACING] = flakes[:, j]
    for j in range(SPACING - 1):
        canvas[:, SPACING + j, j + 1 :: SPACING, ::SPACING] = flakes[:, SPACING + j]
    stacked = canvas[..., :height, :width].reshape(1, batch * GRIDS, height, width)
    return F.conv2d(stacked, kernels, padding=_CENTRE, groups=batch).transpose(0, 1)


def pale_image(x: Tensor) -> Tensor:
    """Return the image as it looks in snow: dark pixels lifted to a light grey, ``max(x, 1.5 luminance + 0.5)``."""
    if x.shape[1] == 3:
        weights = constant_tensor((0.2126, 0.7152, 0.0722), x).view(1, 3, 1, 1)
        luminance = (x * weights).sum(dim=1, keepdim=True)
    else:
        luminance = x
    return torch.maximum(x, 1.5 * luminance + 0.5)


def to_blocks(flakes: Tensor) -> Tensor:
    """Return ``[B * 7 * blocks, 64]``: blocks of 8 by 8 flakes; those over the border are filled with zeros."""
    rows, columns = (math.ceil(side / BLOCK) for side in flakes.shape[2:])
    padded = F.pad(flakes, (0, -flakes.shape[3] % BLOCK, 0, -flakes.shape[2] % BLOCK))
    tiled = padded.view(len(flakes), GRIDS, rows, BLOCK, columns, BLOCK).transpose(3, 4)
    return tiled.reshape(-1, BLOCK * BLOCK)


def from_blocks(blocks: Tensor, like: Tensor) -> Tensor:
    """Return the inverse of :func:`to_blocks`."""
    rows, columns = (math.ceil(side / BLOCK) for side in like.shape[2:])
    tiled = blocks.view(len(like), GRIDS, rows, columns, BLOCK, BLOCK).transpose(3, 4)
    return tiled.reshape(len(like), GRIDS, rows * BLOCK, columns * BLOCK)[..., : like.shape[2], : like.shape[3]]


def _flakes_in_blocks(like: Tensor) -> Tensor:
    """Return ``[B * 7 * blocks]``: the number of flakes in each block."""
    return to_blocks(torch.ones_like(like)).sum(dim=1)


def flake_grids(x: Tensor) -> tuple[int, int, int]:
    """Return the shape of the flakes of one image of ``x`` [B, C, H, W]."""
    return GRIDS, math.ceil(x.shape[2] / SPACING), math.ceil(x.shape[3] / SPACING)


def gradient_gain(x: Tensor, gradient: Tensor, kernels: Tensor) -> Tensor:
    """Return ``[B, 7]``: how fast a little snow on each grid can raise an objective with this ``gradient`` of the
    image. The snow is smeared with ``kernels`` [B, 7, 13, 13]; the steepest fifth of every block counts.
    """
    with torch.enable_grad():
        flakes = x.new_zeros(len(x), *flake_grids(x)).requires_grad_()
        rise = (snow_layer(flakes, kernels, *x.shape[2:]) * gradient).sum()
        (slopes,) = torch.autograd.grad(rise, flakes)
    blocks = to_blocks(slopes.clamp_min(0)).sort(dim=1, descending=True).values
    number = torch.arange(blocks.shape[1], dtype=x.dtype, device=x.device)
    steepest = number < DENSITY * _flakes_in_blocks(slopes)[:, None]
    return (blocks * steepest).sum(dim=1).view(len(x), GRIDS, -1).sum(dim=2)


def _select_kernels(x: Tensor, gradient: Tensor, drawn: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return ``[B, 7, 13, 13]``: for every grid the best of the kernels ``drawn``.

    ``[B]``: what they promise together.
    """
    promises = torch.stack([gradient_gain(x, gradient, kernels) for kernels in drawn], 2)
    best, number = promises.max(dim=2)
    kernels = torch.stack(drawn, 2).take_along_dim(number[..., None, None, None], dim=2)[:, :, 0]
    return kernels, best.sum(dim=1)


def neutral_kernels(x: Tensor) -> Tensor:
    """Return ``[B, 7, 13, 13]``: one fixed draw, where no snow falls and the streaks do not matter."""
    return random_kernels(
        Noise.for_samples(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), "snow"), x.dtype
    )


def random_flakes(x: Tensor, noise: Noise) -> Tensor:
    """Return exponentially falling flakes ``[B, 7, h, w]``: exp(-5 u) with u uniform."""
    return torch.exp(-5 * noise.uniform(*flake_grids(x), dtype=x.dtype))


@dataclass(frozen=True)
class SnowTheta(Bundle):
    """``flakes`` [B, 7, h, w] with h, w a quarter of the image's sides, the streaks ``kernels`` [B, 7, 13, 13] of the
    grids, drawn once, and the ``paleness`` [B]."""

    flakes: Tensor
    kernels: Fixed
    paleness: Tensor


@dataclass(frozen=True)
class Snow(ThreatModel):
    """Adversarial snow; ``epsilon`` is the brightness of the brightest flake (pixels in [0, 1]).

    Flakes lie on seven grids with a spacing of 4 pixels. Each grid has its own streak: the one of ``draws`` random ones
    along which the gradient of the clean image rewards snow the most. A flake is in [0, epsilon], and the mean of each
    block of 8 by 8 flakes of a grid at most ``epsilon / 5``. The image turns paler, up to a quarter of the way to
    ``max(x, 1.5 luminance + 0.5)``.

    In the published attack (:class:`~robustatlas.threats.historical.snow.HistoricalSnow`) each image is a quarter
    paler; here by at most 4 epsilon of that way, all of it from epsilon = 1/16 on. Published flakes are epsilon I^4
    with a mean I of 0.2 at most; these are the convex hull of that set.

    Example:
        >>> threat = Snow()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    draws: int = 16

    @property
    def chooses(self) -> bool:
        return True

    def check(self, x: Tensor) -> None:
        require_grey_or_colour(x, "snow")

    def neutral(self, x: Tensor) -> SnowTheta:
        return SnowTheta(x.new_zeros(len(x), *flake_grids(x)), Fixed(neutral_kernels(x)), x.new_zeros(len(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> SnowTheta:
        """Return random streaks and flakes, and half of the paleness."""
        flakes = random_flakes(x, noise.child(0))
        flakes = flakes**4 * per_sample(epsilon, flakes)
        kernels = random_kernels(noise.child(1), x.dtype)
        return SnowTheta(self._limit(flakes, epsilon), Fixed(kernels), epsilon.clamp_max(FULL_PALENESS_STRENGTH) / 2)

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> SnowTheta:
        """Return for every grid the most promising streak; all lean to the more promising side."""
        drawn = [random_streaks(noise.child(number), x.dtype) for number in range(self.draws)]
        one, other = (_select_kernels(x, gradient, lines) for lines in (drawn, [line.flip(-1) for line in drawn]))
        kernels = select(one[1] >= other[1], one[0], other[0])
        flakes = x.new_zeros(len(x), *flake_grids(x))
        return SnowTheta(flakes, Fixed(kernels), flakes.new_zeros(len(x)))

    def apply(self, x: Tensor, theta: SnowTheta) -> Tensor:
        base = x + per_sample(0.25 * theta.paleness / FULL_PALENESS_STRENGTH, x) * (pale_image(x) - x)
        return (base + snow_layer(theta.flakes, theta.kernels.values, *x.shape[2:])).clamp(0, 1)

    def _limit(self, flakes: Tensor, epsilon: Tensor) -> Tensor:
        """Return the Euclidean projection of the flakes, block by block."""
        positive = flakes.clamp_min(0)
        cap = to_blocks(per_sample(epsilon, flakes).expand_as(flakes))
        return from_blocks(project_l1_ball(to_blocks(positive), DENSITY * cap.sum(dim=1), cap), flakes)

    def project(self, x: Tensor, theta: SnowTheta, epsilon: Tensor) -> SnowTheta:
        paleness = theta.paleness.clamp_min(0).minimum(epsilon).clamp_max(FULL_PALENESS_STRENGTH)
        return SnowTheta(self._limit(theta.flakes, epsilon), theta.kernels, paleness)

    def steepest(self, x: Tensor, gradient: SnowTheta) -> SnowTheta:
        """Return the sign of the gradient less a price. The mean of a block is bounded, so snow in one place costs snow
        elsewhere in the block: the price is what the fifth with the largest gradients has in common (at least 0)."""
        inside = to_blocks(torch.ones_like(gradient.flakes)) > 0
        blocks = to_blocks(gradient.flakes).masked_fill(~inside, -torch.inf)
        last = (DENSITY * inside.sum(dim=1)).ceil().long()
        price = blocks.sort(dim=1, descending=True).values.gather(1, last[:, None]).clamp_min(0)
        direction = torch.where(inside, (blocks - price).sign(), 0)
        return SnowTheta(from_blocks(direction, gradient.flakes), gradient.kernels, gradient.paleness.sign())

    def size(self, x: Tensor, theta: SnowTheta) -> Tensor:
        """Return the largest of: brightest flake, five times the mean of a block, paleness."""
        flakes = theta.flakes
        mean = (to_blocks(flakes).sum(dim=1) / _flakes_in_blocks(flakes)).view(len(flakes), -1).amax(dim=1)
        return torch.stack((flakes.flatten(1).amax(dim=1), mean / DENSITY, theta.paleness)).amax(dim=0)
