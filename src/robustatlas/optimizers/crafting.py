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

from robustatlas.common.bundle import Tree, gradient, per_sample, require_gradient, select
from robustatlas.common.noise import Noise
from robustatlas.models.objectives import cross_entropy
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import Lp, clip_to_box, project_l1_ball

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
        name: name of the attack in the catalogue; logs and cards call it so.
        threat: its threat model.
        epsilon: size of the set that is searched, in the unit of the threat model.
        optimizer: runs for its ``steps``.
        start: starting point, unless a recipe names another.

    Example:
        >>> from robustatlas.training import make_opponents
        >>> make_opponents({"linf": 0.1})[0].epsilon
        0.1
    """

    name: str
    threat: ThreatModel
    epsilon: float
    optimizer: Optimizer[Any]
    start: Start = "random"


@dataclass(frozen=True)
class Crafted:
    """Examples of a batch.

    ``x`` [B, ...]: the examples, in [0, 1] and detached. ``survived`` [B] bool: no point that the search looked at was
    misclassified.
    """

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
    """Find examples that maximise ``value``, by the opponent's optimizer.

    Args:
        net: inputs ``[B, ...]`` in [0, 1] to logits ``[B, C]``; its parameters are given no gradient.
        opponent: threat model and optimizer; its own strength is not used.
        x: ``[B, ...]`` in [0, 1].
        labels: ``[B]``.
        epsilon: ``[B]``, a strength per sample.
        noise: a stream per sample.
        value: from logits to ``[B]``.
        targets: ``[B]``, for optimizers that look at them.
        start: starting point of the search; default: the opponent's.
        keep: the point after the last step, which is not evaluated, or the one of highest ``value``, which takes one
            more forward pass.

    Returns:
        the examples, not verified.

    Example:
        >>> from robustatlas.threats.lp import Linf
        >>> net = nn.Linear(4, 3)
        >>> x, labels = torch.rand(2, 4), torch.tensor([0, 2])
        >>> loss = lambda logits: nn.functional.cross_entropy(logits, labels, reduction="none")
        >>> found = craft(net, Opponent("linf", Linf(), 0.1, PGD(3)), x, labels, torch.full((2,), 0.1),
        ...               Noise.for_samples(0, torch.arange(2), "example"), loss)
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
    return Crafted(_perturbed_inputs(problem, theta), ~torch.stack(fooled).any(0))


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
    """Return the inputs where ``steps`` of projected gradient ascent on cross-entropy end, from a random start.

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
        >>> epsilon, noise = torch.tensor([0.1]), Noise.for_samples(0, torch.arange(1), "example")
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
    """Find examples by multi steepest descent (Maini et al. 2020, algorithm 1).

    Each step is that of the threat model which raises ``value`` most. All ``opponents`` share one perturbation, so
    their threat models are lp balls; at equal values the later one is taken. A step costs one forward and backward
    pass, and a forward pass for each opponent. Arguments are those of :func:`craft`, with ``epsilons`` [B] for each
    opponent.

    Returns:
        ``[B, ...]``: the best points of all steps, detached.
    """
    problems = [
        _problem(opponent, x, labels, epsilon, noise, None)
        for opponent, epsilon in zip(opponents, epsilons, strict=True)
    ]
    theta = torch.zeros_like(x)
    states = [opponent.optimizer.init(problem, theta) for opponent, problem in zip(opponents, problems, strict=True)]
    best, highest = theta, torch.full_like(epsilons[0], -torch.inf)
    for _ in range(max(opponent.optimizer.steps for opponent in opponents)):
        # One gradient serves all: the balls share theta, and with it the point where the network is evaluated.
        evaluation = _evaluate(net, problems[0], theta, value, opponents[0].optimizer)
        states = [
            opponent.optimizer.step(problem, replace(state, theta=theta), evaluation)
            for opponent, problem, state in zip(opponents, problems, states, strict=True)
        ]
        theta, reached = _highest(net, problems[0], [state.theta for state in states], value)
        best, highest = _keep_better(reached, theta, highest, best)
    return _perturbed_inputs(problems[0], best)


def craft_pair(
    net: Callable[[Tensor], Tensor],
    opponent: Opponent,
    x: Tensor,
    labels: Tensor,
    epsilon: Tensor,
    noise: Noise,
    distance: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Find two points of one set that are far apart: ascent of both on ``distance``, from independent random starts.

    Other arguments are those of :func:`craft`.

    Args:
        distance: from two outputs of ``net`` to ``[B]``.

    Returns:
        two tensors ``[B, ...]`` in [0, 1], detached.
    """
    optimizer = opponent.optimizer
    problems = [_problem(opponent, x, labels, epsilon, noise.child(k), None) for k in range(2)]
    states = [optimizer.init(p, _start(p, "random")) for p in problems]
    for _ in range(optimizer.steps):
        thetas = require_gradient(tuple(state.theta for state in states))
        apart = distance(*(net(p.threat.apply(p.x, theta)) for p, theta in zip(problems, thetas, strict=True)))
        gradients = gradient(apart, thetas)
        # No class is asked for: the distance stands in the place of the logits, and nothing counts as misclassified.
        none_fooled = torch.zeros_like(labels, dtype=torch.bool)
        objective = apart.detach()
        evaluations = [
            Evaluation(objective[:, None], objective, slope, none_fooled, _size(optimizer, problem, state.theta))
            for problem, state, slope in zip(problems, states, gradients, strict=True)
        ]
        states = [optimizer.step(*each) for each in zip(problems, states, evaluations, strict=True)]
    first, second = (_perturbed_inputs(problem, state.theta) for problem, state in zip(problems, states, strict=True))
    return first, second


