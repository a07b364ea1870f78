"""How many threads the network runs fastest with, here and now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from robustatlas.common.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from robustatlas.data import Rows
    from robustatlas.models.classifier import Classifier

_BATCH, _ROUNDS = 16, 3
_GAIN = 0.9
"""Several threads must take less than this share of the time of one: on a busy machine they wait for each other."""


def set_threads(given: int | None, model: Classifier, images: Rows) -> int:
    """Use ``given`` threads, or on a processor the faster of one and torch's default; the number that is used."""
    import torch

    default = torch.get_num_threads()
    if given is not None:
        if given < 1:
            raise UserError(f"--threads {given} is not possible; expected at least 1.")
        torch.set_num_threads(given)
    elif model.device.type == "cpu" and default > 1:
        x = images[:_BATCH].to(model.dtype)
        several = _seconds(model, x)
        torch.set_num_threads(1)
        if several < _GAIN * _seconds(model, x):
            torch.set_num_threads(default)
    return torch.get_num_threads()


def _seconds(model: Classifier, x: Tensor) -> float:
    """Shortest time of a forward and backward pass, the first one apart."""
    import torch

    taken = []
    with model.evaluating():
        for _ in range(1 + _ROUNDS):
            leaf = x.clone().requires_grad_()
            begun = time.perf_counter()
            logits = model.logits(leaf)
            if logits.requires_grad:
                torch.autograd.grad(logits.sum(), leaf, allow_unused=True)
            taken.append(time.perf_counter() - begun)
    return min(taken[1:])
