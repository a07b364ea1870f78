"""Carlini and Wagner's l2 attack (2017): gradient descent on size plus weighted margin, with bisection on the
weight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, per_sample, select
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel

_BETA_1, _BETA_2, _ADAM_EPSILON = 0.9, 0.999, 1e-8
"""Constants of Adam as its paper names them (Kingma and Ba 2015)."""
_INSIDE = 1 - 1e-6
"""Factor that keeps pixels of 0 and 1 inside of the range of tanh, where its inverse is finite."""


@dataclass(frozen=True)
class Weighing(Bundle):
    """Binary search of the ``weight`` [B] of the margin (c of the papers), as Carlini-Wagner and EAD do it.

    From round to round it is ten times larger while nothing is found, then halfway between ``low`` [B], the largest
    weight that failed, and ``high`` [B], the smallest that succeeded (inf: none). ``found`` [B] bool: an example in
    this round.
    """

    weight: Tensor
    low: Tensor
    high: Tensor
    found: Tensor

    @classmethod
    def beginning(cls, weight: float, like: Tensor) -> Weighing:
        """Return the search before the first round, which takes ``weight``; ``like`` [B]: has its shape and dtype."""
        zeros = torch.zeros_like(like)
        return cls(torch.full_like(like, weight), zeros, torch.full_like(like, torch.inf), zeros.bool())

    def next_weighing(self, fooled: Tensor, over: Tensor) -> Weighing:
        """Return the search after a step.

        Args:
            fooled: bool [B], the point was misclassified.
            over: bool [B], the round ends with this step.
        """
        found = self.found | fooled
        high = torch.where(found, torch.minimum(self.high, self.weight), self.high)
        low = torch.where(found, self.low, torch.maximum(self.low, self.weight))
        weight = torch.where(high.isfinite(), (low + high) / 2, self.weight * 10)
        following: Weighing = select(over, Weighing(weight, low, high, found & ~over), replace(self, found=found))
        return following


@dataclass(frozen=True)
class CarliniWagnerState(State):
    """Progress within a round of the search for the weight.

    ``w``: the variable, shaped like x, with x + theta = (tanh(w) + 1) / 2. ``first`` and ``second``: running means of
    its gradient and of the square. ``move`` [B]: moves in this round. ``weighing``: weight of the margin.
    """

    w: Tensor
    first: Tensor
    second: Tensor
    move: Tensor
    weighing: Weighing


@dataclass(frozen=True)
class CarliniWagner(BoundaryOptimizer[CarliniWagnerState]):
    """Minimise ||theta||_2^2 + weight * max(confidence - objective, 0) over w, by Adam.

    The objective is the margin of the wrong class: positive for an example.

    Attributes:
        inner_steps: steps of a round.
        rounds: weights that are tried.
        rate: learning rate of Adam.
        weight: weight of the margin in the first round.
        confidence: margin that an example must have (kappa of the paper).
    """

    title = "Carlini-Wagner"
    paper = "Carlini and Wagner 2017"
    counted_by: ClassVar[str] = "inner_steps"

    inner_steps: int = 100
    rounds: int = 5
    rate: float = 0.01
    weight: float = 1e-2
    confidence: float = 0.0

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Moves in all rounds."""
        return self.inner_steps * self.rounds

    def check(self, threat: ThreatModel) -> None:
        if not threat.additive:
            raise unsearchable(self, threat, "a threat model of changes of the image itself (such as L2)", "FMN")

    def init(self, problem: Problem, theta: Tensor) -> CarliniWagnerState:
        zero = torch.zeros_like(theta)
        return CarliniWagnerState(
            theta=theta,
            step=counter(theta),
            w=self._variable(problem.x + theta),
            first=zero,
            second=zero,
            move=counter(theta),
            weighing=Weighing.beginning(self.weight, problem.epsilon),
        )

    @staticmethod
    def _variable(x: Tensor) -> Tensor:
        """Return the w of images ``x``."""
        return torch.atanh((2 * x - 1) * _INSIDE)

    def step(self, problem: Problem, state: CarliniWagnerState, evaluation: Evaluation) -> CarliniWagnerState:
        x = problem.x
        active = (evaluation.objective < self.confidence).to(x.dtype) * state.weighing.weight
        # The chain rule: theta changes by (1 - tanh(w)^2) / 2 for each unit of w.
        tanh = torch.tanh(state.w)
        gradient = (2 * state.theta - per_sample(active, x) * evaluation.gradient) * (1 - tanh.square()) / 2
        first = _BETA_1 * state.first + (1 - _BETA_1) * gradient
        second = _BETA_2 * state.second + (1 - _BETA_2) * gradient.square()
        t = (state.move + 1).to(x.dtype)
        scale = per_sample(self.rate * (1 - _BETA_2**t).sqrt() / (1 - _BETA_1**t), x)
        w = state.w - scale * first / (second.sqrt() + _ADAM_EPSILON)

        # A round begins at the image again, with a fresh Adam.
        over = state.move + 1 >= self.inner_steps
        w = select(over, self._variable(x), w)
        return CarliniWagnerState(
            theta=(torch.tanh(w) + 1) / 2 - x,
            step=state.step + 1,
            w=w,
            first=select(over, torch.zeros_like(first), first),
            second=select(over, torch.zeros_like(second), second),
            move=torch.where(over, 0, state.move + 1),
            weighing=state.weighing.next_weighing(evaluation.fooled, over),
        )
