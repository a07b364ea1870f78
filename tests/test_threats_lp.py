"""The lp sets: projections and hyperplanes against AutoAttack's numbers, scipy, and their own properties."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from helpers_core import THREATS, distance_to_halfspace
from robustatlas.common.noise import Noise
from robustatlas.threats.base import per_sample
from robustatlas.threats.lp import L1, L2, Linf, clip_to_box, norm, project_l1_ball

GOLDENS = np.load(Path(__file__).parent / "goldens" / "lp.npz")
NAMES = list(THREATS)
SAMPLES = 4
_SLACK = 1e-9


def images() -> Tensor:
    return torch.as_tensor(GOLDENS["x_uint8"]).float() / 255


def golden(name: str) -> Tensor:
    return torch.as_tensor(GOLDENS[name])


@pytest.mark.parametrize(("case", "epsilon"), [("l1proj", 12.0), ("l1proj2", 3.0)])
def test_l1_projection_is_autoattacks(case: str, epsilon: float) -> None:
    key = next(k for k in GOLDENS.files if k.startswith(f"{case}_correction"))
    delta = golden(f"{case}_delta_in")
    found = L1().project(images(), delta, torch.full((4,), epsilon))
    torch.testing.assert_close(found, delta + golden(key), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
def test_hyperplane_is_fabs_projection(name: str) -> None:
    x, w, b = images(), golden("fab_w"), golden("fab_b")
    rise = b - (w * x.flatten(1)).sum(1)
    found = THREATS[name].hyperplane(x, torch.zeros_like(x), w.view_as(x), rise)
    torch.testing.assert_close(found.flatten(1), golden(f"fab_d_{name}"), atol=2e-5, rtol=0)


def test_linear_oracle_is_the_first_frank_wolfe_step() -> None:
    """The golden is in units of 255, with a budget of .5078125 a coordinate."""
    x = images()
    found = L1().linear_oracle(x, torch.zeros_like(x), golden("fw_grad"), torch.full((4,), 0.5078125 * 3072 / 255))
    golden_delta = golden("fw_delta_after1") / 255
    # The original halves an interval 17 times, so that the last, partly moved coordinate may differ.
    assert float(((found - golden_delta).abs() > 1e-4).flatten(1).sum(1).max()) <= 1
    torch.testing.assert_close(norm(found, 1), norm(golden_delta, 1), rtol=1e-4, atol=0)


def draw(seed: int, dimensions: int) -> tuple[Tensor, Tensor, Tensor]:
    """x in the box with some coordinates on its border, any theta, and positive epsilons."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(SAMPLES, dimensions))
    x[rng.uniform(size=x.shape) < 0.2] = rng.integers(2)
    theta = rng.normal(size=x.shape) * 10.0 ** rng.integers(-3, 2)
    epsilon = 10.0 ** rng.uniform(-3, 1.5, size=SAMPLES)
    return torch.as_tensor(x), torch.as_tensor(theta), torch.as_tensor(epsilon)


cases = given(name=st.sampled_from(NAMES), seed=st.integers(0, 10**6), dimensions=st.integers(1, 24))


@cases
def test_projection_is_inside_and_idempotent(name: str, seed: int, dimensions: int) -> None:
    threat = THREATS[name]
    x, theta, epsilon = draw(seed, dimensions)
    once = threat.project(x, theta, epsilon)
    assert bool((threat.size(x, once) <= epsilon * (1 + _SLACK)).all())
    assert bool((x + once >= -1e-12).all() and (x + once <= 1 + 1e-12).all())
    torch.testing.assert_close(threat.project(x, once, epsilon), once, rtol=1e-9, atol=1e-12)


@cases
def test_projection_leaves_a_point_of_the_set(name: str, seed: int, dimensions: int) -> None:
    threat = THREATS[name]
    x, theta, epsilon = draw(seed, dimensions)
    inside = threat.project(x, theta, epsilon)
    torch.testing.assert_close(threat.project(x, inside, 2 * epsilon), inside, rtol=1e-9, atol=1e-12)


@cases
def test_starts_are_in_the_set(name: str, seed: int, dimensions: int) -> None:
    threat = THREATS[name]
    x, _, epsilon = draw(seed, dimensions)
    theta = threat.start(x, epsilon, Noise.for_samples(seed, torch.arange(SAMPLES), name))
    assert bool((threat.size(x, theta) <= epsilon * (1 + _SLACK)).all())
    assert bool((x + theta >= -1e-12).all() and (x + theta <= 1 + 1e-12).all())


