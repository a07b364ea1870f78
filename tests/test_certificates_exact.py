"""Certificates and attacks against exact sizes of ReLU networks with two inputs, found by brute force."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import benchmark
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named

NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
STEPS = 301


def _plane_network(seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network with several classes on the unit square, and points that it classifies as the labels say."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(3)
        net[-1].bias -= net(torch.rand(500, 2)).mean(0)
        x = torch.rand(6, 2)
        y = net(x).argmax(1)
    assert len(y.unique()) > 1
    return net, x, y


def _exact_sizes(net: nn.Module, x: Tensor, y: Tensor, attack: str) -> Tensor:
    sizes = benchmark("brute_force").exact_sizes(net, x.double().numpy(), y.numpy(), NORMS[attack])
    return torch.from_numpy(sizes)


@pytest.mark.parametrize("attack", NORMS)
def test_brute_force_is_what_a_grid_of_the_square_shows(attack: str) -> None:
    net, x, y = _plane_network(1)
    lines = [torch.linspace(0, 1, STEPS, dtype=torch.float64)] * 2
    grid = torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).view(-1, 2)
    with torch.no_grad():
        mistaken = net.double()(grid).argmax(1) != y[:, None]
    distance = torch.where(mistaken, torch.cdist(x.double(), grid, p=NORMS[attack]), torch.inf).amin(1)
    apart = {"linf": 1.0, "l2": 2**0.5, "l1": 2.0}[attack] / (STEPS - 1)
    exact = _exact_sizes(net, x, y, attack)
    assert (exact <= distance).all()
    assert (exact >= distance - apart).all()


@pytest.mark.parametrize("attack", NORMS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_certified_sizes_are_never_above_exact_ones(attack: str, seed: int) -> None:
    net, x, y = _plane_network(seed)
    exact, subject = _exact_sizes(net, x, y, attack), Subject(ra.Classifier(net), (2,))
    for method in ("interval", "crown"):
        samples = Samples(x.double(), y, torch.arange(len(x)))
        sizes = certificate_named(method).sizes(subject, attack_named(attack), samples)
        assert (sizes <= exact).all(), method
        assert (sizes > 0).all(), method


def test_attacks_come_near_exact_sizes_and_are_never_below() -> None:
    net, x, y = _plane_network(1)
    result = ra.evaluate(net, (x, y), [*NORMS], progress=False, diagnose=False, audit=0)
    for attack in NORMS:
        found, exact = result.minimal_size(attack), _exact_sizes(net, x, y, attack).numpy()
        assert (found >= exact * (1 - 1e-5)).all()
        assert np.median(found / exact) < 1.005
