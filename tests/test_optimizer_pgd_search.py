"""PGD with a search over epsilon: against the method written out sample by sample, and against closed forms."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import brief
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.optimizers.pgd_search import PGDSearch

QUIET: dict[str, Any] = {"progress": False, "diagnose": False}


def by_hand(net: nn.Module, x: Tensor, label: int, steps: int, rounds: int) -> float:
    """The size that foolbox 2.4's ProjectedGradientDescentAttack returns of one sample: smallest example of any run."""
    smallest = np.inf

    def succeeds(epsilon: float) -> bool:
        nonlocal smallest
        moved = x.clone()
        for _ in range(steps):
            leaf = moved.clone().requires_grad_()
            nn.functional.cross_entropy(net(leaf[None]), torch.tensor([label])).backward()
            assert leaf.grad is not None
            moved = moved + epsilon / 30 * leaf.grad.sign()
            moved = torch.clamp(x + (moved - x).clamp(-epsilon, epsilon), 0, 1)
            if net(moved[None]).argmax(1).item() != label:
                smallest = min(smallest, float((moved - x).abs().max()))
                return True
        return False

    epsilon = 0.3
    for _ in range(rounds):
        if succeeds(epsilon):
            break
        epsilon *= 1.5
    else:
        return np.inf
    low, high = 0.0, epsilon
    for _ in range(rounds):
        epsilon = (low + high) / 2
        low, high = (low, epsilon) if succeeds(epsilon) else (epsilon, high)
    return smallest


def test_it_finds_what_the_method_finds() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).double()
    x = torch.rand(12, 6, dtype=torch.float64)
    labels = net(x).argmax(1)
    (attack, _) = resolve_attacks("robustness-curves")
    few = attack.with_runs(lambda run: replace(run, optimizer=PGDSearch(inner_steps=10, rounds=6)))
    found = ra.evaluate(net, (x, labels), [few], **QUIET).outcome("linf").minimal_size
    expected = [by_hand(net, image, int(label), 10, 6) for image, label in zip(x, labels, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_suite_measures_curves_of_linear_networks() -> None:
    """Lemma 1: the distance is the margin over the dual norm, where the box is out of reach."""
    torch.manual_seed(1)
    net = nn.Linear(9, 2)
    x = 0.4 + 0.2 * torch.rand(10, 9)
    labels = net(x).argmax(1)
    weight = (net.weight[0] - net.weight[1]).detach().double()
    margin = (net(x)[:, 0] - net(x)[:, 1]).detach().double().abs()
    near = (margin / weight.abs().sum() < 0.3).numpy()
    assert near.sum() > 4
    suite = [brief(attack, attack.strengths, {"inner_steps": 200}) for attack in resolve_attacks("robustness-curves")]
    result = ra.evaluate(net, (x[near], labels[near]), suite, **QUIET)
    for name, dual in (("linf", weight.abs().sum()), ("l2", weight.norm())):
        sizes = result.outcome(name).minimal_size
        exact = (margin / dual).numpy()[near]
        assert (sizes >= exact * (1 - 1e-4)).all()
        np.testing.assert_allclose(sizes, exact, rtol=0.06)