@pytest.mark.parametrize(
    "threat", [Linf(starts="volume"), L2(starts="volume"), L2(starts="radial"), L1(starts="volume")], ids=repr
)
def test_other_starts_are_in_the_set_too(threat: Linf | L2 | L1) -> None:
    x, _, epsilon = draw(0, 24)
    theta = threat.start(x, epsilon, Noise.for_samples(0, torch.arange(SAMPLES), "s"))
    assert bool((threat.size(x, theta) <= epsilon * (1 + _SLACK)).all())
    assert bool((theta != 0).any())


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
def test_surface_starts_are_on_the_surface(name: str) -> None:
    x, epsilon = torch.full((50, 100), 0.5), torch.full((50,), 0.25)
    size = THREATS[name].size(x, THREATS[name].start(x, epsilon, Noise.for_samples(0, torch.arange(50), "s")))
    torch.testing.assert_close(size, epsilon, rtol=1e-5, atol=0)


@cases
def test_neutral_is_the_identity(name: str, seed: int, dimensions: int) -> None:
    threat = THREATS[name]
    x, _, epsilon = draw(seed, dimensions)
    theta = threat.neutral(x)
    assert torch.equal(threat.apply(x, theta), x)
    assert bool((threat.size(x, theta) == 0).all())
    assert torch.equal(threat.project(x, theta, epsilon), theta)


@cases
def test_samples_do_not_see_each_other(name: str, seed: int, dimensions: int) -> None:
    threat = THREATS[name]
    x, theta, epsilon = draw(seed, dimensions)
    whole = threat.project(x, theta, epsilon)
    plane = threat.hyperplane(x, whole, theta, epsilon)
    for i in range(SAMPLES):
        one = slice(i, i + 1)
        alone = threat.project(x[one], theta[one], epsilon[one])
        torch.testing.assert_close(alone, whole[one], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(
            threat.hyperplane(x[one], whole[one], theta[one], epsilon[one]), plane[one], rtol=1e-9, atol=1e-12
        )


@cases
def test_hyperplane_reaches_the_plane_or_the_corner_by_the_shortest_way(name: str, seed: int, dimensions: int) -> None:
    threat = THREATS[name]
    x, _theta, _epsilon = draw(seed, dimensions)
    rng = np.random.default_rng(seed + 1)
    w = torch.as_tensor(rng.normal(size=x.shape) * (rng.uniform(size=x.shape) < 0.8))
    rise = torch.as_tensor(rng.normal(size=SAMPLES)) * w.abs().sum(1) * 0.4
    d = threat.hyperplane(x, torch.zeros_like(x), w, rise)
    reached = (w * d).sum(1)
    toward = w * torch.where(rise < 0, -1.0, 1.0)[:, None]
    room = torch.where(toward > 0, 1 - x, torch.where(toward < 0, x, 0.0))
    most = (toward.abs() * room).sum(1)
    assert bool((x + d >= -1e-12).all() and (x + d <= 1 + 1e-12).all())
    torch.testing.assert_close(reached.abs(), torch.minimum(most, rise.abs()), rtol=1e-8, atol=1e-10)
    size = threat.size(x, d).numpy()
    for i in range(SAMPLES):
        exact = distance_to_halfspace(toward[i].numpy(), abs(float(rise[i])), x[i].numpy(), threat.p)
        if np.isfinite(exact) and rise[i] != 0:
            assert size[i] == pytest.approx(exact, rel=1e-6, abs=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), dimensions=st.integers(2, 8))
def test_l1_projection_is_the_nearest_point(seed: int, dimensions: int) -> None:
    """Against a general optimiser: no point of the set is nearer."""
    x, theta, epsilon = draw(seed, dimensions)
    found = L1().project(x, theta, epsilon)
    for i in range(SAMPLES):
        point, goal, radius = x[i].numpy(), theta[i].numpy(), float(epsilon[i])
        parts = np.r_[np.maximum(found[i].numpy(), 0), np.maximum(-found[i].numpy(), 0)]  # positive and negative part
        n = dimensions
        solved = minimize(
            lambda v, goal=goal, n=n: ((v[:n] - v[n:] - goal) ** 2).sum(),
            parts * 0.5,
            bounds=[(0, r) for r in np.r_[1 - point, point]],
            constraints={"type": "ineq", "fun": lambda v, radius=radius: radius - v.sum()},
            method="SLSQP",
        )
        ours = float(((found[i].numpy() - goal) ** 2).sum())
        assert ours <= solved.fun * (1 + 1e-6) + 1e-8


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    dimensions=st.integers(2, 800),
    share=st.floats(1e-5, 1),
    spread=st.sampled_from([0.0, 1.0, 3.0]),
    room=st.sampled_from([0.0, 0.01, 1.0]),
)
def test_l1_projection_is_that_of_a_bisection(
    seed: int, dimensions: int, share: float, spread: float, room: float
) -> None:
    """The common shrinkage in float64, by halving an interval that contains it."""
    torch.manual_seed(seed)
    values = torch.randn(SAMPLES, dimensions) * (spread * torch.randn(SAMPLES, dimensions)).exp()
    cap = room * torch.rand(SAMPLES, dimensions) * (torch.rand(SAMPLES, dimensions) < 0.7)
    radius = share * torch.minimum(values.abs(), cap).sum(1)
    found = project_l1_ball(values, radius, cap)
    size, bound = values.abs().double(), cap.double()
    low, high = torch.zeros(SAMPLES, dtype=torch.float64), size.amax(1)
    for _ in range(80):
        middle = (low + high) / 2
        remains = torch.minimum((size - middle[:, None]).clamp_min(0), bound).sum(1)
        low, high = torch.where(remains > radius, middle, low), torch.where(remains > radius, high, middle)
    expected = values.sign() * torch.minimum((size - high[:, None]).clamp_min(0), bound)
    largest = values.abs().amax(1, keepdim=True)
    assert bool(((found - expected).abs() <= 16 * torch.finfo(values.dtype).eps * largest).all())


