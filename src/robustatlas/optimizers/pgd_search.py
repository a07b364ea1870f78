"""Projected gradient ascent that looks for the smallest epsilon at which it succeeds, as foolbox 2 runs it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, select
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter


@dataclass(frozen=True)
class PGDSearchState(State):
    """``epsilon`` of this run, between those that failed and succeeded; ``move`` in it, and ``runs`` before it."""

    epsilon: Tensor
    low: Tensor
    high: Tensor
    move: Tensor
    runs: Tensor


@dataclass(frozen=True)
class PGDSearch(Optimizer[PGDSearchState]):
    """Runs of PGD from the clean point at an epsilon of their own: ``growth`` times larger until one succeeds, at most
    ``rounds`` times, then ``rounds`` times halfway between the largest that failed and the smallest that succeeded.

    A run takes ``inner_steps`` steps of ``rate`` x epsilon and ends at its first example. The settings are those of
    foolbox 2.4's ProjectedGradientDescentAttack, which Risse et al. 2021 take for curves in linf.
    """

    title = "PGD with a search for epsilon"
    paper = "Madry et al. 2018"
    minimum_size: ClassVar[bool] = True
    counted_by: ClassVar[str] = "inner_steps"

    inner_steps: int = 40
    rounds: int = 20
    rate: float = 1 / 30
    first: float = 0.3
    growth: float = 1.5

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Evaluations in all runs, at most."""
        return 2 * self.rounds * (self.inner_steps + 1)

    def init(self, problem: Problem, theta: Tree) -> PGDSearchState:
        nothing = torch.zeros_like(problem.epsilon)
        return PGDSearchState(
            theta=problem.threat.neutral(problem.x),
            step=counter(nothing),
            epsilon=torch.full_like(nothing, self.first),
            low=nothing,
            high=torch.full_like(nothing, torch.inf),
            move=counter(nothing),
            runs=counter(nothing),
        )

    def step(self, problem: Problem, state: PGDSearchState, evaluation: Evaluation) -> PGDSearchState:
        threat, x = problem.threat, problem.x
        ahead = threat.move(x, state.theta, threat.steepest(x, evaluation.gradient), self.rate * state.epsilon)
        ahead = threat.project(x, ahead, state.epsilon)
        won = evaluation.fooled & (state.move > 0)
        over = won | (state.move >= self.inner_steps)
        high = torch.where(won, state.epsilon, state.high)
        low = torch.where(over & ~won & high.isfinite(), state.epsilon, state.low)
        following = torch.where(high.isfinite(), (low + high) / 2, self.growth * state.epsilon)
        began = over & state.high.isinf() & high.isfinite()  # bisection begins, with runs of its own
        runs = torch.where(began, self.rounds, torch.where(over, state.runs + 1, state.runs))
        return PGDSearchState(
            theta=select(over, threat.neutral(x), ahead),
            step=state.step + 1,
            epsilon=torch.where(over, following, state.epsilon),
            low=low,
            high=high,
            move=torch.where(over, 0, state.move + 1),
            runs=runs,
        )

    def finished(self, state: PGDSearchState) -> Tensor:
        """All runs of the bisection are done, or none that grew succeeded."""
        never = state.high.isinf() & (state.runs >= self.rounds)
        return never | (state.runs >= 2 * self.rounds)
