"""Certificates and attacks against exact sizes of ReLU networks with two inputs, found by brute force."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import benchmark
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, activations, certificate_named
from robustatlas.certificates.activations import Activation

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


def _nearest_sides(function: Activation, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Return how high a line below a function, and how low a line above it, can be in the middle of intervals [K]: as
    the function's convex and concave hulls are there, by all chords over the middle between points of a grid."""
    middle, share = (low + high) / 2, torch.linspace(0, 1, 121, dtype=torch.float64)[:, None]

    def points(start: Tensor, end: Tensor) -> Tensor:
        bent = [side.clamp(-8, 8).maximum(start).minimum(end) for side in (start, end)]
        return torch.cat([a + (b - a) * share for a, b in ((start, end), bent)])

    left, right = points(low, middle), points(middle, high)
    width = right[None] - left[:, None]
    at_left, at_right, here = (function.function(each) for each in (left, right, middle))
    chords = at_left[:, None] + (middle - left)[:, None] / width * (at_right[None] - at_left[:, None])
    lowest = torch.where(width > 1e-12, chords, torch.inf).amin((0, 1))
    highest = torch.where(width > 1e-12, chords, -torch.inf).amax((0, 1))
    return torch.minimum(lowest, here), torch.maximum(highest, here)


SMOOTH = {
    "sigmoid": activations.SIGMOID, "tanh": activations.TANH, "silu": activations.SILU, "mish": activations.MISH,
    "gelu": activations.gelu(), "gelu by tanh": activations.gelu("tanh"), "elu": activations.elu(),
    "softplus": activations.softplus(), "hardswish": activations.HARD_SWISH,
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_lines_of_smooth_activations_are_nearly_as_close_as_lines_can_be(name: str) -> None:
    torch.manual_seed(0)
    centre, width = 3 * torch.randn(100).double(), 10 ** (3 * torch.rand(100).double() - 1)
    low, high = centre - width, centre + width
    lines, (below, above) = SMOOTH[name].lines(low, high), _nearest_sides(SMOOTH[name], low, high)
    at_middle = (lines.lower_A * centre + lines.lower_bias, lines.upper_A * centre + lines.upper_bias)
    assert (at_middle[0] <= below + 1e-9).all() and (at_middle[1] >= above - 1e-9).all()
    bent = above - below > 1e-3
    assert bent.sum() > 50
    assert ((at_middle[1] - at_middle[0]) / (above - below))[bent].median() < 1.05


def test_marabou_proves_below_exact_sizes_and_refutes_above() -> None:
    pytest.importorskip("maraboupy")
    net, x, y = _plane_network(1)
    for point, label, size in zip(x.double(), y, _exact_sizes(net, x, y, "linf"), strict=True):
        for share, decision in ((0.99, "proven"), (1.01, "refuted")):
            low, high = (point - share * size).clamp_min(0), (point + share * size).clamp_max(1)
            assert benchmark("marabou").decide(net, low, high, int(label), 60.0).decision == decision
