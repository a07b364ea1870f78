"""Projected gradient ascent that looks for the smallest epsilon at which it succeeds, as foolbox 2 runs it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, select
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter


@dataclass(frozen=True)
class PGDSearchState(State):
    """Progress of the search for epsilon, each [B].

    ``epsilon``: of this run. ``low``: the largest that failed since one succeeded. ``high``: the smallest that
    succeeded (inf: none). ``move``: moves in this run. ``runs``: runs before it, from ``rounds`` on in the bisection.
    """

    epsilon: Tensor
    low: Tensor
    high: Tensor
    move: Tensor
    runs: Tensor


@dataclass(frozen=True)
class PGDSearch(Optimizer[PGDSearchState]):
    """Runs of PGD from the clean point, each at an epsilon of its own, that look for the smallest one.

    Epsilon grows until a run succeeds. Then it is halfway between the largest that failed and the smallest that
    succeeded. The settings are those of foolbox 2.4's ProjectedGradientDescentAttack, which Risse et al. 2021 take for
    curves in linf.

    Attributes:
        inner_steps: steps of a run, which ends at its first example.
        rounds: largest number of runs that grow, and number of runs of the bisection.
        rate: length of a step as a share of epsilon.
        first: epsilon of the first run.
        growth: factor from run to run until one succeeds.
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
        """Largest number of evaluations in all runs."""
        return 2 * self.rounds * (self.inner_steps + 1)

    def init(self, problem: Problem, theta: Tree) -> PGDSearchState:
        zeros = torch.zeros_like(problem.epsilon)
        return PGDSearchState(
            theta=problem.threat.neutral(problem.x),
            step=counter(zeros),
            epsilon=torch.full_like(zeros, self.first),
            low=zeros,
            high=torch.full_like(zeros, torch.inf),
            move=counter(zeros),
            runs=counter(zeros),
        )

    def step(self, problem: Problem, state: PGDSearchState, evaluation: Evaluation) -> PGDSearchState:
        threat, x = problem.threat, problem.x
        ahead = threat.move(x, state.theta, threat.steepest(x, evaluation.gradient), self.rate * state.epsilon)
        ahead = threat.project(x, ahead, state.epsilon)
        succeeded = evaluation.fooled & (state.move > 0)  # the clean point itself is no success
        over = succeeded | (state.move >= self.inner_steps)
        high = torch.where(succeeded, state.epsilon, state.high)
        # As in foolbox, runs that failed before the first success are forgotten: the bisection begins between 0 and it.
        low = torch.where(over & ~succeeded & high.isfinite(), state.epsilon, state.low)
        next_epsilon = torch.where(high.isfinite(), (low + high) / 2, self.growth * state.epsilon)
        bisection_begins = over & state.high.isinf() & high.isfinite()
        runs = torch.where(bisection_begins, self.rounds, torch.where(over, state.runs + 1, state.runs))
        return PGDSearchState(
            theta=select(over, threat.neutral(x), ahead),
            step=state.step + 1,
            epsilon=torch.where(over, next_epsilon, state.epsilon),
            low=low,
            high=high,
            move=torch.where(over, 0, state.move + 1),
            runs=runs,
        )

    def finished(self, state: PGDSearchState) -> Tensor:
        """Return the samples [B] whose bisection is at its end, or of which no run that grew succeeded."""
        none_succeeded = state.high.isinf() & (state.runs >= self.rounds)
        return none_succeeded | (state.runs >= 2 * self.rounds)
