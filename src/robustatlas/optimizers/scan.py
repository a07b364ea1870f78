"""Exhaustive looks without gradients: along a one-number threat model, or at a single point."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import OneNumber


@dataclass(frozen=True)
class ScanState(State):
    """``low``, ``high`` [B]: on the side of the first mistake, sizes without and with one (inf: none yet); ``ended``
    [B]: both are as near to each other as is wanted."""

    low: Tensor
    high: Tensor
    ended: Tensor


@dataclass(frozen=True)
class Scan(Optimizer[ScanState]):
    """Both signs of ``steps`` / 2 equally spaced sizes up to epsilon, from the smallest, for a theta of one number
    (hue, contrast, ...); then halves the interval before the first mistake.

    On a line a scan is both cheaper than gradient ascent (no backward pass) and never caught in a local optimum.

    Attributes:
        steps: sizes of both signs, even.
        precision: relative, of the size at which the first mistake begins; that of certificates of such threat models.
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
        here, spacing = state.theta.abs().flatten(), problem.epsilon / (self.steps // 2)
        halving = state.high.isfinite()
        low = torch.where(halving, here, (here - spacing).clamp_min(0))
        low = torch.where(halving == evaluation.fooled, state.low, low)
        high = torch.where(evaluation.fooled, here, state.high)
        gap = high - low
        ended = state.ended | (high.isfinite() & ((gap <= self.precision * high) | (gap < spacing / 2**_HALVINGS)))
        ahead = spacing * (state.step // 2 + 1).to(spacing.dtype)
        onwards = torch.where(state.step % 2 == 0, ahead, -ahead)
        middle = (low + high) / 2 * state.theta.flatten().sign()
        value = torch.where(high.isfinite(), middle, onwards).view_as(state.theta)
        theta = problem.threat.project(problem.x, value, problem.epsilon)
        return ScanState(theta, state.step + 1, low, high, ended)

    def finished(self, state: ScanState) -> Tensor:
        return state.ended | (state.high.isinf() & (state.step > self.steps))


_HALVINGS = 12
"""At most, of the interval between two sizes."""


@dataclass(frozen=True)
class Once(Optimizer[State]):
    """The start alone: for threat models that leave nothing to optimise, such as common corruptions."""

    title = "one draw"
    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    fewest_steps: ClassVar[int] = 0

    steps: int = 0

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        return State(state.theta, state.step + 1)
