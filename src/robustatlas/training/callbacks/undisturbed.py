"""A training that does not notice that its network was looked at."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from robustatlas.common.errors import UserError


@contextmanager
def unnoticed(net: nn.Module) -> Iterator[None]:
    """Whatever is done to ``net`` inside, the training around goes on as it would have: the random states of Python,
    NumPy and torch, the mode of every module, buffers and gradients are afterwards what they were before."""
    modes = [(module, module.training) for module in net.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in net.buffers()]
    gradients = [(weight, weight.grad) for weight in net.parameters()]
    python, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that a training draws from
    try:
        with torch.random.fork_rng(_devices(net)), _full_precision(net):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002
        for module, training in modes:
            module.training = training
        for weight, gradient in gradients:
            weight.grad = gradient
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)


def _devices(net: nn.Module) -> list[torch.device]:
    """Those of CUDA that draw random numbers."""
    return list({weight.device for weight in net.parameters() if weight.device.type == "cuda"})


@contextmanager
def _full_precision(net: nn.Module) -> Iterator[None]:
    """Without the autocast of a training in mixed precision."""
    kind = next((weight.device.type for weight in net.parameters()), "cpu")
    with torch.autocast(kind, enabled=False):
        yield


def bare(net: nn.Module) -> nn.Module:
    """The network itself, without what distributes or compiles it: a pass through it waits for no other process.

    Raises:
        UserError: its weights are spread over processes, so that one of them alone cannot look.

    Example:
        >>> net = nn.Linear(2, 2)
        >>> bare(nn.DataParallel(net)) is net
        True
    """
    inner: nn.Module = getattr(net, "_orig_mod", net)
    if isinstance(inner, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return bare(inner.module)
    spread = [type(module).__name__ for module in inner.modules() if "FullySharded" in type(module).__name__]
    if spread or any(type(weight).__name__ == "DTensor" for weight in inner.parameters()):
        raise UserError(
            f"The weights of the network are spread over the processes ({spread[0] if spread else 'DTensor'}), and a "
            "look is one process's work; leave the callback out, and evaluate a checkpoint."
        )
    return inner
