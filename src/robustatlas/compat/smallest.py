"""The smallest examples that an attack of ours finds, for calling conventions that hand them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robustatlas import engine
from robustatlas.attacks.definition import Attack
from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier


def has_smallest(attack: Attack) -> Attack:
    """The attack; :class:`UserError` where it has no smallest example to return."""
    if attack.judges_last or not attack.nested:
        raise UserError(f"{attack.name!r} has no smallest example to return; use an attack on nested sets.")
    return attack


def smallest(
    attack: Attack,
    model: Classifier,
    x: Tensor,
    labels: Tensor,
    epsilons: Sequence[float | None],
    seed: int,
    batch_size: int,
) -> tuple[Tensor, Tensor]:
    """``[N, ...]`` smallest examples of ``x`` in [0, 1], up to the largest of ``epsilons`` (None: whatever the size),
    and ``[N]`` their sizes: 0 misclassified as it is, inf none."""
    wanted = sorted({epsilon for epsilon in epsilons if epsilon is not None and epsilon > 0})
    strengths = tuple(wanted) if wanted and None not in epsilons else attack.strengths
    bound = replace(attack, strengths=strengths).bound_to(model)
    noise = Noise.of(seed, torch.arange(len(x), device=x.device), attack.name)
    ledger = engine.run(engine.set_up(model, bound, bound.searches[0], x, labels, noise, batch_size))
    right = ledger.clean_prediction == labels
    found = bound.threat.apply(x, ledger.best_theta).detach()
    return torch.where(per_sample(right, x), found, x), torch.where(right, ledger.best_size, 0.0)
