"""A comparison of what was read of a model with what the model computes, outside of the export too."""

from collections.abc import Sequence

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import Subject
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Network
from robustatlas.certificates.regions import NormBall
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.models.classifier import Classifier

COMPARED = 32
"""Samples on which logits are compared, and as many images of noise and inputs that each attack may make."""

_BATCHES = (1, 2, 3)
"""Sizes of batches besides that of the run: a forward that looks at the size of its batch tells 1 from several, or odd
from even."""
_CALLS = 8
"""Batches of one size, at most."""
_RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2.0**-7, torch.bfloat16: 2.0**-4}
"""Share of the largest logit that rounding explains at most, where its bound is larger, as in deep networks."""


def check_reading(network: Network, model: Classifier, attacks: Sequence[Attack], x: Tensor, batch: int) -> None:
    """Compare what was read of a model with its logits, on samples, on noise and on inputs that the attacks may make,
    in batches of 1, 2, 3 and ``batch``, each with gradients and without.

    Example:
        >>> import robustatlas as ra
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> from robustatlas.certificates import Subject
        >>> model, x = ra.load_model("builtin:digits-linf"), torch.rand(4, 1, 8, 8)
        >>> check_reading(Subject(model, (1, 8, 8)).network, model, [attack_named("linf")], x, batch=16)
    """
    points = _points(attacks, x)
    known, off = _logits(network, model, points)
    for size in (*_BATCHES, max(batch, *_BATCHES)):
        rows = torch.arange(min(_CALLS * size, max(size, len(points))), device=x.device) % len(points)
        for some in torch.split(rows, size):
            for gradients in (False, True):
                with torch.set_grad_enabled(gradients):
                    found = model.logits(points[some].requires_grad_(gradients), verifying=True).detach().double()
                _compare(model, found, known[some], off[some], size)


def check_known(subject: Subject, attacks: Sequence[Attack], work: ChosenSamples, batch: int) -> None:
    """:func:`check_reading` on some of the samples, where a method has read the network."""
    if subject.network_read is not None:
        rows = torch.linspace(0, len(work.labels) - 1, min(COMPARED, len(work.labels))).round().long()
        x = work.rows[rows].to(subject.model.device, subject.model.dtype)
        check_reading(subject.network_read, subject.model, attacks, x, batch)


def _points(attacks: Sequence[Attack], x: Tensor) -> Tensor:
    """Return samples, noise and inputs that attacks may make [P, ...], one after the other."""
    index = torch.arange(len(x), device=x.device)
    kinds = [x, Noise.for_samples(0, index, "reading").uniform(*x.shape[1:], dtype=x.dtype)]
    for attack in attacks:
        size = x.new_tensor(attack.strengths)[index % len(attack.strengths)]
        theta = attack.threat.start(x, size, Noise.for_samples(0, index, attack.name))
        kinds.append(attack.threat.apply(x, theta))
    return torch.stack(kinds, 1).flatten(0, 1).detach()


def _logits(network: Network, model: Classifier, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits [P, C] of what was read, and by how much rounding may move each; inf where numbers overflow."""
    known, off = [], []
    for some in torch.split(points.double(), COMPARED):
        bounds = Bounds(network, NormBall(some, some.new_zeros(len(some)), torch.inf, box=False), backwards=False)
        logits = network.graph.run(some)
        explained = _RELATIVE[model.network_dtype] * logits.abs().amax(1, keepdim=True)
        most = torch.minimum(bounds.output_deviations(), explained)
        known.append(logits)
        if (ending := network.graph.ending) is not None:
            logits, most = ending(logits), 2 * most + _RELATIVE[model.network_dtype]
            known[-1] = logits
        off.append(torch.where(bounds.overflows[:, None], torch.inf, most))
    return torch.cat(known), torch.cat(off)


def _compare(model: Classifier, found: Tensor, known: Tensor, off: Tensor, size: int) -> None:
    same = found.shape == known.shape
    if same and not (wrong := ~((found - known).abs() <= off) & off.isfinite()).any():
        return
    gap = f"by {float((found - known).abs()[wrong].max()):.2g}" if same else f"in shape, {tuple(found.shape)}"
    raise UserError(
        f"The logits of {model.name} as it runs (batches of {size}) and as torch.export reads it differ {gap}, which "
        "rounding does not explain, so bounds would be of another network; write its forward so that it draws nothing, "
        "keeps no state, and does not look at the size of its batch, at gradients or at torch.compiler."
    )
