"""Exhaustive looks without gradients: along a one-number threat model, or at a single point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.bundle import Tree
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import OneNumber


@dataclass(frozen=True)
class ScanState(State):
    """``found`` [B]: fooled already, at a size that no later point undercuts."""

    found: Tensor


@dataclass(frozen=True)
class Scan(Optimizer[ScanState]):
    """Both signs of ``steps`` / 2 equally spaced sizes up to epsilon, from the smallest, for a theta of one number
    (hue, contrast, ...).

    On a line a scan is both cheaper than gradient ascent (no backward pass) and never caught in a local optimum.
    """

    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    minimum_size: ClassVar[bool] = True
    fewest_steps: ClassVar[int] = 2

    steps: int = 80

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, OneNumber):
            raise unsearchable(self, threat, "a set of one number per sample (OneNumber: Hue, Contrast, ...)", "PGD")

    def init(self, problem: Problem, theta: Tensor) -> ScanState:
        return ScanState(theta, counter(theta), torch.zeros_like(problem.epsilon, dtype=torch.bool))

    def step(self, problem: Problem, state: ScanState, evaluation: Evaluation) -> ScanState:
        size = problem.epsilon * (state.step // 2 + 1).to(problem.epsilon.dtype) / (self.steps // 2)
        value = torch.where(state.step % 2 == 0, size, -size).view_as(state.theta)
        theta = problem.threat.project(problem.x, value, problem.epsilon)
        return ScanState(theta, state.step + 1, state.found | evaluation.fooled)

    def finished(self, state: ScanState) -> Tensor:
        return state.found | (state.step > self.steps)


@dataclass(frozen=True)
class Once(Optimizer[State]):
    """The start alone: for threat models that leave nothing to optimise, such as common corruptions."""

    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    fewest_steps: ClassVar[int] = 0

    steps: int = 0

    def init(self, problem: Problem, theta: Tree) -> State:
        return State(theta, counter(problem.epsilon))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        return State(state.theta, state.step + 1)
