"""A network with the steps that lead to it: inputs in [0, 1] are prepared, normalised and cast before it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.wording import counted

Net = Callable[[Tensor], Any]

Statistic = float | tuple[float, ...]
"""One number for all channels, or one per channel."""

Given = float | Sequence[float] | Tensor | None
"""A mean or a deviation as callers may give it."""

_IMAGE_DIMENSIONS = 4
"""Dimensions of a batch of images [B, C, H, W]."""
_ONE_SIZE_HINT = "; one that takes batches of a single size is given as Classifier(net, batch_size=that size)"


@dataclass(frozen=True)
class InputSteps:
    """The steps from inputs in [0, 1] to the inputs of a network.

    Attributes:
        prepare: function of inputs [B, ...] that comes first, such as resizing (None: no such step).
        normalisation: ``mean`` and ``std`` where they are given, as tensors [] or [C].
        dtype: number format that inputs are cast to (None: they stay as they are).
    """

    prepare: Net | None
    normalisation: Mapping[str, Tensor]
    dtype: torch.dtype | None

    def call(self, net: Net, x: Tensor) -> Any:
        """Return whatever ``net`` returns for the batch ``x`` [B, ...].

        The network never gets the memory of ``x``, because it may write into its input.
        """
        if self.prepare is not None:
            x = _call_part(self.prepare, x.clone(), " (its prepare)")
            if not isinstance(x, Tensor):
                raise UserError(f"prepare returned {type(x).__name__}; expected inputs as a tensor [B, ...].")
        elif not self.normalisation:
            x = x.clone()
        x = normalise(x, self.normalisation)
        return _call_part(net, x if self.dtype is None else x.to(self.dtype))


def _call_part(net: Net, x: Tensor, part: str = "") -> Any:
    """Call a ``part`` of the model; its errors become sentences that name the shape of the batch."""
    try:
        return net(x)
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        taken = input_channels(net)
        if x.dim() == _IMAGE_DIMENSIONS and taken not in (None, x.shape[1]):
            raise UserError(
                f"The model{part} failed ({first_line(error)}): its first layer takes {counted(taken, 'channel')}, "
                f"and the images have {x.shape[1]}. Give pictures in folders with --channels {taken} "
                f"(channels={taken} of load_dataset), and other images in that form."
            ) from error
        check_inputs_of(net)
        sizes = "" if isinstance(error, TypeError) else _ONE_SIZE_HINT
        raise UserError(
            f"The model{part} failed on a batch of shape {tuple(x.shape)}: {first_line(error)}. "
            f"Try it on such a batch by itself{sizes}. Finished shards of the run are kept."
        ) from error


def check_inputs_of(net: Callable[..., Any]) -> None:
    """Raise a :class:`UserError` if a network cannot be called with one input."""
    try:
        parameters = inspect.signature(net.forward if isinstance(net, nn.Module) else net).parameters.values()
    except (TypeError, ValueError):  # code that is not written in Python has no signature
        return
    fillable = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not fillable or len(needed) > 1 or (needed and needed[0] != fillable[0].name):
        raise UserError(
            f"The model takes {len(needed)} inputs ({', '.join(needed)}), and is called with one, images [B, ...]: "
            "give a function of the images that fills in the others, such as lambda x: net(x, other)."
        )


def input_channels(net: Any) -> int | None:
    """Return the number of image channels that a network takes, or None if it cannot be read from it.

    It is read from the first convolution or from an attribute ``shape`` (B, C, H, W).

    >>> input_channels(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())), input_channels(nn.Linear(4, 2)) is None
    (3, True)
    """
    modules = net.modules() if isinstance(net, nn.Module) else ()
    for module in modules:
        if isinstance(module, nn.Conv2d):
            return module.in_channels
    shape = getattr(net, "shape", ())
    return shape[1] or None if isinstance(shape, tuple) and len(shape) == _IMAGE_DIMENSIONS else None


def statistic(values: Given, name: str) -> Statistic | None:
    """Return a mean or a deviation as plain numbers; ``name`` stands for it in the message if it is none."""
    if values is None:
        return None
    try:
        numbers = torch.as_tensor(np.array(values) if hasattr(values, "__array__") else values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.empty(0)
    if numbers.dim() > 1 or not numbers.numel() or not bool(torch.isfinite(numbers).all()):
        raise UserError(
            f"{name}={values} does not fit; expected one finite number per channel, such as (0.49, 0.48, 0.45)."
        )
    if name.endswith("std") and bool((numbers <= 0).any()):
        raise UserError(f"{name}={values} has entries that are not positive; expected positive numbers.")
    return tuple(numbers.tolist()) if numbers.dim() else float(numbers)


def normalise(x: Tensor, statistics: Mapping[str, Tensor]) -> Tensor:
    """Subtract ``statistics["mean"]`` from ``x`` [B, C, ...] and divide by ``statistics["std"]``, where they exist."""
    for numbers in statistics.values():
        if numbers.dim() == 1 and (x.dim() < 2 or x.shape[1] != len(numbers)):
            raise UserError(
                f"mean/std have {len(numbers)} channels; the inputs have shape {tuple(x.shape)} (batch, channels, ...)."
            )
    shape = (-1, *(1,) * (x.dim() - 2))
    if "mean" in statistics:
        x = x - statistics["mean"].view(shape)
    if "std" in statistics:
        x = x / statistics["std"].view(shape)
    return x
