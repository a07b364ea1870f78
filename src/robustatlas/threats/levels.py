"""Inputs that an 8-bit file can hold: every number a whole level of 255."""

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree
from robustatlas.common.errors import UserError
from robustatlas.threats.base import ThreatModel

LEVELS = 255
_ROUNDING = 1e-3
"""Of a level, by which float32 misses a whole one."""


def shown(threat: ThreatModel, x: Tensor, theta: Tree, eight_bit: bool = False) -> Tensor:
    """The perturbed input ``[B, ...]``; with ``eight_bit`` as a file of 8 bits a number holds it, bit for bit.

    Where theta is the change of the input itself, numbers are rounded towards ``x``, so that the change grows in no
    norm; elsewhere to the nearest level. The slope is that of the input before rounding.
    """
    changed = threat.apply(x, theta)
    if not eight_bit:
        return changed
    level = changed.detach() * LEVELS
    if threat.additive:
        whole = torch.where(changed.detach() >= x, (level + _ROUNDING).floor(), (level - _ROUNDING).ceil())
    else:
        whole = level.round()
    return whole / LEVELS + (changed - changed.detach())


def as_file(x: Tensor) -> Tensor:
    """What a file of 8 bits a number holds of inputs in [0, 1]: the nearest levels."""
    return (x * LEVELS).round() / LEVELS


def check_levels(x: Tensor) -> None:
    """Raise :class:`UserError` where inputs ``x`` [B, ...] are none that an 8-bit file holds."""
    away = (x * LEVELS - (x * LEVELS).round()).abs()
    if bool((away > _ROUNDING).any()):
        worst = float(x.flatten()[away.argmax()])
        raise UserError(
            f"Pixels of 8 bits are asked for, and the images have others: {worst:.6g} is {worst * LEVELS:.4g} of 255. "
            "Give images as they are in their files (unresized, and not normalised), or leave pixels='8bit' out."
        )
