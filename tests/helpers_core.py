"""Small models, exact answers for linear classifiers, and short cuts that the tests of the attack core share."""

import copy
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog
from torch import Tensor, nn

import robustatlas as ra
from robustatlas import engine
from robustatlas.attacks.definition import Attack, AttackRun, Search
from robustatlas.attacks.search.plan import Plan
from robustatlas.attacks.search.rules import Rule
from robustatlas.common.noise import Noise
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem
from robustatlas.threats.lp import L0, L1, L2, Linf, Lp

P = {"linf": np.inf, "l2": 2.0, "l1": 1.0, "l0": 0.0}
THREATS: dict[str, Lp] = {"linf": Linf(), "l2": L2(), "l1": L1(), "l0": L0()}


BROKEN_DEFENSES = Path(__file__).parents[1] / "examples" / "broken_defenses"


def broken_defense(function: str) -> str:
    """Return the source of a model of the examples, such as "false_gradients.py:zero_gradient"."""
    return f"{BROKEN_DEFENSES}/{function}"


def benchmark(name: str) -> ModuleType:
    """A script of ``benchmarks/`` as a module."""
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FEW = {"steps": 4, "inner_steps": 2, "search_steps": 2, "restarts": 1}


def brief(attack: Attack, strengths: Sequence[float] = (), most: Mapping[str, int] = FEW, runs: int = 2) -> Attack:
    """The attack with at most so many targets or starts of a run and so many steps, at its second strength and its
    largest unless told."""

    def fewer(run: AttackRun) -> AttackRun:
        optimizer = run.optimizer
        known = {field.name: getattr(optimizer, field.name) for field in fields(optimizer)}
        changes = {name: min(count, known[name]) for name, count in most.items() if isinstance(known.get(name), int)}
        return replace(run, optimizer=replace(optimizer, **changes), count=min(runs, run.count))

    return replace(attack.with_runs(fewer), strengths=tuple(strengths) or (attack.strengths[1], attack.strengths[-1]))


def linear(weight: NDArray[np.float64], bias: NDArray[np.float64]) -> nn.Module:
    """The network x -> W x + b, in float64."""
    net = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(torch.as_tensor(weight))
        net.bias.copy_(torch.as_tensor(bias))
    return net


def distance_to_halfspace(w: NDArray[np.float64], gap: float, x: NDArray[np.float64], p: float) -> float:
    """min ||d||_p with <w, d> >= gap > 0 and x + d in [0, 1]; inf where there is none. By scipy, not by the package."""
    room = np.where(w > 0, 1 - x, np.where(w < 0, x, 0.0))
    gain = np.abs(w)
    if gap == 0:
        return 0.0
    if gain @ room < gap:
        return math.inf
    n = len(w)
    if p == np.inf:  # variables: |d| and their maximum t
        solved = linprog(
            np.r_[np.zeros(n), 1], A_ub=np.vstack([np.c_[np.eye(n), -np.ones(n)], np.r_[-gain, 0]]),
            b_ub=np.r_[np.zeros(n), -gap], bounds=[(0, r) for r in room] + [(0, None)],
        )  # fmt: skip
        return float(solved.fun)
    if p == 1:
        solved = linprog(np.ones(n), A_ub=-gain[None], b_ub=[-gap], bounds=[(0, r) for r in room])
        return float(solved.fun)
    if p == 2:
        high = room[gain > 0].max() / gain[gain > 0].min() + 1
        level = brentq(lambda t: gain @ np.minimum(t * gain, room) - gap, 0, high, xtol=1e-14)
        return float(np.linalg.norm(np.minimum(level * gain, room)))
    return float(np.searchsorted(np.cumsum(np.sort(gain * room)[::-1]), gap - 1e-12) + 1)


def exact_sizes(
    weight: NDArray[np.float64], bias: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.int64], p: float
) -> NDArray[np.float64]:
    """``[N]``: the true minimal size of each sample of a linear classifier in the box; 0 where it is misclassified."""
    found = np.zeros(len(x))
    for i, (point, label) in enumerate(zip(x, y, strict=True)):
        z = weight @ point + bias
        if z.argmax() == label:
            others = [k for k in range(len(z)) if k != label]
            found[i] = min(distance_to_halfspace(weight[k] - weight[label], z[label] - z[k], point, p) for k in others)
    return found


def digits_network(dtype: torch.dtype = torch.float32) -> nn.Module:
    """A multi-layer perceptron trained on the bundled digits in a second; smooth, so that attacks compare closely."""
    return copy.deepcopy(_trained_on_digits()).to(dtype)


@cache
def _trained_on_digits() -> nn.Module:
    data = ra.load_dataset("digits", split="train")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Softplus(beta=5), nn.Linear(48, 10))
    adam = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(80):
        adam.zero_grad()
        nn.functional.cross_entropy(net(data.images), data.labels).backward()
        adam.step()
    return net.eval().requires_grad_(False)


@cache
def digits_images(count: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The first ``count`` test digits: images [N, 1, 8, 8] and labels."""
    data = ra.load_dataset("digits")
    return data.images[:count].to(dtype), data.labels[:count]


def problem(
    threat: Lp, x: Tensor, labels: Tensor, epsilon: float, targets: Tensor | None = None, seed: int = 0
) -> Problem:
    """A problem with one epsilon for all samples."""
    noise = Noise.for_samples(seed, torch.arange(len(x)), "test")
    targets = torch.full_like(labels, -1) if targets is None else targets
    return Problem(threat, x, labels, targets, torch.full((len(x),), epsilon, dtype=x.dtype), noise)


def iterates(
    net: Callable[[Tensor], Tensor], optimizer: Optimizer, objective: str, task: Problem, theta: Tensor
) -> list[Evaluation]:
    """Run an optimizer from ``theta`` without the engine, until all samples are finished; every evaluation."""
    run = AttackRun(optimizer, objective, targets="logits" if task.targets[0] >= 0 else None)
    state, found = optimizer.init(task, theta), []
    while not bool(optimizer.finished(state).all()):
        found.append(engine.evaluate(ra.Classifier(net), task, run, state.theta))
        state = optimizer.step(task, state, found[-1])
    return found


def smallest(found: list[Evaluation]) -> Tensor:
    """``[B]``: the smallest size at which a sample was fooled."""
    return torch.stack([torch.where(e.fooled, e.size, torch.inf) for e in found]).amin(0)


def bounded(name: str, *runs: AttackRun, strengths: tuple[float, ...] | None = None) -> Attack:
    """An attack that makes only these minimum-size runs."""
    return Attack(name, THREATS[name], runs, strengths or (1e-6,), unbounded=True)


def plans_of(attack: Attack) -> dict[Search, Plan]:
    """The plan of each search of an attack."""
    return {search: attack.plan(search) for search in attack.searches}


def with_plan(attack: Attack, search: Search, *runs: AttackRun, rules: Sequence[Rule] | None = None) -> Attack:
    """The attack with other runs by one search, and other rules, where they are told."""
    others = tuple(run for run in attack.runs if search not in run.searches)
    named = tuple(replace(run, searches=(search,)) for run in runs)
    kept = attack.plan(search).rules if rules is None else tuple(rules)
    return replace(attack, runs=(*others, *named), rules=kept, usual_rules=False)


class Recorder:
    """A network that remembers its inputs."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.seen: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        return self.net(x)
