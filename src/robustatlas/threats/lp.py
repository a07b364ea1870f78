"""Perturbations bounded in an lp norm: theta is the perturbation delta, and x + delta stays in [0, 1].

Optimizers with more structure find here ``hyperplane``, FAB's projection on a linearised decision boundary inside the
box, and for l1 also ``linear_oracle`` for Frank-Wolfe.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from robustatlas.common.bundle import dot, max_abs, per_sample
from robustatlas.common.host import is_sync_free
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel

_TINY = 1e-12
_NEWTON_STEPS = 12
"""Steps after which the roots of :func:`_find_root` no longer change in float32."""
_ROUNDING_UNITS = 8
"""Remainders of an l1 projection below this many units of rounding are 0."""


class _ClampedSum(torch.autograd.Function):
    """x + theta clamped to [0, 1], with the gradient of the unclamped sum.

    Otherwise a coordinate that rounding moves beyond the border would have no gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, theta: Tensor) -> Tensor:
        return (x + theta).clamp_(0, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, gradient


def norm(delta: Tensor, p: float) -> Tensor:
    """Return ``[B]``: the lp norm of each sample's ``delta`` [B, ...]; p in {0, 1, 2, inf}."""
    if p == torch.inf:
        return max_abs(delta)
    size: Tensor = torch.linalg.vector_norm(delta.flatten(1), p, dim=1)
    return size


def full_ball_size(p: float, numbers: int) -> float:
    """Return the size of a ball that contains [0, 1]^n around each of its points; p in {0, 1, 2, inf}."""
    return 1.0 if p == torch.inf else float(numbers) ** (1 / p) if p else float(numbers)


def clip_to_box(x: Tensor, delta: Tensor) -> Tensor:
    """Return ``delta`` clipped so that x + delta is in [0, 1]."""
    return delta.clamp(-x, 1 - x)


def project_l1_ball(values: Tensor, radius: Tensor, cap: Tensor | None = None) -> Tensor:
    """Project ``values`` exactly on {||v||_1 <= radius, |v_i| <= cap_i} (Croce and Hein 2021, proposition 2.1).

    Each |v_i| is reduced by a common shrinkage, but to at most cap_i and to no less than 0.

    Args:
        values: [B, ...].
        radius: [B].
        cap: like ``values`` and >= 0; None: no caps.

    Returns:
        the projection, like ``values``.
    """
    size = values.abs().flatten(1)
    capped = size if cap is None else torch.minimum(size, cap.flatten(1))
    total = capped.sum(1)
    # Newton's method on the CPU would avoid the sorting, but evaluations with ResNet-32 on CIFAR-10 were only 1.9 %
    # faster with it for l1, 0.1 % for jpeg-l1 and 0 % for snow.
    shrinkage = _newton_step(size, capped, radius, _shrinkage_by_sorting(size, capped, total, radius))
    left = size - shrinkage[:, None]
    rounding = _ROUNDING_UNITS * torch.finfo(size.dtype).eps * size
    shrunk = torch.minimum(capped, left) * (left - rounding).clamp_min(0).sign()  # rounding residues become 0
    projected = torch.where((total > radius)[:, None], shrunk, capped)
    return values.sign() * projected.view_as(values)


def _newton_step(size: Tensor, capped: Tensor, radius: Tensor, shrinkage: Tensor) -> Tensor:
    """Correct a shrinkage [B] by one step of Newton's method.

    The step is exact between two neighbouring break points: it removes rounding, and gives the shrinkage its gradient.
    """
    left = size - shrinkage[:, None]
    moved = ((left > 0) & (left < capped)).sum(1).clamp_min(1)
    return shrinkage + (torch.minimum(capped, left.clamp_min(0)).sum(1) - radius) / moved


@torch.no_grad()
def _shrinkage_by_sorting(size: Tensor, capped: Tensor, total: Tensor, radius: Tensor) -> Tensor:
    """Find the common shrinkage [B] among the sorted break points of a piecewise linear function.

    The sum of what remains of ``size`` [B, D], at most ``capped``, falls from ``total`` [B] to ``radius`` [B].
    """
    breaks, order = torch.cat([size - capped, size], 1).sort(1)
    active = torch.where(order < size.shape[1], 1.0, -1.0).to(size.dtype).cumsum(1)
    drops = torch.cat([torch.zeros_like(radius)[:, None], active[:, :-1] * breaks.diff(dim=1)], 1)
    sums = total[:, None] - drops.cumsum(1)
    k = (sums > radius[:, None]).sum(1, keepdim=True).clamp(1, breaks.shape[1] - 1) - 1
    slope = active.gather(1, k).clamp_min(1)
    shrinkage = breaks.gather(1, k) + (sums.gather(1, k) - radius[:, None]) / slope
    # Long running sums round by 1e-4 of the radius in float32.
    return _newton_step(size, capped, radius, shrinkage.squeeze(1))


def _descending(values: Tensor) -> Tensor:
    """Return the positions [B, D] of the numbers of each row, the largest first and equal ones in their order."""
    return values.argsort(dim=1, descending=True, stable=True)


def _fill_in_order(order: Tensor, room: Tensor, budget: Tensor, weight: Tensor) -> Tensor:
    """Return the move that spends ``room`` in ``order`` until sum(weight * move) is ``budget`` [B].

    Coordinates move by all of their room, except the last one, which moves in part.
    """
    w, full = weight.gather(1, order), room.gather(1, order)
    gain = w * full
    left = (budget[:, None] - (gain.cumsum(1) - gain)).clamp_min(0)
    part = torch.where(w > 0, left / w.clamp_min(_TINY), torch.zeros_like(w))
    return torch.zeros_like(room).scatter(1, order, torch.minimum(full, part))


def _find_root(next_level: Callable[[Tensor], Tensor], level: Tensor) -> Tensor:
    """Return the root ``[B]`` of a concave, piecewise linear function by Newton's method from the left of it.

    From there the iterates increase to the root and never pass it.
    """
    for _ in range(_NEWTON_STEPS):
        reached = torch.maximum(level, next_level(level))  # only rounding could decrease it
        if is_sync_free(level.device) and torch.equal(reached, level):
            break
        level = reached
    return level


def _newton_update(level: Tensor, left: Tensor, slope: Tensor) -> Tensor:
    return level + torch.where(slope > 0, left / slope.clamp_min(1e-30), torch.zeros_like(left))


@dataclass(frozen=True)
class Lp(ThreatModel):
    """Ball of an lp norm, intersected with [0, 1].

    Attributes:
        starts: distribution of random starts: ``"surface"`` as in AutoAttack, ``"volume"`` uniform in the ball,
            ``"radial"`` (l2) uniform in direction and in radius, as in MultiRobustBench's training attack.
        p: 0, 1, 2 or inf.
    """

    additive: ClassVar[bool] = True
    in_pixels: ClassVar[bool] = True

    starts: Literal["surface", "volume", "radial"] = "surface"

    p: float = 0.0

    def max_size(self, x: Tensor) -> float:
        return full_ball_size(self.p, x[:1].numel())

    def neutral(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        inside: Tensor = _ClampedSum.apply(x, theta)  # type: ignore[no-untyped-call]  # torch declares no types here
        return inside

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return norm(theta, self.p)

    def hyperplane(self, x: Tensor, theta: Tensor, normal: Tensor, rise: Tensor) -> Tensor:
        """Return the smallest move d in this norm with <normal, d> = rise and x + theta + d in [0, 1].

        ``normal`` is like ``theta``, ``rise`` [B] has any sign. If no point of the box reaches the plane, d leads to
        the corner of the box nearest to it.
        """
        w = (normal * per_sample(torch.where(rise < 0, -1.0, 1.0).to(normal.dtype), normal)).flatten(1)
        at = (x + theta).flatten(1)
        room = torch.where(w < 0, at, torch.zeros_like(at))
        room = torch.where(w > 0, 1 - at, room).clamp_min_(0)
        del at  # frees a tensor as large as the batch of images before the search
        return self._shortest(w.abs(), room, rise.abs()).copysign(w).view_as(theta)

    @abstractmethod
    def _shortest(self, weight: Tensor, room: Tensor, rise: Tensor) -> Tensor:
        """Return the move [B, d], 0 <= move <= room, of smallest norm with sum(weight * move) = rise."""


@dataclass(frozen=True)
class Linf(Lp):
    """max_i |delta_i| <= epsilon."""

    p: float = torch.inf

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        t = noise.symmetric(*x.shape[1:], dtype=x.dtype)
        if self.starts == "surface":
            t = t / (per_sample(norm(t, torch.inf), t) + _TINY)
        return clip_to_box(x, t * per_sample(epsilon, t))

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        bound = per_sample(epsilon, theta)
        low, high = x.neg().clamp_min_(-bound), torch.rsub(x, 1).clamp_max_(bound)
        return theta.clamp(low, high)

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def _shortest(self, weight: Tensor, room: Tensor, rise: Tensor) -> Tensor:
        def next_level(level: Tensor) -> Tensor:
            reached = (weight * torch.minimum(room, level[:, None])).sum(1)
            slope = (weight * (room > level[:, None])).sum(1)
            return _newton_update(level, rise - reached, slope)

        level = _find_root(next_level, torch.zeros_like(rise))
        return torch.minimum(room, level[:, None])


@dataclass(frozen=True)
class L2(Lp):
    """||delta||_2 <= epsilon."""

    p: float = 2.0

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        t = noise.child(0).normal(*x.shape[1:], dtype=x.dtype)
        t = t / (per_sample(norm(t, 2), t) + _TINY)
        if self.starts != "surface":
            radius = noise.child(1).uniform(dtype=x.dtype)
            if self.starts == "volume":
                radius = radius ** (1 / t[0].numel())
            t = t * per_sample(radius, t)
        return clip_to_box(x, t * per_sample(epsilon, t))

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        factor = (epsilon / (norm(theta, 2) + _TINY)).clamp_max(1)
        return clip_to_box(x, theta * per_sample(factor, theta))

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        return gradient / (per_sample(norm(gradient, 2), gradient) + _TINY)

    def _shortest(self, weight: Tensor, room: Tensor, rise: Tensor) -> Tensor:
        def next_level(level: Tensor) -> Tensor:
            move = weight * level[:, None]
            reached = (weight * torch.minimum(move, room)).sum(1)
            slope = (weight.square() * (move < room)).sum(1)
            return _newton_update(level, rise - reached, slope)

        level = _find_root(next_level, torch.zeros_like(rise))
        return torch.minimum(weight * level[:, None], room)


@dataclass(frozen=True)
class L1(Lp):
    """sum_i |delta_i| <= epsilon.

    Steepest ascent moves the share ``sparsity`` of the coordinates, those with the largest gradients.
    """

    p: float = 1.0
    sparsity: float = 0.05

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        if self.starts == "surface":
            return self.project(x, noise.normal(*x.shape[1:], dtype=x.dtype), epsilon)
        t = noise.child(0).exponential(*x.shape[1:], dtype=x.dtype)
        rest = noise.child(1).exponential(dtype=x.dtype)
        t = t / per_sample(norm(t, 1) + rest, t) * noise.child(2).sign(*x.shape[1:], dtype=x.dtype)
        return clip_to_box(x, t * per_sample(epsilon, t))

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        return project_l1_ball(
            theta, epsilon, (theta.sign().clamp_min_(0) - x).abs_()
        )  # the cap is the room up or down

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        flat = gradient.flatten(1)
        kept = max(1, round(self.sparsity * flat.shape[1]))
        values, index = flat.abs().topk(kept, dim=1, sorted=False)
        share = torch.where(values > 0, 1.0 / kept, 0.0).to(flat.dtype)
        return (torch.zeros_like(flat).scatter(1, index, share) * flat.sign()).view_as(gradient)

    def linear_oracle(self, x: Tensor, theta: Tensor, gradient: Tensor, epsilon: Tensor) -> Tensor:
        """Return the point of the set that maximises <gradient, point>.

        Coordinates are moved to the border of the box, those with the largest gradients first.
        """
        g = gradient.flatten(1)
        room = torch.where(gradient > 0, 1 - x, x).flatten(1)
        order = _descending(g.abs())
        move = _fill_in_order(order, room, epsilon, torch.ones_like(room))
        return (g.sign() * move).view_as(theta)

    def smallest_beyond(self, x: Tensor, theta: Tensor, normal: Tensor, rise: Tensor, reach: Tensor) -> Tensor:
        """Return the change t of smallest norm with <normal, t - theta> >= rise and |t - theta| <= reach.

        ``normal`` is like ``theta``, ``rise`` [B] has any sign, ``reach`` [B] is not negative, and x + t is in [0, 1].
        If no such change exists, t is the one with the largest <normal, t>.
        """
        near = per_sample(reach, theta)
        low, high = torch.maximum(-x, theta - near), torch.minimum(1 - x, theta + near)
        least = torch.zeros_like(theta).clamp(low, high)
        most = torch.where(normal > 0, high, torch.where(normal < 0, low, least))
        wanted = rise + dot(normal, theta - least)
        move = self._shortest(normal.abs().flatten(1), (most - least).abs().flatten(1), wanted.clamp_min(0))
        return least + normal.sign() * move.view_as(theta)

    def _shortest(self, weight: Tensor, room: Tensor, rise: Tensor) -> Tensor:
        return _fill_in_order(_descending(weight), room, rise, weight)


@dataclass(frozen=True)
class L0(Lp):
    """At most epsilon changed coordinates; each channel of a pixel counts, as in FMN and sigma-zero."""

    in_pixels: ClassVar[bool] = False

    p: float = 0.0

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.project(x, clip_to_box(x, noise.symmetric(*x.shape[1:], dtype=x.dtype)), epsilon)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        theta = clip_to_box(x, theta)
        size = theta.abs().flatten(1)
        order = _descending(size)
        rank = torch.empty_like(order).scatter(1, order, torch.arange(size.shape[1], device=x.device).expand_as(order))
        kept = rank < epsilon.floor()[:, None]
        return torch.where(kept.view_as(theta), theta, torch.zeros_like(theta))

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        return gradient / (per_sample(norm(gradient, 1), gradient) + _TINY)

    def _shortest(self, weight: Tensor, room: Tensor, rise: Tensor) -> Tensor:
        return _fill_in_order(_descending(weight * room), room, rise, weight)
