"""Adversarial examples for training: the optimizers of the attacks, driven for a fixed number of steps.

What evaluation adds (verification, sizes, early exit, strengths searched per sample) training does not want; so the
optimizers are stepped here directly, and nothing of an attack is written again.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from robustatlas.common.bundle import Tree, gradient, per_sample, select, watched
from robustatlas.common.noise import Noise
from robustatlas.models.objectives import cross_entropy
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import Lp, project_l1_ball, to_box

Value = Callable[[Tensor], Tensor]
"""An objective that an attack maximises: from logits ``[B, C]`` to ``[B]``."""

Start = Literal["random", "neutral", "near"]
"""Starting points of crafting: a random point of the set; the input itself; or next to it (TRADES)."""

Mode = Literal["eval", "train", "batch"]
"""Modes of the network while examples are crafted: in eval mode; in train mode, so that running statistics see the
examples; or with the statistics of the batch while the running ones stay as they are."""

NEAR_DEVIATION = 1e-3
"""Standard deviation of the noise that TRADES begins with."""
_NEAR_SHARE = 0.01
"""Share of the strength for that noise, if theta is not a perturbation of pixels."""


@dataclass(frozen=True)
class Opponent:
    """An attack to train against: a threat model at one strength, and the optimizer that searches it.

    Attributes:
        name: of the attack in the catalogue; what logs and cards call it.
        threat: its threat model.
        epsilon: their size, in the unit of the threat model.
        optimizer: run for its ``steps``.
        start: where it begins, unless a recipe says otherwise.

    Example:
        >>> from robustatlas.training import opponents_of
        >>> opponents_of({"linf": 0.1})[0].epsilon
        0.1
    """

    name: str
    threat: ThreatModel
    epsilon: float
    optimizer: Optimizer[Any]
    start: Start = "random"


@dataclass(frozen=True)
class Crafted:
    """``x``: the examples, like the inputs, in [0, 1], detached; ``survived`` [B] bool: no point that the search
    looked at was misclassified."""

    x: Tensor
    survived: Tensor


@contextmanager
def network_mode(net: nn.Module, mode: Mode) -> Iterator[None]:
    """Put ``net`` into a mode for crafting; the mode of each of its modules is restored at the end.

    Args:
        net: any module.
        mode: "eval", "train", or "batch" (normalisation by the batch, everything else as in eval mode).

    Example:
        >>> net = nn.Dropout()
        >>> with network_mode(net, "eval"):
        ...     net.training
        False
        >>> net.training
        True
    """
    modules = list(net.modules())
    modes = [module.training for module in modules]
    norms = [m for m in modules if isinstance(m, nn.modules.batchnorm._NormBase) and m.track_running_stats]
    try:
        for module in modules:
            module.training = mode == "train"
        if mode == "batch":
            for norm in norms:
                norm.training, norm.track_running_stats = True, False
        yield
    finally:
        for module, before in zip(modules, modes, strict=True):
            module.training = before
        for norm in norms:
            norm.track_running_stats = True


def craft(
    net: Callable[[Tensor], Tensor],
    opponent: Opponent,
    x: Tensor,
    labels: Tensor,
    epsilon: Tensor,
    noise: Noise,
    value: Value,
    *,
    targets: Tensor | None = None,
    start: Start | None = None,
    keep: Literal["last", "best"] = "last",
) -> Crafted:
    """Examples that maximise ``value``, as the opponent's optimizer finds them.

    Args:
        net: inputs ``[B, ...]`` in [0, 1] to logits ``[B, C]``; its parameters are given no gradient.
        opponent: threat model and optimizer; its own strength is not used.
        x: ``[B, ...]`` in [0, 1].
        labels: ``[B]``.
        epsilon: ``[B]``, a strength per sample.
        noise: a stream per sample.
        value: from logits to ``[B]``.
        targets: ``[B]``, for optimizers that look at them.
        start: where the search begins; default: where the opponent does.
        keep: the point after the last step (evaluated by nobody), or the one of highest ``value``, for one more
            forward pass.

    Example:
        >>> from robustatlas.threats.lp import Linf
        >>> net = nn.Linear(4, 3)
        >>> x, labels = torch.rand(2, 4), torch.tensor([0, 2])
        >>> loss = lambda logits: nn.functional.cross_entropy(logits, labels, reduction="none")
        >>> found = craft(net, Opponent("linf", Linf(), 0.1, PGD(3)), x, labels, torch.full((2,), 0.1),
        ...               Noise.of(0, torch.arange(2), "example"), loss)
        >>> bool((found.x - x).abs().max() <= 0.1 + 1e-6)
        True
    """
    problem = _problem(opponent, x, labels, epsilon, noise, targets)
    optimizer = opponent.optimizer
    state = optimizer.init(problem, _start(problem, start or opponent.start))
    fooled = [torch.zeros_like(labels, dtype=torch.bool)]
    best, highest = state.theta, torch.full_like(epsilon, -torch.inf)
    for _ in range(optimizer.steps):
        evaluation = _evaluate(net, problem, state.theta, value, optimizer)
        fooled.append(evaluation.fooled)
        if keep == "best":
            best, highest = _keep_better(evaluation.objective, state.theta, highest, best)
        state = optimizer.step(problem, state, evaluation)
    theta = state.theta
    if keep == "best":
        with torch.no_grad():
            logits = net(problem.threat.apply(problem.x, theta))
            fooled.append(logits.argmax(1) != labels)
            theta, _ = _keep_better(value(logits), theta, highest, best)
    return Crafted(_applied(problem, theta), ~torch.stack(fooled).any(0))


def adversarial_examples(
    net: Callable[[Tensor], Tensor],
    threat: ThreatModel,
    x: Tensor,
    labels: Tensor,
    epsilon: Tensor,
    noise: Noise,
    steps: int = 10,
    rate: float = 0.25,
) -> Tensor:
    """Inputs of the highest cross-entropy that ``steps`` of projected gradient ascent from a random start end at.

    Args:
        net: inputs ``[B, ...]`` to logits ``[B, C]``.
        threat: the set to stay in.
        x: ``[B, ...]`` in [0, 1].
        labels: ``[B]``.
        epsilon: ``[B]``, a strength per sample.
        noise: a stream per sample.
        steps: gradients per sample.
        rate: length of a step as a share of ``epsilon``.

    Returns:
        ``[B, ...]`` in [0, 1], not verified; the last iterate, not the best.

    Example:
        >>> from robustatlas.threats.lp import Linf
        >>> net, x, labels = nn.Linear(4, 2), torch.full((1, 4), 0.5), torch.tensor([0])
        >>> epsilon, noise = torch.tensor([0.1]), Noise.of(0, torch.arange(1), "example")
        >>> found = adversarial_examples(net, Linf(), x, labels, epsilon, noise)
        >>> bool((found - x).abs().max() <= 0.1 + 1e-6)
        True
    """
    opponent = Opponent(type(threat).__name__, threat, math.nan, PGD(steps, rate))
    value = partial(cross_entropy, labels=labels, targets=None)
    return craft(net, opponent, x, labels, epsilon, noise, value).x


def craft_steepest(
    net: Callable[[Tensor], Tensor],
    opponents: Sequence[Opponent],
    x: Tensor,
    labels: Tensor,
    epsilons: Sequence[Tensor],
    noise: Noise,
    value: Value,
) -> Tensor:
    """Multi steepest descent (Maini et al. 2020, algorithm 1): each step goes where one of the threat models raises
    ``value`` most.

    All ``opponents`` share one perturbation, so their threat models are lp balls; at equal values the later one is
    taken. The best point of all steps is returned, ``[B, ...]``, detached. Cost of a step: one forward and backward
    pass, and a forward pass for each opponent.
    """
    problems = [_problem(o, x, labels, e, noise, None) for o, e in zip(opponents, epsilons, strict=True)]
    theta = torch.zeros_like(x)
    states = [o.optimizer.init(p, theta) for o, p in zip(opponents, problems, strict=True)]
    best, highest = theta, torch.full_like(epsilons[0], -torch.inf)
    for _ in range(max(o.optimizer.steps for o in opponents)):
        evaluation = _evaluate(net, problems[0], theta, value, opponents[0].optimizer)
        states = [
            o.optimizer.step(p, replace(s, theta=theta), evaluation)
            for o, p, s in zip(opponents, problems, states, strict=True)
        ]
        theta, reached = _highest(net, problems[0], [s.theta for s in states], value)
        best, highest = _keep_better(reached, theta, highest, best)
    return _applied(problems[0], best)


def craft_pair(
    net: Callable[[Tensor], Tensor],
    opponent: Opponent,
    x: Tensor,
    labels: Tensor,
    epsilon: Tensor,
    noise: Noise,
    distance: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Two points of one set that are far apart: ascent of both on ``distance``, from independent random starts.

    ``distance``: from two outputs of ``net`` to ``[B]``.
    """
    optimizer = opponent.optimizer
    problems = [_problem(opponent, x, labels, epsilon, noise.child(k), None) for k in range(2)]
    states = [optimizer.init(p, _start(p, "random")) for p in problems]
    for _ in range(optimizer.steps):
        thetas = watched(tuple(state.theta for state in states))
        apart = distance(*(net(p.threat.apply(p.x, theta)) for p, theta in zip(problems, thetas, strict=True)))
        gradients = gradient(apart, thetas)
        nothing = torch.zeros_like(labels, dtype=torch.bool)
        reached = apart.detach()
        evaluations = [
            Evaluation(reached[:, None], reached, slope, nothing, _size(optimizer, problem, state.theta))
            for problem, state, slope in zip(problems, states, gradients, strict=True)
        ]
        states = [optimizer.step(*each) for each in zip(problems, states, evaluations, strict=True)]
    first, second = (_applied(problem, state.theta) for problem, state in zip(problems, states, strict=True))
    return first, second


