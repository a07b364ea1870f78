"""Objectives: the definitions of their papers, numbers of AutoAttack's code, and few classes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from robustatlas.models.objectives import (
    OBJECTIVES,
    cross_entropy,
    dlr,
    log_margin,
    margin,
    margin_of,
    probability_margin,
)

GOLDENS = np.load(Path(__file__).parent / "goldens" / "lp.npz")


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.as_tensor(GOLDENS["logits"])


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.as_tensor(GOLDENS["labels"])


def test_dlr_is_autoattacks(logits: torch.Tensor, labels: torch.Tensor) -> None:
    np.testing.assert_allclose(dlr(logits, labels, None), GOLDENS["dlr"], rtol=1e-5)


def test_targeted_dlr_is_autoattacks(logits: torch.Tensor, labels: torch.Tensor) -> None:
    """The golden takes the class of second highest logit as target."""
    target = logits.topk(2).indices[:, 1]
    np.testing.assert_allclose(dlr(logits, labels, target), GOLDENS["dlr_t_2nd"], rtol=1e-5)


def test_margin_by_hand() -> None:
    z, y = torch.tensor([[2.0, 0.5, 1.0], [0.0, 3.0, 1.0]]), torch.tensor([0, 2])
    assert margin(z, y, None).tolist() == [-1.0, 2.0]
    assert margin(z, y, torch.tensor([1, 0])).tolist() == [-1.5, -1.0]
    assert margin_of(z, y).tolist() == [1.0, -2.0]


def test_probability_margin_is_the_margin_of_the_softmax(logits: torch.Tensor, labels: torch.Tensor) -> None:
    p = np.exp(GOLDENS["logits"]) / np.exp(GOLDENS["logits"]).sum(1, keepdims=True)
    own = p[np.arange(4), GOLDENS["labels"]]
    p[np.arange(4), GOLDENS["labels"]] = -1
    np.testing.assert_allclose(probability_margin(logits, labels, None), p.max(1) - own, rtol=1e-4, atol=1e-7)


def test_log_margin_is_the_logarithm_and_keeps_its_gradient(logits: torch.Tensor, labels: torch.Tensor) -> None:
    wide = logits.double()
    for targets in (None, (labels + 1) % wide.shape[1]):
        expected = torch.log1p(probability_margin(wide, labels, targets))
        torch.testing.assert_close(log_margin(wide, labels, targets), expected)
    certain = torch.tensor([[60.0, 0.0, -3.0]], requires_grad=True)
    log_margin(certain, torch.tensor([0]), None).backward()
    assert certain.grad is not None and certain.grad[0].tolist() == pytest.approx([-1, 1, 0], abs=0.03)


def test_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> None:
    expected = np.log(np.exp(GOLDENS["logits"]).sum(1)) - GOLDENS["logits"][np.arange(4), GOLDENS["labels"]]
    np.testing.assert_allclose(cross_entropy(logits, labels, None), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(cross_entropy(logits, labels, labels), -expected, rtol=1e-4, atol=1e-6)


def test_dlr_does_not_change_with_scale_and_shift(logits: torch.Tensor, labels: torch.Tensor) -> None:
    for targets in (None, (labels + 1) % 10):
        value = dlr(logits.double(), labels, targets)
        torch.testing.assert_close(dlr(5 * logits.double() + 3, labels, targets), value)


def test_dlr_with_three_classes_uses_the_third_logit() -> None:
    z, y = torch.tensor([[3.0, 1.0, -1.0]]), torch.tensor([0])
    assert dlr(z, y, None).item() == pytest.approx(-0.5)
    assert dlr(z, y, torch.tensor([2])).item() == pytest.approx(-1.0)


def test_dlr_with_two_classes_is_the_margin() -> None:
    z, y = torch.tensor([[3.0, 1.0]]), torch.tensor([0])
    assert dlr(z, y, None).item() == -2.0
    assert dlr(z, y, torch.tensor([1])).item() == -2.0


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("targeted", [False, True])
def test_finite_with_finite_gradient(name: str, classes: int, targeted: bool) -> None:
    torch.manual_seed(0)
    z = torch.randn(6, classes, dtype=torch.float64)
    z[0] = 0.0  # ties everywhere
    z.requires_grad_()
    y = torch.arange(6) % classes
    value = OBJECTIVES[name](z, y, (y + 1) % classes if targeted else None)
    (slope,) = torch.autograd.grad(value.sum(), z)
    assert value.shape == (6,) and value.isfinite().all() and slope.isfinite().all()


@pytest.mark.parametrize("name", ["margin", "dlr", "probability-margin"])
def test_positive_exactly_where_misclassified(name: str) -> None:
    torch.manual_seed(0)
    z, y = torch.randn(200, 5, dtype=torch.float64), torch.randint(5, (200,))
    assert torch.equal(OBJECTIVES[name](z, y, None) > 0, z.argmax(1) != y)
