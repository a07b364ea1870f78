"""Synchronisation of the host with the device.

Reading a number from an accelerator waits until its queue of work is empty. So loops read their results only every few
steps there, in one transfer. On the CPU nothing is queued: reading is free and saves work, so loops read at every step.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from torch import Tensor

from robustatlas.common.errors import UserError

SYNC_INTERVAL = 8
"""Steps between two synchronisations on accelerators."""

_OVERRIDE: ContextVar[int | None] = ContextVar("sync_interval", default=None)


def sync_interval(device: torch.device) -> int:
    """Return the number of steps between two synchronisations on ``device``.

    Example:
        >>> sync_interval(torch.device("cpu")), sync_interval(torch.device("cuda"))
        (1, 8)
    """
    return _OVERRIDE.get() or (1 if device.type == "cpu" else SYNC_INTERVAL)


def is_sync_free(device: torch.device) -> bool:
    """Return True if results may be read at any time without waiting for the device."""
    return sync_interval(device) == 1


@contextmanager
def sync_every(steps: int) -> Iterator[None]:
    """Synchronise every ``steps`` steps inside of the block.

    Results do not depend on it; the number of passes does, as samples are freed later.

    Example:
        >>> with sync_every(4):
        ...     sync_interval(torch.device("cpu"))
        4
    """
    token = _OVERRIDE.set(steps)
    try:
        yield
    finally:
        _OVERRIDE.reset(token)


def check_default_device() -> None:
    """Check that tensors made without a device hold numbers.

    Raises:
        UserError: torch's default device is "meta".

    Example:
        >>> check_default_device()
    """
    if torch.get_default_device().type == "meta":
        raise UserError(
            "The default device of torch is 'meta', which holds no numbers: give torch.set_default_device('cpu')."
        )


def to_host(*values: Tensor) -> list[int]:
    """Return integers and booleans ``[]`` of the device as Python integers; it waits for the device once.

    Example:
        >>> flags = torch.tensor([True, False, True])
        >>> to_host(flags.sum(), flags.any(), torch.tensor(7))
        [2, 1, 7]
    """
    numbers: list[int] = torch.stack([value.long() for value in values]).tolist()
    return numbers


def maybe_any(flags: Tensor) -> bool:
    """Return True if any flag holds, and also if reading the flags would wait for the device.

    It guards work that is unnecessary, but harmless, if no flag holds.
    """
    return not is_sync_free(flags.device) or bool(flags.any())


def true_rows(mask: Tensor, count: int) -> Tensor:
    """Return the rows ``[count]`` where ``mask`` [B] holds.

    The host knows their number already: so this needs no synchronisation, as ``mask.nonzero()`` would.
    """
    return (~mask).byte().argsort(stable=True)[:count]


@cache
def _make_once(
    make: Callable[..., Tensor], arguments: tuple[Hashable, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):  # an inference tensor in the cache could never take part in a backward pass
        return make(*arguments).to(device, dtype)


def cached_tensor(make: Callable[..., Tensor], *arguments: Hashable, like: Tensor) -> Tensor:
    """Return ``make(*arguments)`` with the dtype of ``like``, on its device; computed and transferred once.

    All callers share the tensor: do not modify it in place.
    """
    return _make_once(make, arguments, like.dtype, like.device)


def _float64_tensor(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def constant_tensor(values: Sequence[float], like: Tensor) -> Tensor:
    """Return ``values`` as a shared tensor like :func:`cached_tensor`: with the dtype of ``like``, on its device.

    Example:
        >>> constant_tensor((1, 2), torch.zeros(3, dtype=torch.int64))
        tensor([1, 2])
    """
    return cached_tensor(_float64_tensor, tuple(values), like=like)
