"""Snow: flakes on seven regular grids, each smeared along a random streak, over a slightly paler image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel, UnsupportedInputError, per_sample
from robustatlas.threats.lp import project_l1_ball

GRIDS = 7
SPACING = 4
KERNEL = 13
BLOCK = 8
DENSITY = 0.2
"""Mean flake of a block of 8 by 8 flakes, relative to the largest allowed."""

PALEST = 1 / 16
"""Strength from which on the image may be as pale as in the published attack (a quarter of the way)."""

_CENTRE = KERNEL // 2
_EXTRA = KERNEL * KERNEL + 1


def streak(row: Tensor, column: Tensor, width: Tensor) -> Tensor:
    """``[..., 13, 13]``: an anti-aliased line of ``width`` from the centre (6, 6) to (``row``, ``column``), both in
    8..12."""
    rise, run = (row - _CENTRE)[..., None, None], (column - _CENTRE)[..., None, None]
    steep = rise.abs() > run.abs()
    slope = torch.where(steep, run / rise, rise / run)
    half = (width[..., None, None] * torch.sqrt(1 + slope.abs())) / 4
    index = torch.arange(KERNEL, dtype=row.dtype, device=row.device)
    rows, columns = index[:, None], index
    along, across = torch.where(steep, rows, columns), torch.where(steep, columns, rows)
    cover = (1 + half - (across - _CENTRE - slope * (along - _CENTRE)).abs()).clamp(0, 1)
    end = torch.where(steep, rise, run) + _CENTRE
    return cover * ((along >= _CENTRE) & (along <= end) & (across >= _CENTRE))


def random_kernels(noise: Noise, dtype: torch.dtype) -> Tensor:
    """``[B, 7, 13, 13]``: streaks through the centre, blurred, all leaning to one side."""
    row = 8 + noise.child(0).integers(5, GRIDS).to(dtype)
    column = 8 + noise.child(1).integers(5, GRIDS).to(dtype)
    draw = noise.child(2).uniform(GRIDS, dtype=dtype)
    width = 1 + 2 * ((draw >= 0.6).to(dtype) + (draw >= 0.9).to(dtype))
    lines = streak(row, column, width)
    lines[..., : _CENTRE + 1, : _CENTRE + 1] = lines[..., _CENTRE:, _CENTRE:].flip(-1, -2)

    sigma = 0.41 + 0.19 * noise.child(3).uniform(GRIDS, dtype=dtype)
    side = torch.exp(-0.5 / sigma**2)[..., None, None]
    total = 1 + 2 * side
    padded = F.pad(lines, (1, 1, 1, 1))
    lines = (side * (padded[..., :-2, :] + padded[..., 2:, :]) + padded[..., 1:-1, :]) / total
    lines = (side * (lines[..., :-2] + lines[..., 2:]) + lines[..., 1:-1]) / total
    mirrored = noise.child(4).uniform(1, 1, 1, dtype=dtype) < 0.5
    return torch.where(mirrored, lines.flip(-1), lines)


def snow_layer(flakes: Tensor, kernels: Tensor, height: int, width: int) -> Tensor:
    """``[B, 1, height, width]``: ``flakes`` [B, 7, h, w] put on their grids and smeared with their ``kernels`` [B, 7,
    13, 13]."""
    batch, _, rows, columns = flakes.shape
    canvas = flakes.new_zeros(batch, GRIDS, rows * SPACING, columns * SPACING)
    for j in range(SPACING):
        canvas[:, j, ::SPACING, j::SPACING] = flakes[:, j]
    for j in range(SPACING - 1):
        canvas[:, SPACING + j, j + 1 :: SPACING, ::SPACING] = flakes[:, SPACING + j]
    stacked = canvas[..., :height, :width].reshape(1, batch * GRIDS, height, width)
    return F.conv2d(stacked, kernels, padding=_CENTRE, groups=batch).transpose(0, 1)


def pale(x: Tensor) -> Tensor:
    """The image as it looks in snow: dark pixels lifted to a light grey, ``max(x, 1.5 luminance + 0.5)``."""
    if x.shape[1] == 3:
        weights = torch.tensor([0.2126, 0.7152, 0.0722], dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
        luminance = (x * weights).sum(dim=1, keepdim=True)
    else:
        luminance = x
    return torch.maximum(x, 1.5 * luminance + 0.5)


def _to_blocks(flakes: Tensor) -> Tensor:
    """``[B * 7 * blocks, 64]``: blocks of 8 by 8 flakes; those over the border are filled with zeros."""
    rows, columns = (-flakes.shape[2] % BLOCK, -flakes.shape[3] % BLOCK)
    return F.unfold(F.pad(flakes, (0, columns, 0, rows)).flatten(0, 1)[:, None], BLOCK, stride=BLOCK).mT.flatten(0, 1)


def _from_blocks(blocks: Tensor, like: Tensor) -> Tensor:
    """The inverse of :func:`_to_blocks`."""
    rows, columns = (math.ceil(side / BLOCK) * BLOCK for side in like.shape[2:])
    folded = F.fold(
        blocks.view(like.shape[0] * GRIDS, -1, BLOCK * BLOCK).mT, (rows, columns), kernel_size=BLOCK, stride=BLOCK
    )
    return folded.view(-1, GRIDS, rows, columns)[..., : like.shape[2], : like.shape[3]]


def _flakes_in_blocks(like: Tensor) -> Tensor:
    """``[B * 7 * blocks]``: how many flakes each block has."""
    return _to_blocks(torch.ones_like(like)).sum(dim=1)


def _fourth_power(values: Tensor) -> Tensor:
    """values^4 with the derivative at the values clipped to [0, 1], which is where the published code takes it."""
    fixed = values.detach()
    return fixed**4 + 4 * fixed.clamp(1e-9, 1) ** 3 * (values - fixed)


@dataclass(frozen=True)
class Snow(ThreatModel):
    """Adversarial snow; ``epsilon`` is the brightness of the brightest flake (pixels in [0, 1]).

    Flakes lie on seven grids with a spacing of 4 pixels; each grid has its own random streak. A flake is in [0,
    epsilon], and in every block of 8 by 8 flakes of a grid the mean is at most ``epsilon / 5``. The image turns paler
    as well, up to a quarter of the way to ``max(x, 1.5 luminance + 0.5)``.

    ``theta`` is ``[B, 7, h + e, w]`` with h, w a quarter of the image's sides: the flakes, below them for each grid
    its streak (169 numbers, drawn once, never optimised) and one more number: for the first grid the paleness.

    Differences from the published attack (Kang et al. 2019), which makes every image a quarter paler whatever the
    strength: here the paleness is optimised, and may be at most 4 epsilon of that way, or all of it from epsilon =
    1/16 (the smallest published strength) on. Published flakes are epsilon I^4 with a mean I of 0.2 at most; ours are
    the convex hull of that set, with the same corners: one fifth of the flakes at full brightness.

    Args:
        faithful: the published map and update: I is moved, and only afterwards clipped to [0, 1] and scaled to its
            mean, so that images are made from
            values outside of the set. The number below the first grid is then the strength. Images must be RGB with
            sides that are multiples of 32. Streaks belong to an image (the code shares them in a batch), so results
            do not depend on batch composition. Before the first step the code does not scale; here it does, by a
            percent or two.

    Example:
        >>> threat = Snow()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    faithful: bool = False

    def check(self, x: Tensor) -> None:
        """Raise where the images are neither grey nor RGB (faithful: not RGB with sides that are multiples of 32)."""
        if x.dim() != 4 or x.shape[1] not in (1, 3):
            raise UnsupportedInputError(
                f"snow needs grey or RGB images [B, 1 or 3, H, W]; got shape {tuple(x.shape)}: "
                "leave this attack out for this data."
            )
        if self.faithful and (x.shape[1] != 3 or x.shape[2] % 32 or x.shape[3] % 32):
            raise UnsupportedInputError(
                "snow in its historical form needs RGB images whose height and width are multiples of 32; "
                f"got shape {tuple(x.shape)}: use the default form, which takes any size and grey images."
            )

    def _assemble(self, flakes: Tensor, kernels: Tensor, amount: Tensor) -> Tensor:
        batch, width = len(flakes), flakes.shape[3]
        first = torch.arange(GRIDS, device=flakes.device).view(1, GRIDS, 1) == 0
        extra = torch.cat((kernels.flatten(2), amount.view(batch, 1, 1) * first), dim=2)
        extra = F.pad(extra, (0, -_EXTRA % width))
        return torch.cat((flakes, extra.view(batch, GRIDS, -1, width)), dim=2)

    def _parts(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Flakes ``[B, 7, h, w]``, kernels ``[B, 7, 13, 13]``, amount ``[B]`` (paleness; historical form: strength)."""
        rows = theta.shape[2] - math.ceil(_EXTRA / theta.shape[3])
        extra = theta[:, :, rows:].flatten(2)
        kernels = extra[..., : _EXTRA - 1].reshape(len(theta), GRIDS, KERNEL, KERNEL)
        return theta[:, :, :rows], kernels, extra[:, 0, _EXTRA - 1]

    def _grid(self, x: Tensor) -> tuple[int, int, int]:
        return GRIDS, math.ceil(x.shape[2] / SPACING), math.ceil(x.shape[3] / SPACING)

    def neutral(self, x: Tensor) -> Tensor:
        """No snow, with one fixed draw of streaks (historical form: strength 0, which still makes the image paler)."""
        fixed = Noise.of(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), "snow")
        return self._assemble(x.new_zeros(len(x), *self._grid(x)), random_kernels(fixed, x.dtype), x.new_zeros(len(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Random streaks and exponentially falling flakes, exp(-5 u) with u uniform; half of the paleness."""
        flakes = torch.exp(-5 * noise.child(0).uniform(*self._grid(x), dtype=x.dtype))
        kernels = random_kernels(noise.child(1), x.dtype)
        if self.faithful:
            return self._assemble(flakes, kernels, epsilon)
        flakes = flakes**4 * per_sample(epsilon, flakes)
        return self._assemble(self._limit(flakes, epsilon), kernels, epsilon.clamp_max(PALEST) / 2)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        """The image in the snow."""
        flakes, kernels, amount = self._parts(theta)
        if self.faithful:
            base = 0.75 * x + 0.25 * pale(x)
            layer = snow_layer(_fourth_power(flakes), kernels, *x.shape[2:])
            return (base + per_sample(amount, x) * layer).clamp(0, 1)
        base = x + per_sample(0.25 * amount / PALEST, x) * (pale(x) - x)
        return (base + snow_layer(flakes, kernels, *x.shape[2:])).clamp(0, 1)

    def _limit(self, flakes: Tensor, epsilon: Tensor) -> Tensor:
        """Euclidean projection of the flakes, block by block."""
        positive = flakes.clamp_min(0)
        cap = _to_blocks(per_sample(epsilon, flakes).expand_as(flakes))
        return _from_blocks(project_l1_ball(_to_blocks(positive), DENSITY * cap.sum(dim=1), cap), flakes)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        """The nearest snow of the set; the historical form only sets its strength to ``epsilon``."""
        flakes, kernels, amount = self._parts(theta)
        if self.faithful:
            return self._assemble(flakes, kernels, epsilon)
        amount = amount.clamp_min(0).minimum(epsilon).clamp_max(PALEST)
        return self._assemble(self._limit(flakes, epsilon), kernels, amount)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The sign of the gradient less a price: what the fifth with the largest gradients of a block has in common
        (at least 0).

        The price is what snow costs elsewhere in the block, since the mean is bounded. Historical form: the plain sign.
        """
        flakes, kernels, amount = self._parts(gradient)
        if self.faithful:
            return self._assemble(flakes.sign(), torch.zeros_like(kernels), torch.zeros_like(amount))
        inside = _to_blocks(torch.ones_like(flakes)) > 0
        blocks = _to_blocks(flakes).masked_fill(~inside, -torch.inf)
        last = (DENSITY * inside.sum(dim=1)).ceil().long()
        price = blocks.sort(dim=1, descending=True).values.gather(1, last[:, None]).clamp_min(0)
        direction = torch.where(inside, (blocks - price).sign(), 0)
        return self._assemble(_from_blocks(direction, flakes), torch.zeros_like(kernels), amount.sign())

    def move(self, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """A step; in the historical form from where clipping and scaling put theta."""
        if self.faithful:
            flakes, kernels, amount = self._parts(theta)
            flakes = flakes.clamp(1e-9, 1)
            blocks = _to_blocks(flakes)
            mean = blocks.mean(dim=1, keepdim=True)
            blocks = blocks * (DENSITY / mean.clamp_min(DENSITY))
            theta = self._assemble(_from_blocks(blocks, flakes), kernels, amount)
        return theta + per_sample(length, theta) * direction

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        """The largest of: brightest flake, five times the mean of a block, paleness (historical form: the strength)."""
        flakes, _, amount = self._parts(theta)
        if self.faithful:
            return amount.clone()
        mean = (_to_blocks(flakes).sum(dim=1) / _flakes_in_blocks(flakes)).view(len(theta), -1).amax(dim=1)
        return torch.stack((flakes.flatten(1).amax(dim=1), mean / DENSITY, amount)).amax(dim=0)
