"""Whole evaluations of linear classifiers against their true minimal sizes, computed by scipy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import robustatlas as ra
from helpers_core import P, exact_sizes, linear

SAMPLES, DIMENSIONS, CLASSES = 40, 30, 4
Linear = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def classifier(room: float, seed: int = 0) -> Linear:
    """Weights, biases, points at least ``room`` away from 0 and 1, and labels: the classes found, one in ten wrong."""
    draw = np.random.default_rng(seed)
    weight, bias = draw.normal(size=(CLASSES, DIMENSIONS)), draw.normal(size=CLASSES)
    x = draw.uniform(room, 1 - room, size=(SAMPLES, DIMENSIONS))
    y = (x @ weight.T + bias).argmax(1)
    y[::10] = (y[::10] + 1) % CLASSES
    return weight, bias, x, y


@pytest.mark.parametrize("room", [0.4, 0.0], ids=["box-far", "box-near"])
@pytest.mark.parametrize("name", ["linf", "l2", "l1", "l0"])
def test_descent_finds_the_true_sizes(name: str, room: float) -> None:
    weight, bias, x, y = classifier(room)
    true = exact_sizes(weight, bias, x, y, P[name])
    strengths = {name: np.quantile(true[true > 0], np.linspace(0.1, 0.9, 9)).tolist()}
    if name == "l0":
        strengths = {name: [1.0, 2.0, 3.0, 5.0, 8.0]}
    result = ra.evaluate(linear(weight, bias), (torch.as_tensor(x), torch.as_tensor(y)), name, strengths=strengths)
    found = result.minimal_size(name)
    np.testing.assert_array_equal(found == 0, true == 0)
    assert (found >= true * (1 - 1e-9)).all()
    np.testing.assert_allclose(found, true, rtol=1e-3)
    assert_strengths(result.outcome(name).minimal_strength, true, strengths[name])


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
def test_bisection_finds_the_true_strengths(name: str) -> None:
    weight, bias, x, y = (part[:12] for part in classifier(0.0))
    true = exact_sizes(weight, bias, x, y, P[name])
    strengths = {name: np.quantile(true[true > 0], [0.3, 0.6, 0.9]).tolist()}
    data = (torch.as_tensor(x), torch.as_tensor(y))
    result = ra.evaluate(linear(weight, bias), data, name, strengths=strengths, search="bisection")
    # AutoAttack's own FAB overshoots by 5 % and mixes; its 100 iterations stay up to 1 % outside.
    assert_strengths(result.outcome(name).minimal_strength, true, strengths[name], precision=0.01)


def assert_strengths(
    found: NDArray[np.float64], true: NDArray[np.float64], strengths: list[float], precision: float = 1e-3
) -> None:
    """Each sample falls at the first strength that is its true size or more, where they differ by ``precision``."""
    grid = np.array(strengths)
    expected = np.append(grid, np.inf)[np.searchsorted(grid, true)]
    expected[true == 0] = 0
    clear = (np.abs(true[:, None] / grid - 1) > precision).all(1) | (grid == np.round(grid)).all()
    np.testing.assert_array_equal(found[clear], expected[clear])


def test_unboxed_sizes_are_the_dual_norms() -> None:
    """Far from the border, min over k of gap_k / ||w_k - w_y||_q."""
    weight, bias, x, y = classifier(0.49)
    bias -= weight.sum(1) / 2 - 0.01 * bias
    y = (x @ weight.T + bias).argmax(1)
    logits = x @ weight.T + bias
    for name, dual in (("linf", 1), ("l2", 2), ("l1", np.inf)):
        norms = np.linalg.norm(weight[None] - weight[y][:, None], dual, axis=2)
        gaps = logits[np.arange(len(y)), y][:, None] - logits
        true = np.where(norms > 0, gaps / np.where(norms > 0, norms, 1), np.inf).min(1)
        result = ra.evaluate(linear(weight, bias), (torch.as_tensor(x), torch.as_tensor(y)), name,
                             strengths={name: [float(np.median(true))]})  # fmt: skip
        inside = true < 0.4
        assert inside.mean() > 0.9
        np.testing.assert_allclose(result.minimal_size(name)[inside], true[inside], rtol=1e-3)


def test_two_and_three_classes() -> None:
    """The targeted DLR of AutoAttack needs four classes; ours is defined for two and three as well."""
    for classes in (2, 3):
        weight, bias, x, y = classifier(0.0)
        weight, bias, x = weight[:classes], bias[:classes], x[:16]
        y = (x @ weight.T + bias).argmax(1)
        true = exact_sizes(weight, bias, x, y, np.inf)
        strengths = {"linf": [float(np.sort(true)[7:9].mean())]}
        data = (torch.as_tensor(x), torch.as_tensor(y))
        for search in ("descent", "bisection"):
            result = ra.evaluate(linear(weight, bias), data, "linf", strengths=strengths, search=search)
            assert result.accuracies().values("linf").tolist() == [50]


def test_a_scan_ends_where_mistakes_begin() -> None:
    images = 0.4 + 0.2 * torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    images = images - images.mean((1, 2, 3), keepdim=True) + torch.linspace(0.35, 0.65, 8).view(-1, 1, 1, 1)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    weight, bias = torch.stack([torch.full((16,), 8.0), torch.zeros(16)]), torch.tensor([0.0, 64.0])
    net.load_state_dict({"1.weight": weight, "1.bias": bias})
    labels = (images.mean((1, 2, 3)) < 0.5).long()
    result = ra.evaluate(net, (images, labels), "brightness", progress=False)
    exact = (images.mean((1, 2, 3)) - 0.5).abs().double().numpy()  # nothing is clipped
    found = result.minimal_size("brightness")
    assert (found >= exact * (1 - 1e-5)).all()
    np.testing.assert_allclose(found, exact, rtol=1.1e-3)
