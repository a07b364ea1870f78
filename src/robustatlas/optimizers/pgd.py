"""Projected gradient ascent, with the schedules that published attacks use."""

from dataclasses import dataclass
from typing import Literal

import torch

from robustatlas.common.bundle import Tree, map_tensors, norm
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, annealed, counter


@dataclass(frozen=True)
class PGDState(State):
    """``previous``: the point before ``theta``, built like it."""

    previous: Tree


@dataclass(frozen=True)
class PGD(Optimizer[PGDState]):
    """PGD of Madry et al. 2018 over any threat model: a step of steepest ascent, then projection.

    Attributes:
        steps: number of steps of a run.
        rate: length of a step as a share of epsilon. It follows the source of each attack, such as 1 / sqrt(steps)
            (UAR) or 2 / (steps - 2) (MultiRobustBench).
        schedule: ``"cosine"`` lets the length fall to zero over the steps.
        momentum: share of the last move that a step adds (heavy ball; MI-FGSM adds up gradients instead).
        length: fixed length of a step, whatever epsilon (UAR's calibration of fog, snow and gabor).
        scaled: for threat models whose sizes are not lengths of theta (perceptual). Epsilon is converted by the ratio
            of theta's length to its size, so that on the border of the set a step is ``rate`` x the length of theta.
    """

    title = "PGD"
    paper = "Madry et al. 2018"

    steps: int = 20
    rate: float = 0.25
    schedule: Literal["constant", "cosine"] = "constant"
    momentum: float = 0.0
    length: float | None = None
    scaled: bool = False

    @property
    def needs_size(self) -> bool:  # type: ignore[override]
        return self.scaled

    def init(self, problem: Problem, theta: Tree) -> PGDState:
        return PGDState(theta, counter(problem.epsilon), theta)

    def step(self, problem: Problem, state: PGDState, evaluation: Evaluation) -> PGDState:
        threat, x = problem.threat, problem.x
        length = self.rate * problem.epsilon if self.length is None else torch.full_like(problem.epsilon, self.length)
        if self.scaled:
            size = evaluation.size
            length = torch.where(size > 0, length * norm(state.theta) / size, length)
        if self.schedule == "cosine":
            length = length * annealed(state.step, self.steps, length)
        theta = threat.move(x, state.theta, threat.steepest(x, evaluation.gradient), length)
        if self.momentum:
            theta = map_tensors(
                lambda ahead, here, before: ahead + self.momentum * (here - before), theta, state.theta, state.previous
            )
        return PGDState(threat.project(x, theta, problem.epsilon), state.step + 1, state.theta)
