"""The mean and deviation that a network expects its inputs to be normalised with."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from robustatlas.common.errors import UserError

Statistic = float | tuple[float, ...]
"""One number for all channels, or one per channel."""

Given = float | Sequence[float] | Tensor | None


def statistic(values: Given, what: str) -> Statistic | None:
    """``values`` as plain numbers; ``what`` names them where they are none."""
    if values is None:
        return None
    try:
        numbers = torch.as_tensor(np.array(values) if hasattr(values, "__array__") else values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.empty(0)
    if numbers.dim() > 1 or not numbers.numel() or not bool(torch.isfinite(numbers).all()):
        raise UserError(
            f"{what}={values} does not fit; expected one finite number per channel, such as (0.49, 0.48, 0.45)."
        )
    if what.endswith("std") and bool((numbers <= 0).any()):
        raise UserError(f"{what}={values} has entries that are not positive; expected positive numbers.")
    return tuple(numbers.tolist()) if numbers.dim() else float(numbers)


def normalised(x: Tensor, by: Mapping[str, Tensor]) -> Tensor:
    """``x`` [B, C, ...] less ``by["mean"]``, divided by ``by["std"]``, where there are such."""
    for numbers in by.values():
        if numbers.dim() == 1 and (x.dim() < 2 or x.shape[1] != len(numbers)):
            raise UserError(
                f"mean/std have {len(numbers)} channels; the inputs have shape {tuple(x.shape)} (batch, channels, ...)."
            )
    shape = (-1, *(1,) * (x.dim() - 2))
    if "mean" in by:
        x = x - by["mean"].view(shape)
    if "std" in by:
        x = x / by["std"].view(shape)
    return x