def _problem(
    opponent: Opponent, x: Tensor, labels: Tensor, epsilon: Tensor, noise: Noise, targets: Tensor | None
) -> Problem:
    goal = torch.full_like(labels, -1) if targets is None else targets
    # A tensor of its own: what a perceptual distance remembers of it must not outlive a step of the weights.
    return Problem(opponent.threat, x.detach(), labels, goal, epsilon, noise)


def _start(problem: Problem, start: Start) -> Tree:
    threat, x = problem.threat, problem.x
    if start == "neutral":
        return threat.neutral(x)
    if start == "near":
        if threat.additive:
            return NEAR_DEVIATION * problem.noise.normal(*x.shape[1:], dtype=x.dtype)
        return threat.start(x, _NEAR_SHARE * problem.epsilon, problem.noise)
    return threat.start(x, problem.epsilon, problem.noise)


def _evaluate(
    net: Callable[[Tensor], Tensor], problem: Problem, theta: Tree, value: Value, optimizer: Optimizer[Any]
) -> Evaluation:
    """One forward and one backward pass at ``theta``, with respect to theta only."""
    leaves = watched(theta)
    logits = net(problem.threat.apply(problem.x, leaves))
    objective = value(logits)
    slope = gradient(objective, leaves)
    logits = logits.detach()
    fooled = logits.argmax(1) != problem.labels
    return Evaluation(logits, objective.detach(), slope, fooled, _size(optimizer, problem, theta))


