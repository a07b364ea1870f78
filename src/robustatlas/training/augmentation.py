"""Random changes of training images, drawn per sample."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import unknown_name_error
from robustatlas.common.noise import Noise

_PADDING = 4
_SMALLEST, _STRETCH = 0.08, 4 / 3
"""Share of the area that a random part has at least, and how much wider than high, or higher than wide, at most."""


def flip(x: Tensor, noise: Noise) -> Tensor:
    """Return each image mirrored left to right with probability one half."""
    return torch.where(per_sample(noise.uniform() < 0.5, x), x.flip(-1), x)


def crop(x: Tensor, noise: Noise) -> Tensor:
    """Return each image [C, H, W] shifted by up to 4 pixels each way, zeros coming in: pad by 4, cut at random."""
    height, width = x.shape[-2:]
    padded = F.pad(x, (_PADDING,) * 4)
    offsets = noise.integers(2 * _PADDING + 1, 2)
    rows = offsets[:, 0, None] + torch.arange(height, device=x.device)
    columns = offsets[:, 1, None] + torch.arange(width, device=x.device)
    samples = torch.arange(len(x), device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[samples, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def resized_crop(x: Tensor, noise: Noise) -> Tensor:
    """Return a random part of each image [C, H, W], brought to the size of the whole.

    It has 8 to 100 % of the area and sides in a ratio of 3/4 to 4/3 (Szegedy et al. 2015, as ImageNet is trained on).
    """
    area = _SMALLEST + (1 - _SMALLEST) * noise.child(0).uniform(dtype=x.dtype)
    stretch = torch.exp(math.log(_STRETCH) * noise.child(1).symmetric(dtype=x.dtype))
    size = torch.stack([(area * stretch).sqrt(), (area / stretch).sqrt()], 1).clamp_max(1)
    centre = (1 - size) * noise.child(2).symmetric(2, dtype=x.dtype)
    frame = torch.cat([torch.diag_embed(size), centre[:, :, None]], 2)
    grid = F.affine_grid(frame, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False).clamp_(0, 1)


def cutmix(x: Tensor, noise: Noise, probability: float) -> tuple[Tensor, Tensor, Tensor]:
    """With that probability a rectangle of each image [C, H, W] shows another image of the batch (Yun et al. 2019).

    The rectangle's share of the image is uniform, its centre too, and what leaves the image is cut off.

    Returns the images, the positions [B] of the others, and the shares [B] of each image that are its own.
    """
    height, width = x.shape[-2:]
    partner = torch.arange(len(x), device=x.device).roll(1)
    side = noise.child(0).uniform(dtype=x.dtype).sqrt()
    mixed = noise.child(1).uniform(dtype=x.dtype) < probability
    centre = noise.child(2).uniform(2, dtype=x.dtype)
    covered = mixed[:, None, None]
    for axis, pixels in enumerate((height, width)):
        middle = (centre[:, axis] * pixels).floor()
        half = (side * pixels / 2).floor()
        here = torch.arange(pixels, device=x.device, dtype=x.dtype)
        within = (here >= (middle - half)[:, None]) & (here < (middle + half)[:, None])
        covered = covered & (within[:, :, None] if axis == 0 else within[:, None, :])
    share = 1 - covered.to(x.dtype).mean((1, 2))
    return torch.where(covered[:, None], x[partner], x), partner, share


AUGMENTATIONS: dict[str, Callable[[Tensor, Noise], Tensor]] = {
    "none": lambda x, noise: x,
    "flip": flip,
    "crop": crop,
    "crop+flip": lambda x, noise: flip(crop(x, noise.child(0)), noise.child(1)),
    "resized-crop": resized_crop,
    "resized-crop+flip": lambda x, noise: flip(resized_crop(x, noise.child(0)), noise.child(1)),
}


def augmentation_named(name: str) -> Callable[[Tensor, Noise], Tensor]:
    """Return the augmentation of that name: from images ``[B, C, H, W]`` and a stream per sample to images."""
    if name not in AUGMENTATIONS:
        raise unknown_name_error("augmentation", name, AUGMENTATIONS, f"known are {', '.join(AUGMENTATIONS)}")
    return AUGMENTATIONS[name]
