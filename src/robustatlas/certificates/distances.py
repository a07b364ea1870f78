"""How far points of [0, 1] are from planes, moving within the box: in closed form."""

from __future__ import annotations

import torch
from torch import Tensor


def distances(weight: Tensor, room: Tensor, margin: Tensor, p: float) -> Tensor:
    """How far it is to lower <weight, x> by ``margin``, where each number can fall by its ``room``.

    Args:
        weight: ``[R, D]``, >= 0.
        room: ``[R, D]``, >= 0.
        margin: ``[R]``; what is not positive is at distance 0.
        p: of the norm: inf, 2, 1, or 0, which counts the numbers that change.

    Returns:
        ``[R]``; inf where all the room is not enough.
    """
    gain = weight * room
    unreachable = gain.sum(1) < margin
    if p == 0:
        order = gain.sort(1, descending=True).values.cumsum(1)
        found = 1.0 + (order < margin[:, None]).sum(1)
    elif p == 1:
        found = _greedy(weight, room, margin)
    else:
        found = _levelled(weight, room, margin, p)
    found = torch.where(unreachable, torch.inf, found.to(weight.dtype))
    return torch.where(margin <= 0, 0.0, found)


def _greedy(weight: Tensor, room: Tensor, margin: Tensor) -> Tensor:
    """l1: the largest weights first, each to the end of its room."""
    steepest, order = weight.sort(1, descending=True)
    rooms = room.gather(1, order)
    before = (steepest * rooms).cumsum(1) - steepest * rooms
    left = (margin[:, None] - before).clamp_min(0)
    return torch.minimum(rooms, left / steepest.clamp_min(1e-300)).sum(1)


def _levelled(weight: Tensor, room: Tensor, margin: Tensor, p: float) -> Tensor:
    """linf and l2: every number falls by min(room, level) or min(room, level * weight); the level by break points."""
    pull = torch.ones_like(weight) if p == torch.inf else weight
    breaks = torch.where(weight > 0, room / pull.clamp_min(1e-300), torch.inf)
    order = breaks.argsort(1)
    w, v, r = (each.gather(1, order) for each in (weight, pull, room))
    full = (w * r).cumsum(1) - w * r
    slope = (w * v).flip(1).cumsum(1).flip(1)
    reach = torch.where(slope > 0, (margin[:, None] - full) / slope.clamp_min(1e-300), -torch.inf)
    at = reach.amax(1, keepdim=True).clamp_min(0)  # what is reached is concave in the level: the least of these lines
    move = torch.minimum(pull * at, room)
    if p == torch.inf:
        return at[:, 0]
    length: Tensor = torch.linalg.vector_norm(move, dim=1)
    return length
