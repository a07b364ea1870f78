"""Attacks of ours in torchattacks' calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def as_torchattacks(
    model: Any, attack: str | Attack = "linf", eps: float | None = None, *, seed: int = 0, batch_size: int = 256
) -> TorchAttack:
    """An attack of ours that is called as torchattacks calls its own: ``atk(images, labels)``.

    Args:
        model: from inputs to logits.
        attack: a name of the catalogue, or an :class:`Attack`.
        eps: its strength, in the units of the attack; None: the largest of its grid.
        seed: of its random numbers.
        batch_size: samples at work at once.

    Returns:
        an object of torchattacks' kind: called with images in [0, 1] and labels.

    Raises:
        UserError: the attack has no smallest example to return, there is none of that name, or a strength that is none.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)).eval()
        >>> atk = as_torchattacks(net, "linf", eps=0.1)
        >>> atk(torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 0])).shape
        torch.Size([3, 1, 2, 2])
    """
    smallest = Smallest.of(attack, seed, batch_size)
    strength = smallest.attack.strengths[-1] if eps is None else real(eps)
    if not 0 < strength < float("inf"):
        raise UserError(f"eps={brief(repr(eps))} is not a strength; expected a positive number, such as 8/255.")
    return TorchAttack(model, smallest, strength)


class TorchAttack:
    """See :func:`as_torchattacks`."""

    def __init__(self, model: Any, smallest: Smallest, eps: float) -> None:
        self.model, self.eps, self._smallest = model, eps, smallest
        self._mean: Sequence[float] | None = None
        self._std: Sequence[float] | None = None

    def set_normalization_used(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Say how the images that are given were normalised; what is returned is normalised alike."""
        self._mean, self._std = mean, std

    def __call__(self, images: Any, labels: Any) -> Tensor:
        """The smallest examples within ``eps``; images that have none, as they are.

        Args:
            images: ``[N, ...]`` in [0, 1], or normalised as was said.
            labels: ``[N]``.

        Raises:
            UserError: images on another scale, or what else :func:`robustatlas.evaluate` would refuse.
        """
        images, labels = tensor_of(images), tensor_of(labels)
        mean, std = (None if each is None else self._by_channel(each, images) for each in (self._mean, self._std))
        x = images if mean is None or std is None else images * std + mean
        dtype = x.dtype if x.is_floating_point() else None
        classifier = Classifier(self.model, self._mean, self._std, device=x.device, dtype=dtype)
        remedy = "say how they are normalised: atk.set_normalization_used(mean, std)"
        found, sizes = self._smallest(classifier, x, labels, [self.eps], "Images", remedy)
        within = (sizes > 0) & (sizes <= self.eps * (1 + STRENGTH_TOLERANCE))
        made = found if mean is None or std is None else (found - mean) / std
        return torch.where(per_sample(within, images), made, images)

    @staticmethod
    def _by_channel(values: Sequence[float], images: Tensor) -> Tensor:
        return torch.as_tensor(values, dtype=images.dtype, device=images.device).view(-1, 1, 1)
