"""The device and number format of a network, and its way to another device."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, brief, first_line

_ARRIVING: ContextVar[torch.device | None] = ContextVar("arriving", default=None)


@contextmanager
def unpickle_on(device: str | torch.device) -> Iterator[None]:
    """Bring classifiers that are unpickled inside to ``device``, wherever they were.

    Args:
        device: of torch.

    Example:
        >>> with unpickle_on("cpu"):
        ...     arrival_device()
        device(type='cpu')
    """
    token = _ARRIVING.set(usable_device(device))
    try:
        yield
    finally:
        _ARRIVING.reset(token)


def arrival_device() -> torch.device | None:
    """Return the device of :func:`unpickle_on`, None outside of it.

    Returns:
        the device, or None.

    Example:
        >>> arrival_device() is None
        True
    """
    return _ARRIVING.get()


def first_float(net: object) -> Tensor | None:
    """Return the tensor that tells the device and number format of a network, None if there is none."""
    if not isinstance(net, nn.Module):
        return None
    return next((tensor for tensor in chain(net.parameters(), net.buffers()) if tensor.is_floating_point()), None)


def check_numbers(net: object) -> None:
    """Raise a :class:`UserError` if a tensor of a network holds no numbers."""
    if not isinstance(net, nn.Module):
        return
    named = chain(net.named_parameters(), net.named_buffers())
    if empty := next((name for name, tensor in named if tensor.is_meta), None):
        raise UserError(
            f"The network's {empty!r} is on the device 'meta', which holds no numbers: give it memory by "
            "net.to_empty(device='cpu'), and then its weights by net.load_state_dict(...)."
        )


def input_dtype(own: Tensor | None, asked: torch.dtype | None) -> torch.dtype:
    """Return the number format of the inputs of a network whose first tensor is ``own``: float32 or float64."""
    held = own.dtype if own is not None else asked or torch.float32
    if asked not in (None, torch.float32, torch.float64) or (own is not None and asked not in (None, held)):
        of_network = f"; the parameters of this network are {held}" if own is not None else ""
        raise UserError(f"dtype={asked} does not fit: expected float32 or float64{of_network}.")
    return torch.float64 if held == torch.float64 else torch.float32


def usable_device(device: str | torch.device) -> torch.device:
    """Return the device with its index; :class:`UserError` if it cannot be used here."""
    try:
        found = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UserError(
            f"The device {brief(device)!r} cannot be used here ({first_line(error)}); give 'cpu'"
            + (", or 'cuda'." if torch.cuda.is_available() else ".")
        ) from error
    if found.type == "meta":
        raise UserError("The device 'meta' holds no numbers; give 'cpu' or 'cuda'.")
    return found


def copy_on(device: torch.device, net: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of ``net`` on a device; ``net`` itself stays."""
    try:
        return copy.deepcopy(net).to(device)  # type: ignore[attr-defined,no-any-return]
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise UserError(
            f"The model cannot be copied to {device} ({first_line(error)}); move it there yourself "
            "and leave the device out."
        ) from error
