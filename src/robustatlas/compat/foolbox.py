"""Attacks of ours in foolbox's calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import UserError
from robustatlas.compat.smallest import has_smallest, smallest
from robustatlas.models.classifier import Classifier, undisturbed
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE

Epsilons = float | None | Sequence[float]


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
    found = has_smallest(attack_named(attack) if isinstance(attack, str) else attack)
    return FoolboxAttack(found, seed, batch_size)


class FoolboxAttack:
    """See :func:`as_foolbox`."""

    def __init__(self, attack: Attack, seed: int, batch_size: int) -> None:
        self.attack, self.seed, self.batch_size = attack, seed, batch_size

    def __call__(self, model: Any, inputs: Any, criterion: Any, *, epsilons: Epsilons) -> tuple[Any, Any, Any]:
        """The smallest examples found, those within each epsilon, and whether there are such.

        Args:
            model: a PyTorch model of foolbox.
            inputs: ``[N, ...]`` within the model's bounds.
            criterion: labels ``[N]``, or foolbox's ``Misclassification``.
            epsilons: strengths in the units of the attack, for inputs in [0, 1]; one (or None: whatever the size), or
                a list.

        Returns:
            ``raw``, ``clipped`` (inputs, or a list of them) and ``is_adv`` (``[N]``, or ``[K, N]``). Where there is
            no example within an epsilon, ``clipped`` is the input as it was.
        """
        x, labels = torch.as_tensor(getattr(inputs, "raw", inputs)), _labels_of(criterion)
        low, high = map(float, model.bounds)
        classifier = Classifier(lambda given: model(given * (high - low) + low), device=x.device, dtype=x.dtype)
        several = isinstance(epsilons, (list, tuple, np.ndarray))
        asked: list[float | None] = list(epsilons) if several else [epsilons]  # type: ignore[arg-type,list-item]
        with undisturbed():
            scaled = (x.detach() - low) / (high - low)
            found, sizes = smallest(
                self.attack, classifier, scaled, labels.to(x.device), asked, self.seed, self.batch_size
            )
        raw = found * (high - low) + low
        limits = [torch.inf if epsilon is None else epsilon * (1 + STRENGTH_TOLERANCE) for epsilon in asked]
        within = [(sizes <= limit) & sizes.isfinite() for limit in limits]
        clipped = [torch.where(per_sample(inside, x), raw, x) for inside in within]
        if several:
            return [raw] * len(asked), clipped, torch.stack(within)
        return raw, clipped[0], within[0]


def _labels_of(criterion: Any) -> Tensor:
    if type(criterion).__name__ == "TargetedMisclassification":
        raise UserError("Attacks of ours look for any error; expected labels, or foolbox's Misclassification.")
    labels = getattr(criterion, "labels", criterion)
    return torch.as_tensor(getattr(labels, "raw", labels)).long()