def test_l1_ball_without_caps() -> None:
    """Duchi et al. 2008: soft thresholding; here by 1.25."""
    values = torch.tensor([[3.0, -2.0, 0.5, 1.0]])
    found = project_l1_ball(values, torch.tensor([2.5]))
    torch.testing.assert_close(found, torch.tensor([[1.75, -0.75, 0.0, 0.0]]))
    torch.testing.assert_close(project_l1_ball(values, torch.tensor([6.5])), values)


@pytest.mark.parametrize("name", NAMES)
def test_zero_epsilon_leaves_only_the_clean_point(name: str) -> None:
    x, theta, _ = draw(3, 10)
    zero = torch.zeros(SAMPLES, dtype=torch.float64)
    torch.testing.assert_close(THREATS[name].project(x, theta, zero), torch.zeros_like(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_infinite_epsilon_leaves_the_box(name: str) -> None:
    x, theta, _ = draw(3, 10)
    endless = torch.full((SAMPLES,), torch.inf, dtype=torch.float64)
    torch.testing.assert_close(THREATS[name].project(x, theta, endless), clip_to_box(x, theta))


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
def test_a_steepest_step_of_epsilon_crosses_the_set_once(name: str) -> None:
    threat, gradient = THREATS[name], torch.randn(SAMPLES, 40, dtype=torch.float64)
    direction = threat.steepest(gradient, gradient)
    torch.testing.assert_close(norm(direction, threat.p), torch.ones(SAMPLES, dtype=torch.float64))
    assert bool(((direction * gradient).flatten(1).sum(1) > 0).all())


@pytest.mark.parametrize("name", NAMES)
def test_steepest_of_a_zero_gradient_is_zero(name: str) -> None:
    assert bool((THREATS[name].steepest(torch.zeros(2, 5), torch.zeros(2, 5)) == 0).all())


def test_l0_keeps_the_largest_changes() -> None:
    x = torch.full((2, 4), 0.5)
    theta = torch.tensor([[0.1, -0.4, 0.3, 0.2]]).repeat(2, 1)
    found = THREATS["l0"].project(x, theta, torch.tensor([2.0, 3.9]))
    expected = torch.tensor([[0.0, -0.4, 0.3, 0.0], [0.0, -0.4, 0.3, 0.2]])
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept(name: str, dtype: torch.dtype) -> None:
    threat = THREATS[name]
    x, theta, epsilon = (part.to(dtype) for part in draw(1, 12))
    noise = Noise.for_samples(0, torch.arange(SAMPLES), "d")
    for made in (
        threat.project(x, theta, epsilon),
        threat.start(x, epsilon, noise),
        threat.steepest(x, theta),
        threat.hyperplane(x, torch.zeros_like(x), theta, epsilon),
        threat.size(x, theta),
        threat.apply(x, theta),
    ):
        assert made.dtype == dtype


def test_the_box_does_not_hide_gradients() -> None:
    x = torch.tensor([[0.0, 1.0, 0.5]])
    theta = torch.zeros(1, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(Linf().apply(x, theta).sum(), theta)
    assert gradient.tolist() == [[1.0, 1.0, 1.0]]


def test_float32_projections_stay_inside_within_the_tolerance_of_the_engine() -> None:
    torch.manual_seed(0)
    x = torch.rand(8, 3, 32, 32)
    for name, epsilon in (("linf", 8 / 255), ("l2", 0.5), ("l1", 12.0)):
        bound = torch.full((8,), epsilon)
        size = THREATS[name].size(x, THREATS[name].project(x, torch.randn_like(x), bound))
        assert bool((size <= bound * (1 + 1e-5)).all()), name


def test_hyperplane_from_a_point_of_the_box() -> None:
    """The move starts at x + theta, not at x."""
    x, theta = torch.full((1, 2), 0.5, dtype=torch.float64), torch.tensor([[0.4, 0.0]], dtype=torch.float64)
    normal = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    d = Linf().hyperplane(x, theta, normal, torch.tensor([0.5], dtype=torch.float64))
    torch.testing.assert_close(d, torch.tensor([[0.1, 0.4]], dtype=torch.float64))
    assert per_sample(torch.ones(1), d).shape == (1, 1)
