"""What chance decides in an epoch: the order of the images, and the streams that each update draws from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.noise import Noise


@dataclass(frozen=True)
class Chance:
    """Drawn once for an epoch, and the same wherever a training goes on.

    Attributes:
        epoch: from 0.
        order: ``[N]``, the training images in the order of this epoch.
        augmentation: a stream per training image.
        crafting: for each update of a batch, a stream per training image.
        shared: for each update of a batch, a stream per batch of the epoch.
    """

    epoch: int
    order: Tensor
    augmentation: Noise
    crafting: tuple[Noise, ...]
    shared: tuple[Noise, ...]

    @classmethod
    def of(cls, seed: int, index: Tensor, epoch: int, batches: int, updates: int) -> Chance:
        """For images whose numbers in the data are ``index`` [N], in so many batches of so many updates."""
        keys = Noise.of(seed, index, "order").child(epoch).uniform(1, dtype=torch.float64)
        images = Noise.of(seed, index, "training").child(epoch)
        steps = torch.arange(epoch * batches, (epoch + 1) * batches, device=index.device)
        whole = Noise.of(seed, steps, "batch")
        return cls(
            epoch=epoch,
            order=keys.squeeze(1).argsort(stable=True),
            augmentation=images.child(0),
            crafting=tuple(images.child(1 + part) for part in range(updates)),
            shared=tuple(whole.child(part) for part in range(updates)),
        )