def _problem(
    opponent: Opponent, x: Tensor, labels: Tensor, epsilon: Tensor, noise: Noise, targets: Tensor | None
) -> Problem:
    """Return the problem of one step of training; ``targets`` None: untargeted."""
    targets = torch.full_like(labels, -1) if targets is None else targets
    # A tensor of its own: what a perceptual distance remembers of it must not outlive a step of the weights.
    return Problem(opponent.threat, x.detach(), labels, targets, epsilon, noise)


def _start(problem: Problem, start: Start) -> Tree:
    """Return the theta where a search begins."""
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
    """Evaluate ``net`` at ``theta`` by one forward and one backward pass, with respect to theta only."""
    leaves = require_gradient(theta)
    logits = net(problem.threat.apply(problem.x, leaves))
    objective = value(logits)
    slope = gradient(objective, leaves)
    logits = logits.detach()
    fooled = logits.argmax(1) != problem.labels
    return Evaluation(logits, objective.detach(), slope, fooled, _size(optimizer, problem, theta))


def _size(optimizer: Optimizer[Any], problem: Problem, theta: Tree) -> Tensor:
    """Return the sizes [B] if the optimizer looks at them, else nan: a perceptual size costs a forward pass."""
    if optimizer.needs_size or optimizer.needs_size_gradient:
        return problem.threat.size(problem.x, theta)
    return torch.full_like(problem.epsilon, torch.nan)


def _keep_better(value: Tensor, theta: Tree, highest: Tensor, best: Tree) -> tuple[Tree, Tensor]:
    """Return the better of ``theta`` and ``best`` for each sample, and its value [B]."""
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
def _perturbed_inputs(problem: Problem, theta: Tree) -> Tensor:
    """Return the inputs [B, ...] that ``theta`` stands for, detached."""
    return problem.threat.apply(problem.x, theta).detach()


def ball_point(threat: Lp, x: Tensor, direction: Tensor, epsilon: Tensor) -> Tensor:
    """Return x + the perturbation of an lp ball that ``direction`` stands for; differentiable in ``direction``.

    It is clamped in linf, and projected, then cut off at the box, in l1. In l2 it is stretched or shrunk so that what
    the box leaves of it has length ``epsilon`` (the generator of MNG-AC, Madaan et al. 2021).

    Args:
        threat: Linf, L2 or L1.
        x: ``[B, ...]`` in [0, 1].
        direction: ``[B, ...]``, of any size.
        epsilon: ``[B]``.

    Returns:
        ``[B, ...]`` in [0, 1].
    """
    if threat.p == 2:
        return _stretched(x, direction, epsilon)
    if threat.p == 1:
        return x + clip_to_box(x, project_l1_ball(direction, epsilon))
    return threat.apply(x, threat.project(x, direction, epsilon))


def _stretched(x: Tensor, direction: Tensor, epsilon: Tensor) -> Tensor:
    """Return clamp(x + eta d) with the eta for which ||clamp(x + eta d) - x||_2 = epsilon.

    eta lies between two of the factors at which a coordinate meets the box. They are sorted, and the squared length at
    each is a sum of the coordinates that have met it and eta^2 times a sum of those that have not.
    """
    d = direction.flatten(1)
    room = torch.where(d > 0, 1 - x.flatten(1), x.flatten(1))
    with torch.no_grad():
        etas = room / d.abs().clamp_min(1e-12)
        order = etas.argsort(dim=1)
        eta, clipped_square, free_square = etas.gather(1, order), room.gather(1, order) ** 2, d.gather(1, order) ** 2
        clipped_sum = clipped_square.cumsum(1) - clipped_square
        free_sum = free_square.flip(1).cumsum(1).flip(1)
        length_square = clipped_sum + eta**2 * free_sum  # at the eta where each coordinate in turn meets the box
        count = (length_square < (epsilon**2)[:, None]).sum(1)
        is_clipped = torch.arange(d.shape[1], device=d.device).expand_as(d) < count[:, None]
        clipped = torch.zeros_like(is_clipped).scatter(1, order, is_clipped)
    left = (epsilon**2 - (room**2 * clipped).sum(1)).clamp_min(0)
    free = (d**2 * ~clipped).sum(1).clamp_min(1e-24)
    # Not the root of the ratio, which has no gradient at epsilon = 0.
    return x + clip_to_box(x, per_sample(left.sqrt() * free.rsqrt(), direction) * direction)
