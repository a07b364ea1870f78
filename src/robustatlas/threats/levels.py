"""Inputs that an 8-bit file can contain: every number is an integer level of 255."""

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree
from robustatlas.common.errors import UserError
from robustatlas.threats.base import ThreatModel

LEVELS = 255
_LEVEL_TOLERANCE = 1e-3
"""Rounding error of float32 in units of a level."""


def apply_threat(threat: ThreatModel, x: Tensor, theta: Tree, eight_bit: bool = False) -> Tensor:
    """Return the perturbed input ``[B, ...]``; with ``eight_bit``, exactly as an 8-bit file would contain it.

    If theta is the change of the input, numbers are rounded towards ``x``, so that no norm of the change grows;
    otherwise to the nearest level. The gradient is that of the input before rounding.
    """
    changed = threat.apply(x, theta)
    if not eight_bit:
        return changed
    level = changed.detach() * LEVELS
    if threat.additive:
        rounded = torch.where(
            changed.detach() >= x, (level + _LEVEL_TOLERANCE).floor(), (level - _LEVEL_TOLERANCE).ceil()
        )
    else:
        rounded = level.round()
    return rounded / LEVELS + (changed - changed.detach())


def round_to_levels(x: Tensor) -> Tensor:
    """Round inputs in [0, 1] to the nearest levels, as an 8-bit file contains them."""
    return (x * LEVELS).round() / LEVELS


def check_levels(x: Tensor) -> None:
    """Raise :class:`UserError` unless an 8-bit file can contain the inputs ``x`` [B, ...]."""
    error = (x * LEVELS - (x * LEVELS).round()).abs()
    if bool((error > _LEVEL_TOLERANCE).any()):
        worst = float(x.flatten()[error.argmax()])
        raise UserError(
            f"Pixels of 8 bits are asked for, and the images have others: {worst:.6g} is {worst * LEVELS:.4g} of 255. "
            "Give images as they are in their files (unresized, and not normalised), or leave pixels='8bit' out."
        )
