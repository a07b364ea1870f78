"""Searches without gradients of threat models that have few points: a line, or a single draw."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import constant_tensor
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.optimizers.sweeping import SweepingOptimizer, count_within, is_clear
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import OneNumber


@dataclass(frozen=True)
class ScanState(State):
    """Interval in which mistakes begin, each [B].

    ``low`` and ``high``: sizes without and with a mistake, on the side of the first one (``high`` inf: none yet).
    ``gap``: length of the interval at the first mistake. ``ended``: the interval is as short as is wanted. ``points``
    int64: number of points within epsilon.
    """

    low: Tensor
    high: Tensor
    gap: Tensor
    ended: Tensor
    points: Tensor


@dataclass(frozen=True)
class Scan(SweepingOptimizer[ScanState]):
    """Scan of threat models of one number (hue, contrast, ...): sizes up to epsilon, from the smallest.

    Both signs of each size are evaluated. At the first clear mistake the interval before it is halved. On a line a scan
    is cheaper than gradient ascent (no backward pass) and never ends in a local optimum.

    Attributes:
        spacing, strengths: see :class:`~robustatlas.optimizers.sweeping.SweepingOptimizer`.
        precision: relative precision of the size at which mistakes begin; certificates of such threat models have the
            same.
    """

    title = "scan of the one parameter"

    precision: float = 1e-3

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Number of points, two for each size."""
        return 2 * len(self.sizes)

    @property
    def evaluations(self) -> int:
        return self.steps + 1 + _HALVINGS

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, OneNumber):
            raise unsearchable(self, threat, "a threat model of one number (OneNumber: Hue, Contrast, ...)", "PGD")

    def init(self, problem: Problem, theta: Tensor) -> ScanState:
        none = torch.full_like(problem.epsilon, torch.inf)
        ended = torch.zeros_like(problem.epsilon, dtype=torch.bool)
        points = 2 * count_within(self._sizes_from_clean(problem.epsilon)[1:], problem.epsilon)
        return ScanState(theta, counter(theta), torch.zeros_like(none), none, none, ended, points)

    def _sizes_from_clean(self, like: Tensor) -> Tensor:
        """Return 0 and the sizes, increasing."""
        return constant_tensor((0.0, *self.sizes), like)

    def step(self, problem: Problem, state: ScanState, evaluation: Evaluation) -> ScanState:
        size, halving = state.theta.abs().flatten(), state.high.isfinite()
        mistake = torch.where(halving, evaluation.fooled, is_clear(evaluation, problem))
        # The clean point comes first, then sizes in order, the positive sign of each before the negative one.
        sizes = self._sizes_from_clean(problem.epsilon)
        size_before = sizes[((state.step - 1).clamp_min(0) // 2).clamp_max(len(sizes) - 1)]
        next_size = sizes[(state.step // 2 + 1).clamp_max(len(sizes) - 1)]
        # The lower end moves twice: at the first mistake, to the size before it, then at each halving without one.
        low = torch.where(halving, size, torch.minimum(size_before, size))
        low = torch.where(halving == mistake, state.low, low)
        high = torch.where(mistake, size, state.high)
        gap = torch.where(halving, state.gap, high - low)
        is_short = (high - low <= self.precision * high) | (high - low < gap / 2**_HALVINGS)
        ended = state.ended | (high.isfinite() & is_short)
        scanned = torch.where(state.step % 2 == 0, next_size, -next_size)
        middle = (low + high) / 2 * state.theta.flatten().sign()
        value = torch.where(high.isfinite(), middle, scanned).view_as(state.theta)
        theta = problem.threat.project(problem.x, value, problem.epsilon)
        return ScanState(theta, state.step + 1, low, high, gap, ended, state.points)

    def finished(self, state: ScanState) -> Tensor:
        return state.ended | (state.high.isinf() & (state.step > state.points))


_HALVINGS = 12
"""Largest number of halvings of the interval between two sizes."""


@dataclass(frozen=True)
class Once(Optimizer[State]):
    """Evaluation of the starting point alone, for threat models that leave nothing to optimise (corruptions)."""

    title = "one draw"
    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    fewest_steps: ClassVar[int] = 0

    steps: int = 0

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        return State(state.theta, state.step + 1)
