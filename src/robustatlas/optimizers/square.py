"""Square attack (Andriushchenko et al. 2020): random search with square patches, for linf, l2 and l1; uses no gradient.

Windows and signs are drawn per sample (AutoAttack shares them within a batch), so that results do not depend on the
batch.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, cast

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.common.errors import UserError
from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import Linf, Lp, norm, project_l1_ball

_DIVISORS = ((10, 1), (50, 2), (200, 4), (500, 8), (1000, 16), (2000, 32), (4000, 64), (6000, 128), (8000, 256))
"""Divisors of the area of a square, each with the last step that takes it (the schedule of the paper)."""
_LAST_DIVISOR = 512
_TINY = 1e-12
_INSIDE = 1 - 1e-6
"""Share of epsilon to which l1 projections go, so that no rounding leads out of the ball."""


@dataclass(frozen=True)
class SquareState(State):
    """``best``: the accepted perturbation, shaped like x, with its ``best_objective`` [B]."""

    best: Tensor
    best_objective: Tensor


@dataclass(frozen=True)
class Square(Optimizer[SquareState]):
    """Random search by proposals that change one square (two in l2 and l1), accepted if they raise the objective.

    The paper raises the untargeted margin.

    Attributes:
        steps: number of proposals.
        share: area of the first squares, as a share of the image (p of the paper).
    """

    title = "Square"
    paper = "Andriushchenko et al. 2020"
    needs_gradient: ClassVar[bool] = False

    steps: int = 5000
    share: float = 0.8

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, Lp) or threat.p == 0:
            raise unsearchable(self, threat, "one of the balls Linf, L2 and L1", "PGD")

    def init(self, problem: Problem, theta: Tensor) -> SquareState:
        if theta.dim() != 4:
            raise UserError(f"The square attack needs images [N, C, H, W]; the inputs have shape {tuple(theta.shape)}.")
        start = self._stripes(problem) if isinstance(problem.threat, Linf) else self._tiles(problem)
        low = torch.full_like(problem.epsilon, -torch.inf)
        return SquareState(start, counter(theta), start, low)

    def step(self, problem: Problem, state: SquareState, evaluation: Evaluation) -> SquareState:
        better = evaluation.objective > state.best_objective
        best = select(better, state.theta, state.best)
        objective = torch.where(better, evaluation.objective, state.best_objective)
        noise = problem.noise.child(state.step + 1)
        propose = self._window_linf if isinstance(problem.threat, Linf) else self._window_norm
        return SquareState(propose(problem, best, state.step, noise), state.step + 1, best, objective)

    def _side(self, step: Tensor, height: int, width: int) -> Tensor:
        """Return the side [B] of the square of each ``step`` [B], not yet fitted to the image."""
        divisor = torch.full_like(step, _LAST_DIVISOR)
        for last_step, smaller in reversed(_DIVISORS):
            divisor = torch.where(step <= last_step, smaller, divisor)
        return (self.share / divisor.double() * height * width).sqrt().round().long()

    def _stripes(self, problem: Problem) -> Tensor:
        """Return the start in linf: vertical stripes of +epsilon and -epsilon."""
        _, channels, _, width = problem.x.shape
        sign = problem.noise.sign(channels, 1, width, dtype=problem.x.dtype)
        return self._projected(problem, per_sample(problem.epsilon, problem.x) * sign.expand_as(problem.x))

    def _window_linf(self, problem: Problem, best: Tensor, step: Tensor, noise: Noise) -> Tensor:
        """Return the proposal in linf: ``best`` with one sign of each channel in a square."""
        _, channels, height, width = best.shape
        side = self._side(step, height, width).clamp(1, min(height, width))
        window, _, _ = _random_window(noise.child(0), side, height, width)
        sign = noise.child(1).sign(channels, 1, 1, dtype=best.dtype)
        # Twice epsilon reaches the border from wherever best is; the projection cuts it off there.
        change = 2 * per_sample(problem.epsilon, best) * sign * window[:, None]
        return self._projected(problem, best + change)

    @staticmethod
    def _projected(problem: Problem, delta: Tensor) -> Tensor:
        projected: Tensor = problem.threat.project(problem.x, delta, problem.epsilon)
        return projected

    def _tiles(self, problem: Problem) -> Tensor:
        """Return the start in l2 and l1: up to 5 x 5 tiles of the pattern, with random signs."""
        x, noise = problem.x, problem.noise
        batch, channels, height, width = x.shape
        side = max(min(height, width) // 5, 1)
        pattern = cached_tensor(_pattern, side, self._power(problem), like=x)
        across, down = width // side, height // side
        across, down = min(across, 5), min(down, 5)
        sign = noise.child(0).sign(channels, down, across, dtype=x.dtype)
        tiles = torch.zeros_like(x)
        top, left = (height - down * side) // 2, (width - across * side) // 2
        block = torch.einsum("bcij,uv->bciujv", sign, pattern).reshape(batch, channels, down * side, across * side)
        tiles[:, :, top : top + down * side, left : left + across * side] = block
        return self._on_sphere(problem, tiles)

    def _power(self, problem: Problem) -> int:
        """Return the power by which a pattern falls off from its centre: faster in l1."""
        return 2 if cast(Lp, problem.threat).p == 2 else 4

    def _on_sphere(self, problem: Problem, delta: Tensor) -> Tensor:
        """Return ``delta`` scaled to size epsilon, then cut off at the box (l2) or projected (l1)."""
        p = cast(Lp, problem.threat).p
        scaled = delta / per_sample(norm(delta, p) + _TINY, delta) * per_sample(problem.epsilon, delta)
        if p == 2:
            return torch.minimum(torch.maximum(scaled, -problem.x), 1 - problem.x)
        return _project_l1(problem, scaled)

    def _window_norm(self, problem: Problem, best: Tensor, step: Tensor, noise: Noise) -> Tensor:
        """Return the proposal in l2 and l1: the mass of one window goes, with a new pattern, into another."""
        _, channels, height, width = best.shape
        p, power, smallest = cast(Lp, problem.threat).p, self._power(problem), min(height, width)
        side = self._side(step, height, width).clamp_min(3)
        side = (side + (side + 1) % 2).clamp_max(smallest)
        new, top, left = _random_window(noise.child(0), side, height, width)
        old, _, _ = _random_window(noise.child(2), side, height, width)
        union = torch.maximum(new, old)[:, None]
        sign = noise.child(3).sign(channels, 1, 1, dtype=best.dtype)
        pattern = cached_tensor(_patterns, smallest, power, like=best)[side]
        transposed = per_sample(noise.child(4).uniform() < 0.5, pattern)
        pattern = torch.where(transposed, pattern.transpose(1, 2), pattern)
        placed = _shifted(pattern, top, left, height, width)[:, None] * sign
        inside = best * new[:, None]
        inside = placed + inside / (_channel_norm(inside, p) + _TINY)
        inside = inside * new[:, None]
        # What both windows held, and what is left of epsilon, shared among the channels.
        mass = _channel_norm(best * union, p)
        if p == 2:
            spare = (problem.epsilon.square() - norm(best, 2).square()).clamp_min(0) / channels
            target = (per_sample(spare, mass) + mass.square()).sqrt()
        else:
            target = per_sample((problem.epsilon - norm(best, 1)).clamp_min(0), mass) / channels + mass
        inside = inside / (_channel_norm(inside, p) + _TINY) * target
        delta = best * (1 - union) + inside
        return self._on_sphere(problem, delta) if p == 2 else _project_l1(problem, delta)


def _project_l1(problem: Problem, delta: Tensor) -> Tensor:
    """Return the projection of ``delta`` on the l1 ball and the box."""
    cap = torch.where(delta > 0, 1 - problem.x, problem.x)
    return project_l1_ball(delta, problem.epsilon * _INSIDE, cap)


def _channel_norm(delta: Tensor, p: float) -> Tensor:
    """Return the norm of each channel, [B, C, 1, 1]."""
    size: Tensor = torch.linalg.vector_norm(delta, p, dim=(2, 3), keepdim=True)
    return size


def _random_window(noise: Noise, side: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a random window of ``side`` [B] as a mask [B, H, W], with its top [B] and left [B]."""
    top = noise.child(0).integers((height - side).clamp_min(1))
    left = noise.child(1).integers((width - side).clamp_min(1))
    rows = torch.arange(height, device=side.device)[None, :, None]
    columns = torch.arange(width, device=side.device)[None, None, :]
    inside_rows = (rows >= per_sample(top, rows)) & (rows < (top + side).view(-1, 1, 1))
    inside_columns = (columns >= left.view(-1, 1, 1)) & (columns < (left + side).view(-1, 1, 1))
    return (inside_rows & inside_columns).float(), top, left


