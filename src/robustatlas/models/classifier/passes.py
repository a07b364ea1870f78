"""Forward and backward passes, counted for whoever asks."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_ADDING = threading.Lock()


@dataclass
class Passes:
    """The number of samples that went forward and backward through a model.

    Attributes:
        forward, backward: numbers of samples.

    Example:
        >>> Passes(forward=3, backward=2)
        Passes(forward=3, backward=2)
    """

    forward: int = 0
    backward: int = 0


Watch = Callable[[Passes], None]
"""Called before each forward pass with the passes so far; an exception keeps the pass from being made."""

_COUNTING: ContextVar[tuple[tuple[object, Passes, Watch | None], ...]] = ContextVar("counting", default=())


@contextmanager
def counting(model: object, watch: Watch | None = None) -> Iterator[Passes]:
    """Count the passes that this caller makes through ``model`` inside; other threads and tasks count their own."""
    passes = Passes()
    token = _COUNTING.set((*_COUNTING.get(), (model, passes, watch)))
    try:
        yield passes
    finally:
        _COUNTING.reset(token)


def listeners(model: object) -> list[Passes]:
    """Return the counts of all who count the passes of ``model`` now; a watch among them may prevent the next pass."""
    found = [(passes, watch) for each, passes, watch in _COUNTING.get() if each is model]
    for passes, watch in found:
        if watch is not None:
            watch(passes)
    return [passes for passes, _ in found]


def count_passes(x: Tensor, to: Sequence[Passes]) -> Tensor:
    """Return ``x`` [B, ...], and add B forward passes to each of ``to``, and B backward ones when a gradient comes.

    Gradients are charged to those who counted the forward pass: autograd may run them in threads of its own.
    """
    _add(to, forward=len(x))
    if x.requires_grad and torch.is_grad_enabled():
        x = _CountBackward.apply(x, to)  # type: ignore[no-untyped-call]
    return x


def _add(to: Sequence[Passes], forward: int = 0, backward: int = 0) -> None:
    with _ADDING:
        for passes in to:
            passes.forward += forward
            passes.backward += backward


class _CountBackward(torch.autograd.Function):
    """The identity; counts the samples of each backward pass through it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, to: Sequence[Passes]) -> Tensor:
        ctx.to = to
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        _add(ctx.to, backward=len(gradient))
        return gradient, None
