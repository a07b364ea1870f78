"""Certificates tried out: a few steps of ascent, and random points, at the very sizes that are certified."""

from collections.abc import Iterator

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import Samples, norm_of
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.probing import BackwardError, input_gradient
from robustatlas.models.objectives import margin_of
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.color import Line
from robustatlas.threats.lp import Lp, whole

_STEPS = (1.0, 0.5, 0.5, 0.25, 0.25)
"""Lengths of the steps of an ascent, relative to the size: the first reaches the border, and the next ones still reach
the other side of the ball."""
_BEYOND = 1.001
"""Relative to the margin: a point is taken so far beyond the plane on which the margin of a linear network vanishes."""
_DRAWS = 4
"""Random points of the border, for models without gradients and those whose gradients mislead. Every size that is
written takes as many forward passes."""
_INSIDE = 1 - 1e-6
"""Relative: points are tried a little within, so that rounding leaves them inside."""


def crossing(model: Classifier, attack: Attack, samples: Samples, sizes: Tensor, seed: int) -> Tensor:
    """Look for errors of a model within certified sizes, by a few steps of the threat model's steepest ascent and by
    random points of the boundaries.

    Returns:
        ``[B]``: the size of the smallest input that is misclassified within the certified size; inf where there is
        none.
    """
    found = torch.full_like(sizes, torch.inf)
    rows = (sizes > 0).nonzero().squeeze(1)
    if len(rows):
        some = samples.select(rows)
        some = Samples(some.x.to(model.dtype), some.labels, some.index)
        found[rows] = _smallest(model, attack, some, sizes[rows].to(some.x.device), seed).cpu()
    return found


def _smallest(model: Classifier, attack: Attack, samples: Samples, certified: Tensor, seed: int) -> Tensor:
    x, p = samples.x, norm_of(attack)
    everything = attack.strengths[-1] if p is None else whole(p, x[0].numel()) if p else x[0].numel()
    radius = torch.where(certified.isinf(), everything, certified)
    radius = (radius * _INSIDE if p != 0 else radius).to(x.dtype)
    found = torch.full_like(certified, torch.inf)
    for theta in _candidate_inputs(
        model, attack.threat, samples, radius, Noise.of(seed, samples.index.to(x.device), "crossing")
    ):
        with torch.no_grad():
            margin = margin_of(model.logits(attack.threat.apply(x, theta), verifying=True), samples.labels)
            size = attack.threat.size(x, theta).to(found.dtype)
        found = torch.where(margin >= 0, found, torch.minimum(found, size))
    return found


def _candidate_inputs(
    model: Classifier, threat: ThreatModel, samples: Samples, radius: Tensor, noise: Noise
) -> Iterator[Tensor]:
    """Yield thetas of size ``radius`` [B]."""
    x, theta = samples.x, threat.neutral(samples.x)
    for step in _STEPS if model.knowledge == "gradients" else ():
        margin, slope = _slope(model, threat, samples, theta)
        if slope is None:
            break
        if isinstance(threat, Lp):
            yield threat.project(x, theta + threat.hyperplane(x, theta, slope, _BEYOND * margin), radius)
        theta = threat.project(x, threat.move(x, theta, threat.steepest(x, slope), step * radius), radius)
        yield theta
    if isinstance(threat, Line):
        yield from (radius[:, None], -radius[:, None])
    for draw in range(_DRAWS):
        yield threat.start(x, radius, noise.child(draw))


def _slope(model: Classifier, threat: ThreatModel, samples: Samples, theta: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the margins [B], and the direction of theta in which they fall; None where there is no gradient."""
    leaf = theta.detach().requires_grad_()
    with torch.enable_grad():
        margin = margin_of(model.logits(threat.apply(samples.x, leaf), verifying=True), samples.labels)
        try:
            slope = input_gradient(-margin, leaf)
        except BackwardError:
            slope = None
    return margin.detach(), None if slope is None else slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
