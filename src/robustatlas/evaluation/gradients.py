"""The gradient of a model, as far as a few samples of the data show how it is taken.

Two models with the same answers can have other gradients: rounding passes none on, and a stand-in for it does. What an
attack finds depends on that, so it is part of what determines its numbers.
"""

import math
from collections.abc import Collection

import torch
from torch import Tensor

from robustatlas.checks.sanity.gradients import margin_gradients, share_without_gradient
from robustatlas.common.bundle import flat
from robustatlas.common.noise import Noise
from robustatlas.data import Beginning
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import Backward
from robustatlas.outcomes.records import GradientRecord, Numbers

_PROJECTIONS = 8

_EXACT, _ROUGH = 0.05, 0.5
"""Differences that the recorded numbers, which are of the order of 1, may have although the gradient is the same: for
networks in float32 or float64, on any device, and for networks in half precision."""


def gradient_record(
    model: Classifier, first: Beginning, sample: tuple[Tensor, Tensor], ways: Collection[Backward | None]
) -> GradientRecord | None:
    """Return the record of the gradients that an attack takes; None for an attack that takes none.

    Args:
        model: under attack, with the ``kinks`` that it is to be smoothed by.
        first: samples of the data, the same for every evaluation of it.
        sample: images [B, ...] and labels [B] among those to be evaluated.
        ways: the ways back that the attack uses.
    """
    if not ways:
        return None
    without = share_without_gradient(model, *sample, sorted(ways, key=str))
    return projected_gradients(model, first, ways).model_copy(update={"without": without})


def projected_gradients(model: Classifier, first: Beginning, ways: Collection[Backward | None]) -> GradientRecord:
    """Return the gradients of the margins at some samples, projected, for each way back. A sample of a class that the
    model lacks, of which only others are evaluated, counts as one of its last class."""
    labels = first.labels if model.class_count is None else first.labels.clamp(max=model.class_count - 1)
    return GradientRecord(
        at=first.index,
        ways={
            way or "own": _projected(margin_gradients(model, first.images, labels, way)[1])
            for way in sorted(ways, key=str)
        },
        within=_ROUGH if model.network_dtype in (torch.float16, torch.bfloat16) else _EXACT,
        kinks=model.kinks if "smoothed" in ways else (),
    )


def _projected(gradients: Tensor) -> Numbers:
    """Return the length of each sample's gradient, as a power of two, and projections of its direction. Both are zero
    if the gradient is zero or not finite."""
    slopes = flat(gradients).double().cpu()
    signs = Noise.of(0, torch.arange(_PROJECTIONS), "gradients").uniform(slopes.shape[1]).sub(0.5).sign().double()
    lengths = slopes.norm(dim=1, keepdim=True)
    rows = torch.cat([lengths.log2(), (slopes / lengths) @ signs.T], 1).tolist()
    return tuple(tuple(round(v, 2) + 0.0 for v in row) if all(map(math.isfinite, row)) else () for row in rows)
