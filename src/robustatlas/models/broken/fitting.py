"""Small networks trained on the digits in seconds, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.data import load_dataset
from robustatlas.models.architectures import digits_cnn
from robustatlas.models.classifier import seeded

_EPOCHS = 25
_BATCH = 64


@cache
def training_data() -> tuple[Tensor, Tensor]:
    """Images and labels of the training part of the digits."""
    data = load_dataset("digits", "train")
    return data.images, data.labels


def fitted(
    seed: int,
    make: Callable[[], nn.Module] = digits_cnn,
    transformed: Callable[[Tensor], Tensor] = lambda x: x,
    epochs: int = _EPOCHS,
) -> nn.Module:
    """A network, trained on ``transformed`` images by Adam; torch's own random numbers are left as they are."""
    images, labels = training_data()
    with seeded(seed), torch.enable_grad():
        net = make().train()
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(images)), _BATCH):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(transformed(images[rows])), labels[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return net.eval().requires_grad_(False)


def features_of(net: nn.Sequential) -> nn.Sequential:
    """The network without its last layer."""
    return nn.Sequential(*list(net)[:-1])
