"""HopSkipJump (Chen et al. 2020): from labels alone, along the boundary towards the input.

A sample first looks for any point that is misclassified. Then it repeats three things: it bisects the line to the input
until it stands at the boundary, estimates the boundary's direction from the labels of random points around, and jumps
along it, halving the jump until it lands among the misclassified. Every evaluation is one query of one sample, and each
sample goes through these phases at its own pace.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import flatten, per_sample, select
from robustatlas.common.noise import Noise
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L2, norm

_LOOKING, _BISECTING, _ESTIMATING, _JUMPING = range(4)
_TINY = 1e-12
_FIRST_RADIUS = 0.1
"""Radius of the points around the first point at the boundary, whose distance says nothing yet (the authors' code)."""


@dataclass(frozen=True)
class HopSkipJumpState(State):
    """Progress of each sample: ``phase`` [B], and ``round`` [B] of the three steps, from 0. Points are differences from
    the input, shaped like it.

    The line from the input to ``end``, which is misclassified, is known to be right up to the share ``low`` [B] of its
    length, and misclassified at ``high`` [B] (1: the end itself). ``base``: the point at the boundary.

    The estimate of the boundary's direction took ``asked`` [B] queries, and ``fooled`` [B] of them were misclassified.
    ``drawn``: the random direction of the next query; ``sum_all`` and ``sum_fooled``: sums of all directions and of
    the misclassified ones; ``direction``: the estimate. ``length`` [B]: of the next jump.
    """

    phase: Tensor
    round: Tensor
    asked: Tensor
    low: Tensor
    high: Tensor
    end: Tensor
    base: Tensor
    drawn: Tensor
    sum_all: Tensor
    sum_fooled: Tensor
    fooled: Tensor
    direction: Tensor
    length: Tensor


@dataclass(frozen=True)
class HopSkipJump(Optimizer[HopSkipJumpState]):
    """HopSkipJump in l2, which needs labels alone.

    Attributes:
        steps: queries per sample.
        first: queries of the first estimate of a direction; their number grows with the root of the round, as in the
            paper.
        most: queries of an estimate at most.
        halvings: number of times that a jump is halved before the sample stays where it was.
    """

    title = "HopSkipJump"
    paper = "Chen et al. 2020"
    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    minimum_size: ClassVar[bool] = True

    steps: int = 5000
    first: int = 100
    most: int = 10000
    halvings: int = 15

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, L2):
            raise unsearchable(self, threat, "the l2 ball", "Square")

    def init(self, problem: Problem, theta: Tensor) -> HopSkipJumpState:
        count, zeros = counter(theta), torch.zeros_like(problem.epsilon)
        blank = torch.zeros_like(theta)
        start = self._random_image(problem, count)
        return HopSkipJumpState(
            theta=start,
            step=count,
            phase=torch.full_like(count, _LOOKING),
            round=count,
            asked=count,
            low=zeros,
            high=torch.ones_like(zeros),
            end=start,
            base=blank,
            drawn=blank,
            sum_all=blank,
            sum_fooled=blank,
            fooled=zeros,
            direction=blank,
            length=zeros,
        )

    def step(self, problem: Problem, state: HopSkipJumpState, evaluation: Evaluation) -> HopSkipJumpState:
        # All phases are computed for all samples, and each sample takes what its own phase says.
        hit, noise = evaluation.fooled, problem.noise.child(state.step + 1)
        looking, bisecting = state.phase == _LOOKING, state.phase == _BISECTING
        estimating, jumping = state.phase == _ESTIMATING, state.phase == _JUMPING

        # The line from the input (share 0) to a misclassified end (share 1).
        middle = (state.low + state.high) / 2
        high = torch.where(bisecting & hit, middle, state.high)
        low = torch.where(bisecting & ~hit, middle, state.low)
        at_boundary = bisecting & (high - low <= _closeness(problem))
        base = select(at_boundary, per_sample(high, state.end) * state.end, state.base)

        # The direction in which labels change: its estimate is a sum over the random directions u of +u for those that
        # are misclassified and -u for the others.
        sum_all = state.sum_all + per_sample(estimating.to(state.low.dtype), state.drawn) * state.drawn
        sum_fooled = state.sum_fooled + per_sample((estimating & hit).to(state.low.dtype), state.drawn) * state.drawn
        asked, fooled = state.asked + estimating.long(), state.fooled + (estimating & hit).to(state.fooled.dtype)
        estimated = estimating & (asked >= self._queries(state.round))
        direction = select(estimated, _direction(sum_all, sum_fooled, fooled, asked), state.direction)
        jump = norm(base, 2) / (state.round + 1).to(base.dtype).sqrt()  # xi_t of the paper's algorithm 2
        length = torch.where(estimated, jump, torch.where(jumping & ~hit, state.length / 2, state.length))

        # A jump ends among the misclassified, or where it began.
        given_up = jumping & ~hit & (length * 2**self.halvings < jump)
        landed = looking & hit | jumping & hit | given_up
        end = select(landed, select(given_up, base, state.theta), state.end)
        low, high = torch.where(landed, 0.0, low), torch.where(landed, 1.0, high)
        asked, fooled = torch.where(at_boundary, 0, asked), torch.where(at_boundary, 0.0, fooled)
        sum_all = select(at_boundary, torch.zeros_like(base), sum_all)
        sum_fooled = select(at_boundary, torch.zeros_like(base), sum_fooled)
        rounds = state.round + (jumping & landed).long()

        phase = torch.where(landed, _BISECTING, state.phase)
        phase = torch.where(at_boundary, _ESTIMATING, phase)
        phase = torch.where(estimated, _JUMPING, phase)
        drawn = self._random_direction(problem, base, rounds, noise)
        moved = HopSkipJumpState(
            state.theta, state.step + 1, phase, rounds, asked, low, high, end, base, drawn, sum_all, sum_fooled, fooled,
            direction, length,
        )  # fmt: skip
        inside = self._next_query(problem, moved)
        return replace(moved, theta=inside, drawn=select(phase == _ESTIMATING, inside - base, drawn))

    def _next_query(self, problem: Problem, state: HopSkipJumpState) -> Tensor:
        """Return the point of the next query, which depends on the phase, as its difference from the input."""
        base, phase = state.base, state.phase
        theta = select(phase == _LOOKING, self._random_image(problem, state.step), state.theta)
        theta = select(phase == _BISECTING, per_sample((state.low + state.high) / 2, state.end) * state.end, theta)
        theta = select(phase == _ESTIMATING, base + state.drawn, theta)
        theta = select(phase == _JUMPING, base + per_sample(state.length, base) * state.direction, theta)
        return torch.minimum(torch.maximum(theta, -problem.x), 1 - problem.x)

    def _random_image(self, problem: Problem, step: Tensor) -> Tensor:
        """Return a random image, as its difference from the input.

        The first is uniform noise, as in the paper. Later ones have a random brightness and contrast, and every other
        one lies around the negative of the input, because some networks give all noise one class.
        """
        noise, x = problem.noise.child(-3).child(step), problem.x
        pixels = noise.child(0).symmetric(*x.shape[1:], dtype=x.dtype) / 2
        level, contrast = (noise.child(k).uniform(dtype=x.dtype) for k in (1, 2))
        level = select(step % 2 == 1, 1 - x, per_sample(level, x).expand_as(x))
        level = select(step == 0, torch.full_like(x, 0.5), level)
        contrast = torch.where(step == 0, 1.0, 2 * contrast)
        return (level + per_sample(contrast, x) * pixels).clamp(0, 1) - x

    def _random_direction(self, problem: Problem, base: Tensor, rounds: Tensor, noise: Noise) -> Tensor:
        """Return a random direction, as long as the paper's radius in this round (delta_t)."""
        ray = noise.normal(*problem.x.shape[1:], dtype=problem.x.dtype)
        dimensions = flatten(base).shape[1]
        radius = dimensions**0.5 * _closeness(problem) * norm(base, 2)
        radius = torch.where(rounds == 0, _FIRST_RADIUS * torch.ones_like(radius), radius)
        return ray / per_sample(norm(ray, 2) + _TINY, ray) * per_sample(radius, ray)

    def _queries(self, rounds: Tensor) -> Tensor:
        """Return the number of queries [B] of the estimate in each round (B_t of the paper)."""
        return (self.first * (rounds + 1).double().sqrt()).floor().clamp_max(self.most).long()


def _closeness(problem: Problem) -> float:
    """Return the length of a line that counts as a point of the boundary, as a share of its way to the input.

    It is theta = d^(-3/2) of the authors' code, for inputs of d numbers.
    """
    dimensions = flatten(problem.x).shape[1]
    return float(dimensions**-1.5)


def _direction(sum_all: Tensor, sum_fooled: Tensor, fooled: Tensor, asked: Tensor) -> Tensor:
    """Return the unit direction towards the misclassified side.

    Labels are +1 for misclassified and -1 for right. Their mean is subtracted as the baseline (the variance
    reduction of the paper), unless all are the same, where nothing would be left.
    """
    count = asked.clamp_min(1).to(fooled.dtype)
    mean_label = (2 * fooled - count) / count
    one_sided = (fooled == 0) | (fooled == count)
    baseline = per_sample(torch.where(one_sided, 0.0, mean_label), sum_all)
    estimate = 2 * sum_fooled - sum_all - baseline * sum_all
    return estimate / per_sample(norm(estimate, 2) + _TINY, estimate)