def _shifted(pattern: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Return images [B, H, W] with ``pattern`` [B, K, K] placed with its corner at (top, left), and 0 elsewhere."""
    size = pattern.shape[1]
    rows = torch.arange(height, device=top.device)[None, :] - top[:, None]
    columns = torch.arange(width, device=left.device)[None, :] - left[:, None]
    within = ((rows >= 0) & (rows < size))[:, :, None] & ((columns >= 0) & (columns < size))[:, None, :]
    batch = torch.arange(len(top), device=top.device)[:, None, None]
    values = pattern[batch, rows.clamp(0, size - 1)[:, :, None], columns.clamp(0, size - 1)[:, None, :]]
    return values * within


@cache
def _pattern(side: int, power: int) -> Tensor:
    """Return two centred pyramids of nested rectangles, one above the other with opposite signs.

    ``[side, side]``, of unit l2 norm (eta of the paper).
    """
    upper, lower = _pyramid(side // 2, side, power), _pyramid(side - side // 2, side, power)
    pattern = torch.cat([upper, -lower]) if side > 1 else torch.ones(1, 1)
    return pattern / pattern.square().sum().sqrt()


def _pyramid(height: int, width: int, power: int) -> Tensor:
    """Return the sum of nested rectangles, the k-th of height 1 / (k + 1)^power, [height, width], of unit l2 norm."""
    layers = torch.zeros(height, width)
    top, bottom, left, right = (height - 1) // 2, (height - 1) // 2 + 1, (width - 1) // 2, (width - 1) // 2 + 1
    for k in range(max(height, width) // 2 + 1):
        layers[max(top - k, 0) : min(bottom + k, height), max(left - k, 0) : min(right + k, width)] += (
            1 / (k + 1) ** power
        )
    return layers / layers.square().sum().sqrt().clamp_min(_TINY)


def _patterns(largest: int, power: int) -> Tensor:
    """Return the patterns of each side up to ``largest``, each in a corner, [largest + 1, largest, largest]."""
    table = torch.zeros(largest + 1, largest, largest)
    for side in range(1, largest + 1):
        table[side, :side, :side] = _pattern(side, power)
    return table
