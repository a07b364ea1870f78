"""Searches without gradients of threat models that have few points: a line, or a single draw."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import OneNumber


@dataclass(frozen=True)
class ScanState(State):
    """Interval in which mistakes begin, each [B].

    ``low`` and ``high``: sizes without and with a mistake, on the side of the first one (``high`` inf: none yet).
    ``ended``: the interval is as short as is wanted.
    """

    low: Tensor
    high: Tensor
    ended: Tensor


@dataclass(frozen=True)
class Scan(Optimizer[ScanState]):
    """Scan of threat models of one number (hue, contrast, ...): equally spaced sizes up to epsilon, from the smallest.

    Both signs of each size are evaluated. At the first mistake the interval before it is halved. On a line a scan is
    cheaper than gradient ascent (no backward pass) and never ends in a local optimum.

    Attributes:
        steps: number of points, two for each size: even.
        precision: relative precision of the size at which mistakes begin; certificates of such threat models have the
            same.
    """

    title = "scan of the one parameter"
    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    minimum_size: ClassVar[bool] = True
    fewest_steps: ClassVar[int] = 2

    steps: int = 80
    precision: float = 1e-3

    @property
    def evaluations(self) -> int:
        return self.steps + 1 + _HALVINGS

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, OneNumber):
            raise unsearchable(self, threat, "a threat model of one number (OneNumber: Hue, Contrast, ...)", "PGD")

    def init(self, problem: Problem, theta: Tensor) -> ScanState:
        none = torch.full_like(problem.epsilon, torch.inf)
        ended = torch.zeros_like(problem.epsilon, dtype=torch.bool)
        return ScanState(theta, counter(theta), torch.zeros_like(none), none, ended)

    def step(self, problem: Problem, state: ScanState, evaluation: Evaluation) -> ScanState:
        size, spacing = state.theta.abs().flatten(), problem.epsilon / (self.steps // 2)
        halving = state.high.isfinite()
        # The lower end moves twice: at the first mistake, to the size before it, then at each halving without one.
        low = torch.where(halving, size, (size - spacing).clamp_min(0))
        low = torch.where(halving == evaluation.fooled, state.low, low)
        high = torch.where(evaluation.fooled, size, state.high)
        gap = high - low
        ended = state.ended | (high.isfinite() & ((gap <= self.precision * high) | (gap < spacing / 2**_HALVINGS)))
        # The clean point comes first, then sizes in order, the positive sign of each before the negative one.
        next_size = spacing * (state.step // 2 + 1).to(spacing.dtype)
        scanned = torch.where(state.step % 2 == 0, next_size, -next_size)
        middle = (low + high) / 2 * state.theta.flatten().sign()
        value = torch.where(high.isfinite(), middle, scanned).view_as(state.theta)
        theta = problem.threat.project(problem.x, value, problem.epsilon)
        return ScanState(theta, state.step + 1, low, high, ended)

    def finished(self, state: ScanState) -> Tensor:
        return state.ended | (state.high.isinf() & (state.step > self.steps))


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
