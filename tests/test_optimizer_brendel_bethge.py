"""Brendel and Bethge's attack in l1: its step is the linear program that it claims to solve, and its walk ends where
nothing smaller is near."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import nn

import robustatlas as ra
from helpers_core import bounded, iterates, problem, smallest
from robustatlas.attacks.definition import AttackRun
from robustatlas.optimizers.brendel_bethge import BrendelBethge
from robustatlas.threats.lp import L1

Array = NDArray[np.float64]


def by_program(x: Array, theta: Array, normal: Array, rise: float, reach: float) -> float | None:
    """The smallest l1 norm of a change that rises so far nearby, by scipy; None: none does."""
    n = len(x)
    low, high = np.maximum(-x, theta - reach), np.minimum(1 - x, theta + reach)
    # a change is up - down; what is up and down at once costs more and is never the best
    bounds = [(max(0.0, lo), max(0.0, hi)) for lo, hi in zip(low, high, strict=True)]
    bounds += [(max(0.0, -hi), max(0.0, -lo)) for lo, hi in zip(low, high, strict=True)]
    row = np.concatenate([-normal, normal])
    found = linprog(np.ones(2 * n), row[None], [-(rise + normal @ theta)], bounds=bounds)
    return float(found.fun) if found.success else None


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_a_step_is_the_best_of_a_linear_program(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x, normal, shift = (torch.rand(1, 7, generator=draw, dtype=torch.float64) for _ in range(3))
    normal = (normal - 0.5) * (torch.rand(1, 7, generator=draw) > 0.2)
    theta = (2 * shift - 1).clamp(-x, 1 - x)
    rise, reach = (torch.rand(1, generator=draw, dtype=torch.float64) for _ in range(2))
    rise = rise - 0.4
    found = L1().smallest_beyond(x, theta, normal, rise, reach)
    assert (found - theta).abs().max() <= reach + 1e-12
    assert ((x + found >= -1e-12) & (x + found <= 1 + 1e-12)).all()
    expected = by_program(*(value[0].numpy() for value in (x, theta, normal)), float(rise), float(reach))
    risen = float((normal * (found - theta)).sum())
    if expected is None:
        low, high = torch.maximum(-x, theta - reach), torch.minimum(1 - x, theta + reach)
        assert risen == pytest.approx(float(torch.maximum(normal * low, normal * high).sum() - (normal * theta).sum()))
    else:
        assert risen >= float(rise) - 1e-9
        assert float(found.abs().sum()) == pytest.approx(expected, abs=1e-6)


def test_of_a_linear_network_it_finds_the_smallest_example() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2, dtype=torch.float64))
    x = torch.rand(8, 1, 4, 4, dtype=torch.float64)
    data = (x, net(x).argmax(1))
    run = AttackRun(BrendelBethge(20), "margin")
    found = ra.evaluate(net, data, bounded("l1", run), search="minimum", progress=False)
    exact = ra.certify(net, data, ["l1"], progress=False).certified_size("l1")
    np.testing.assert_allclose(found.minimal_size("l1"), exact, rtol=1e-3)


def test_from_an_example_it_only_needs_what_is_near() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 3)).double()
    x = torch.rand(8, 1, 4, 4, dtype=torch.float64)
    task = problem(L1(), x, net(x).argmax(1), np.inf)
    far = (torch.rand(x.shape, dtype=torch.float64) - x) * 0.9
    walked = iterates(net, BrendelBethge(30, reach=0.2), "margin", task, far)
    fooled = walked[0].fooled
    assert fooled.any()
    assert (smallest(walked) < 0.5 * walked[0].size)[fooled].all()
