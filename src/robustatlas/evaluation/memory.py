"""How many samples fit into memory at once."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.models.classifier import Classifier

_LARGEST = 4096
_GAIN = 1.1
"""A batch twice as large must be at least so much faster a sample, or it is not worth its memory."""
_SECONDS = 2.0
"""Once a batch takes longer than this, larger ones are not tried."""
_SHARE = 2
"""An attack holds a few batches besides the network's activations, so this part of the largest batch that fits is
taken."""

_SAID = ("can't allocate memory", "out of memory", "not enough memory")


def ran_out(error: BaseException | None) -> bool:
    """Whether memory ran out, on whatever device.

    Example:
        >>> ran_out(RuntimeError("DefaultCPUAllocator: can't allocate memory")), ran_out(ValueError("x"))
        (True, False)
    """
    while error is not None:
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            return True
        if isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID):
            return True
        error = error.__cause__
    return False


def fitting_batch(model: Classifier, x: Tensor, most: int) -> int:
    """How many samples like ``x`` [1, ...] to have at work at once, at most ``most``: the smallest power of two that
    the network is about as fast with as with any other, and well within memory."""
    best, pace = 1, 0.0
    size = min(16, most)
    while True:
        seconds = seconds_of_a_batch(model, x, size)
        if seconds is None:
            best = max(1, min(best, size // 2 // _SHARE))
            break
        if size / seconds >= _GAIN * pace:
            best, pace = size, size / seconds
        if size >= min(most, _LARGEST) or seconds > _SECONDS:
            break
        size = min(2 * size, most, _LARGEST)
    return best


def seconds_of_a_batch(model: Classifier, x: Tensor, size: int) -> float | None:
    """Shortest of two times that the forward and backward pass of ``size`` samples like ``x`` [1, ...] takes; None
    where they do not fit."""
    taken = []
    try:
        batch = x.expand(size, *x.shape[1:]).clone()
        batch *= per_sample(torch.linspace(0.5, 1, size, dtype=x.dtype, device=x.device), batch)
        for _ in range(2):
            leaf = batch.clone().requires_grad_(model.knowledge == "gradients")
            begun = time.perf_counter()
            logits = model.logits(leaf)
            if logits.requires_grad:
                torch.autograd.grad(logits.sum(), leaf, allow_unused=True)
            float(logits.detach()[0, 0])  # waits for the device
            taken.append(time.perf_counter() - begun)
    except Exception as error:
        if not ran_out(error):
            raise
        forget(model.device)
        return None
    return min(taken)


def forget(device: torch.device) -> None:
    """Give memory that nothing uses back to the device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
