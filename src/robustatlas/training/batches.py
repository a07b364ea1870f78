"""What one update is made on: images in the order of the epoch, extra ones beside them, augmented and mixed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.training.augmentation import augmentation_named, cutmix
from robustatlas.training.chance import Chance
from robustatlas.training.run import TrainingRun

_PICK, _AUGMENT, _CRAFT = range(3)
"""Streams of an extra image."""
_MIX = 2
"""Stream of CutMix beside those of the other augmentations."""


@dataclass(frozen=True)
class Drawn:
    """The images of one batch before any update of it.

    Attributes:
        x: ``[B, ...]``.
        labels: ``[B]``; of an image with a patch of another one, that of the larger part.
        targets: ``[B]`` as ``labels``, or ``[B, C]``, the shares of both classes.
        crafting: for each update of the batch a stream per image.
    """

    x: Tensor
    labels: Tensor
    targets: Tensor
    crafting: tuple[Noise, ...]


def drawn(run: TrainingRun, chance: Chance, number: int) -> Drawn:
    """The batch of that number in its epoch."""
    settings, team = run.settings, run.workers
    extra = int(settings.ratio * settings.batch_size) if run.extra is not None else 0
    size = settings.batch_size - extra
    chosen = team.share(chance.order[number * size : (number + 1) * size])
    x, labels = run.images.batch(chosen), run.images.labels[chosen]
    augmentation = chance.augmentation.take(chosen)
    crafting = [noise.take(chosen) for noise in chance.crafting]
    if run.extra is not None:
        noise = Noise.of(
            settings.seed, run.position.step * extra + team.share(torch.arange(extra, device=team.device)), "extra"
        )
        picked = noise.child(_PICK).integers(len(run.extra))
        x = torch.cat([x, run.extra.batch(picked)])
        labels = torch.cat([labels, run.extra.labels[picked]])
        augmentation = _both(augmentation, noise.child(_AUGMENT))
        crafting = [_both(own, noise.child(_CRAFT + part)) for part, own in enumerate(crafting)]
    x = augmentation_named(settings.augmentation)(x, augmentation)
    if not settings.cutmix:
        return Drawn(x, labels, labels, tuple(crafting))
    x, partner, share = cutmix(x, augmentation.child(_MIX), settings.cutmix)
    one, other = (F.one_hot(each, run.classes).to(x.dtype) for each in (labels, labels[partner]))
    targets = share[:, None] * one + (1 - share[:, None]) * other
    return Drawn(x, torch.where(share >= 0.5, labels, labels[partner]), targets, tuple(crafting))


def _both(one: Noise, other: Noise) -> Noise:
    return Noise(torch.cat([one.keys, other.keys]))
