"""Random changes of training images, drawn per sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.bundle import per_sample
from robustatlas.errors import UserError
from robustatlas.noise import Noise
from robustatlas.wording import instead

_PADDING = 4


def flip(x: Tensor, noise: Noise) -> Tensor:
    """Each image mirrored left to right with probability one half."""
    return torch.where(per_sample(noise.uniform() < 0.5, x), x.flip(-1), x)


def crop(x: Tensor, noise: Noise) -> Tensor:
    """Each image [C, H, W] shifted by up to 4 pixels each way, zeros coming in: pad by 4, cut at random."""
    height, width = x.shape[-2:]
    padded = F.pad(x, (_PADDING,) * 4)
    offsets = noise.integers(2 * _PADDING + 1, 2)
    rows = offsets[:, 0, None] + torch.arange(height, device=x.device)
    columns = offsets[:, 1, None] + torch.arange(width, device=x.device)
    samples = torch.arange(len(x), device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[samples, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


AUGMENTATIONS: dict[str, Callable[[Tensor, Noise], Tensor]] = {
    "none": lambda x, noise: x,
    "flip": flip,
    "crop": crop,
    "crop+flip": lambda x, noise: flip(crop(x, noise.child(0)), noise.child(1)),
}


def augmentation_named(name: str) -> Callable[[Tensor, Noise], Tensor]:
    """The augmentation of that name: from images ``[B, C, H, W]`` and a stream per sample to images.

    Example:
        >>> augmentation_named("crop+flip")(torch.rand(2, 3, 8, 8), Noise.of(0, torch.arange(2), "example")).shape
        torch.Size([2, 3, 8, 8])
    """
    if name not in AUGMENTATIONS:
        known = f"known are {', '.join(AUGMENTATIONS)}"
        raise UserError(f"There is no augmentation {name!r}{instead(name, AUGMENTATIONS, known)}")
    return AUGMENTATIONS[name]
