"""A clean accuracy no better than chance, and what would explain it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import scipy  # which imports its parts where they are used: special takes long
import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.data import Rows
from robustatlas.models.classifier import Classifier, seeded

_SAMPLES = 64
_BATCH = 8
_FEWEST = 10
"""Fewer samples say nothing about accuracy."""
_CHANCE = 0.05
"""A guesser that is right as often as this at least is not told from the model."""

_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def accuracy_warnings(model: Classifier, images: Tensor | Rows, labels: Tensor, classes: int) -> list[str]:
    """A warning where ``model`` is right on up to 64 of the samples, spread over all, no more often than a guesser.

    What commonly explains it is tried out on the same samples, and named with what it gives.
    """
    chosen = torch.linspace(0, len(images) - 1, min(_SAMPLES, len(images))).round().long()
    x, truth = images[chosen].to(model.device, model.dtype), labels[chosen].to(model.device)
    if len(x) < _FEWEST:
        return []
    predicted = _predicted(model, x)
    right = int((predicted == truth).sum())
    if not _guessed(right, len(x), classes):
        return []
    shown = f"The model is right on {right} of {len(x)} clean samples, no better than chance ({classes} classes)"
    better = [f"{what} ({count} right)" for what, count in _tried(model, x, truth, predicted) if 2 * count > len(x)]
    if better:
        return [f"{shown}; it would be right more often with {', or '.join(better)}."]
    return [
        f"{shown}. Likely causes: weights that were not loaded (--weights), a missing mean and std, classes numbered "
        "from 1 or in another order, channels in another order."
    ]


def _guessed(right: int, count: int, classes: int) -> bool:
    return right == 0 or float(scipy.special.bdtrc(right - 1, count, 1 / classes)) > _CHANCE


def _predicted(model: Classifier, x: Tensor, change: Callable[[Tensor], Tensor] = lambda part: part) -> Tensor:
    with torch.no_grad(), seeded(0, model.device):
        return torch.cat([model.logits(change(part), verifying=True).argmax(1) for part in torch.split(x, _BATCH)])


def _tried(model: Classifier, x: Tensor, truth: Tensor, predicted: Tensor) -> list[tuple[str, int]]:
    """Changes of labels or inputs, and how many samples are right with each."""
    inputs: dict[str, Callable[[Tensor], Tensor]] = {
        "pixels from 0 to 255": lambda part: part * 255,
        "pixels from -1 to 1 (mean=0.5, std=0.5)": lambda part: part * 2 - 1,
    }
    if x.dim() == 4 and x.shape[1] == 3:
        mean, std = (torch.tensor(values).to(x).view(-1, 1, 1) for values in (_IMAGENET_MEAN, _IMAGENET_STD))
        inputs |= {
            f"ImageNet's mean={_IMAGENET_MEAN} and std={_IMAGENET_STD}": lambda part: (part - mean) / std,
            "its channels reversed (BGR)": lambda part: part.flip(1),
        }
    counts = []
    for what, changed in inputs.items():
        with suppress(UserError):  # a network may refuse such inputs
            counts.append((what, int((_predicted(model, x, changed) == truth).sum())))
    return [
        ("labels one higher", int((predicted == truth + 1).sum())),
        ("labels one lower", int((predicted == truth - 1).sum())),
        *counts,
    ]