def _size(optimizer: Optimizer[Any], problem: Problem, theta: Tree) -> Tensor:
    """Sizes where the optimizer looks at them; measuring a perceptual one costs a forward pass."""
    if optimizer.needs_size or optimizer.needs_size_gradient:
        return problem.threat.size(problem.x, theta)
    return torch.full_like(problem.epsilon, torch.nan)


def _keep_better(value: Tensor, theta: Tree, highest: Tensor, best: Tree) -> tuple[Tree, Tensor]:
    higher = value > highest
    return select(higher, theta, best), torch.where(higher, value, highest)


@torch.no_grad()
def _highest(
    net: Callable[[Tensor], Tensor], problem: Problem, candidates: list[Tensor], value: Value
) -> tuple[Tensor, Tensor]:
    """Return the perturbation of the highest value for each sample, the later one at equal values."""
    theta, highest = candidates[0], value(net(problem.threat.apply(problem.x, candidates[0])))
    for candidate in candidates[1:]:
        reached = value(net(problem.threat.apply(problem.x, candidate)))
        theta = select(reached >= highest, candidate, theta)
        highest = torch.maximum(highest, reached)
    return theta, highest


@torch.no_grad()
def _applied(problem: Problem, theta: Tree) -> Tensor:
    return problem.threat.apply(problem.x, theta).detach()


def ball_point(threat: Lp, x: Tensor, direction: Tensor, epsilon: Tensor) -> Tensor:
    """x + the perturbation of an lp ball that ``direction`` [B, ...] stands for, in [0, 1]; differentiable in
    ``direction``.

    linf: clamped. l1: projected, then cut off at the box. l2: stretched or shrunk so that what the box leaves of it has
    length ``epsilon`` (the generator of MNG-AC, Madaan et al. 2021).
    """
    if threat.p == 2:
        return _stretched(x, direction, epsilon)
    if threat.p == 1:
        return x + to_box(x, project_l1_ball(direction, epsilon))
    return threat.apply(x, threat.project(x, direction, epsilon))


def _stretched(x: Tensor, direction: Tensor, epsilon: Tensor) -> Tensor:
    """clamp(x + eta d) with ||clamp(x + eta d) - x||_2 = epsilon: eta lies between two of the sorted factors at which
    a coordinate meets the box."""
    d = direction.flatten(1)
    room = torch.where(d > 0, 1 - x.flatten(1), x.flatten(1))
    with torch.no_grad():
        meets = room / d.abs().clamp_min(1e-12)
        order = meets.argsort(dim=1)
        factor, full, slope = meets.gather(1, order), room.gather(1, order) ** 2, d.detach().gather(1, order) ** 2
        behind = full.cumsum(1) - full
        ahead = slope.flip(1).cumsum(1).flip(1)
        length = behind + factor**2 * ahead  # squared, where each coordinate in turn meets the box
        count = (length < (epsilon**2)[:, None]).sum(1)
        filled = torch.arange(d.shape[1], device=d.device).expand_as(d) < count[:, None]
        clipped = torch.zeros_like(filled).scatter(1, order, filled)
    left = (epsilon**2 - (room**2 * clipped).sum(1)).clamp_min(0)
    free = (d**2 * ~clipped).sum(1).clamp_min(1e-24)
    # Not the root of the ratio, which has no gradient at epsilon = 0.
    return x + to_box(x, per_sample(left.sqrt() * free.rsqrt(), direction) * direction)
