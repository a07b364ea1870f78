"""What the host asks of the device, and how often. Whoever reads a number from an accelerator waits until its queue of
work is empty, so loops look at their results only every few steps there, in one transfer. On the CPU nothing is queued:
looking costs nothing and saves needless work, so loops look at every step."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from torch import Tensor

from robustatlas.common.errors import UserError

LOOK_EVERY = 8
"""Steps from look to look on accelerators."""

_OVERRIDE: ContextVar[int | None] = ContextVar("looking", default=None)


def stride(device: torch.device) -> int:
    """Steps from look to look on ``device``.

    Example:
        >>> stride(torch.device("cpu")), stride(torch.device("cuda"))
        (1, 8)
    """
    return _OVERRIDE.get() or (1 if device.type == "cpu" else LOOK_EVERY)


def looking_is_free(device: torch.device) -> bool:
    """Whether a result may be looked at whenever that saves work."""
    return stride(device) == 1


@contextmanager
def looking_every(steps: int) -> Iterator[None]:
    """Look every ``steps`` steps inside. Results are the same, passes are not.

    Example:
        >>> with looking_every(4):
        ...     stride(torch.device("cpu"))
        4
    """
    token = _OVERRIDE.set(steps)
    try:
        yield
    finally:
        _OVERRIDE.reset(token)


def check_default_device() -> None:
    """Look where torch makes tensors here that are told no device.

    Example:
        >>> check_default_device()
    """
    if torch.get_default_device().type == "meta":
        raise UserError(
            "The default device of torch is 'meta', which holds no numbers: give torch.set_default_device('cpu')."
        )


def to_host(*values: Tensor) -> list[int]:
    """Whole numbers and truth values ``[]`` as the host knows them, in one transfer: here it waits.

    Example:
        >>> flags = torch.tensor([True, False, True])
        >>> to_host(flags.sum(), flags.any(), torch.tensor(7))
        [2, 1, 7]
    """
    known: list[int] = torch.stack([value.long() for value in values]).tolist()
    return known


def maybe_any(flags: Tensor) -> bool:
    """Whether any of ``flags`` holds; True, without waiting to know, where looking is not free.

    For work that nobody needs otherwise, and that changes nothing if it is done all the same.
    """
    return not looking_is_free(flags.device) or bool(flags.any())


def indices(mask: Tensor, count: int) -> Tensor:
    """``[count]``: the rows where ``mask`` [B] holds, of which the host knows that they are ``count``."""
    return (~mask).byte().argsort(stable=True)[:count]


@cache
def _made(make: Callable[..., Tensor], arguments: tuple[Hashable, ...], dtype: torch.dtype, at: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return make(*arguments).to(at, dtype)


def cached(make: Callable[..., Tensor], *arguments: Hashable, like: Tensor) -> Tensor:
    """``make(*arguments)`` with the dtype of ``like``, on its device; made and sent there once. Not to be changed."""
    return _made(make, arguments, like.dtype, like.device)


def _numbers(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def constant(values: Sequence[float], like: Tensor) -> Tensor:
    """``values`` as a tensor with the dtype of ``like``, on its device; made and sent there once. Not to be changed.

    Example:
        >>> constant((1, 2), torch.zeros(3, dtype=torch.int64))
        tensor([1, 2])
    """
    return cached(_numbers, tuple(values), like=like)
