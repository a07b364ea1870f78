"""Attacks of ours in foolbox's calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import real
from robustatlas.compat.smallest import Smallest
from robustatlas.data.arrays import tensor_of
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.threats.lp import Lp

Epsilons = float | None | Sequence[float | None]


def as_foolbox(attack: str | Attack, *, seed: int = 0, batch_size: int = 256) -> FoolboxAttack:
    """An attack of ours that is called as foolbox calls its own.

    Args:
        attack: a name of the catalogue, or an :class:`Attack`.
        seed: of its random numbers.
        batch_size: samples at work at once.

    Returns:
        an object of foolbox's kind: called with a model of foolbox, inputs, labels and epsilons.

    Raises:
        UserError: the attack has no smallest example to return, or there is no attack of that name.

    Example:
        >>> import foolbox
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)).eval()
        >>> model = foolbox.PyTorchModel(net, bounds=(0, 1))
        >>> x, y = torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 0])
        >>> raw, clipped, is_adv = as_foolbox("linf")(model, x, y, epsilons=[0.05, 0.1])
        >>> len(clipped), clipped[0].shape, is_adv.shape
        (2, torch.Size([3, 1, 2, 2]), torch.Size([2, 3]))
    """
    return FoolboxAttack(Smallest.of(attack, seed, batch_size))


class FoolboxAttack:
    """See :func:`as_foolbox`."""

    def __init__(self, smallest: Smallest) -> None:
        self._smallest = smallest

    @property
    def attack(self) -> Attack:
        """The attack of ours."""
        return self._smallest.attack

    def __call__(self, model: Any, inputs: Any, criterion: Any, *, epsilons: Epsilons) -> tuple[Any, Any, Any]:
        """The smallest examples found, those within each epsilon, and whether there are such.

        Args:
            model: a PyTorch model of foolbox.
            inputs: ``[N, ...]`` within the model's bounds.
            criterion: labels ``[N]``, or foolbox's ``Misclassification``.
            epsilons: strengths, one (or None: whatever the size) or a list; in lp norms sizes within the model's
                bounds, as foolbox means them, of other attacks in the unit of the attack.

        Returns:
            ``raw``, ``clipped`` (inputs, or a list of them) and ``is_adv`` (``[N]``, or ``[K, N]``). Where there is
            no example within an epsilon, ``clipped`` is the input as it was.

        Raises:
            UserError: inputs outside of the bounds, or what else :func:`robustatlas.evaluate` would refuse.
        """
        x, labels = tensor_of(getattr(inputs, "raw", inputs)), _labels_of(criterion)
        x = x if x.is_floating_point() else x.float()
        low, high = map(float, model.bounds)
        several, asked = _asked(epsilons)
        unit = high - low if isinstance(self.attack.threat, Lp) and self.attack.threat.p > 0 else 1.0
        sizes_asked = [None if epsilon is None else epsilon / unit for epsilon in asked]
        classifier = Classifier(lambda given: model(given * (high - low) + low), device=x.device, dtype=x.dtype)
        whose = "Inputs" if (low, high) == (0, 1) else f"Inputs, brought from the bounds {low:g}..{high:g} to 0..1,"
        remedy = "the bounds of the model are to hold them: foolbox.PyTorchModel(net, bounds=(lowest, highest))"
        found, sizes = self._smallest(classifier, (x - low) / (high - low), labels, sizes_asked, whose, remedy)
        raw = found * (high - low) + low
        limits = [torch.inf if size is None else size * (1 + STRENGTH_TOLERANCE) for size in sizes_asked]
        within = [(sizes <= limit) & sizes.isfinite() for limit in limits]
        clipped = [torch.where(per_sample(inside, x), raw, x) for inside in within]
        if several:
            return [raw] * len(asked), clipped, torch.stack(within)
        return raw, clipped[0], within[0]


def _asked(epsilons: Any) -> tuple[bool, list[float | None]]:
    several = isinstance(epsilons, (list, tuple)) or getattr(epsilons, "ndim", 0) == 1
    given = list(epsilons) if several else [epsilons]
    found = [None if epsilon is None else real(epsilon) for epsilon in given]
    if not found or not all(epsilon is None or 0 <= epsilon < np.inf for epsilon in found):
        raise UserError(
            f"epsilons={brief(repr(epsilons))}; expected a strength from 0, several, or None: whatever the size."
        )
    return several, found


def _labels_of(criterion: Any) -> Tensor:
    if type(criterion).__name__ == "TargetedMisclassification":
        raise UserError("Attacks of ours look for any error; expected labels, or foolbox's Misclassification.")
    labels = getattr(criterion, "labels", criterion)
    return tensor_of(getattr(labels, "raw", labels))
