"""Several draws of a randomised network on a batch, each from the streams of its samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.models.classifier.draws import Drawing

Single = Callable[[Tensor, Tensor | None], Tensor]
"""Logits of one draw on inputs ``[B, ...]`` with their labels ``[B]``."""

_ROWS = 1024
"""Rows of a batch up to which several draws go through a network together."""


def drawn_logits(
    single: Single, x: Tensor, labels: Tensor | None, noise: Noise, count: int, *, alone: bool
) -> list[Tensor]:
    """Logits ``[B, C]`` of each of ``count`` draws; ``alone``: sample by sample, of networks that draw for a batch."""
    if not alone:
        return _of_batch(single, x, labels, noise, count, max(1, _ROWS // len(x)))
    truth = torch.split(labels, 1) if labels is not None else [None] * len(x)
    rows = [noise.take(torch.tensor([k], device=x.device)) for k in range(len(x))]
    each = [
        _of_batch(single, part, label, row, count, 1)
        for part, label, row in zip(torch.split(x, 1), truth, rows, strict=True)
    ]
    return [torch.cat(draws) for draws in zip(*each, strict=True)]


def _of_batch(single: Single, x: Tensor, labels: Tensor | None, noise: Noise, count: int, at_once: int) -> list[Tensor]:
    found: list[Tensor] = []
    for numbers in torch.split(torch.arange(count, device=x.device), at_once):
        streams = Noise(noise.keys.repeat(len(numbers))).child(numbers.repeat_interleave(len(x)))
        truth = None if labels is None else labels.repeat(len(numbers))
        with Drawing(streams):
            logits = single(x.repeat(len(numbers), *(1,) * (x.dim() - 1)), truth)
        found += logits.chunk(len(numbers))
    return found
