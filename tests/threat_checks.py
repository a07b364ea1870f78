"""What every threat model owes its users, written once for all families."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.bundle import Tree, free, gradient, over, take, watched
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel


@cache
def goldens() -> dict[str, Tensor]:
    """Input and output pairs of the original implementations (four CIFAR-10 test images)."""
    with np.load(Path(__file__).parent / "goldens" / "uar.npz") as archive:
        return {name: torch.from_numpy(archive[name]) for name in archive.files}


def golden_images() -> Tensor:
    return goldens()["x_uint8"].permute(0, 3, 1, 2).float() / 255


def random_images(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def noise_for(x: Tensor, first: int = 0) -> Noise:
    return Noise.of(seed=0, indices=torch.arange(first, first + len(x)), purpose="test")


def normal_like(theta: Tree, noise: Noise) -> Tree:
    return over(lambda leaf: noise.normal(*leaf.shape[1:], dtype=leaf.dtype), theta)


def assert_close(actual: Tree, expected: Tree, rtol: float, atol: float) -> None:
    """Two equally built trees agree (fixed numbers exactly enough too)."""
    for a, b in zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def random_theta(threat: ThreatModel, x: Tensor, epsilon: Tensor, spread: float = 3.0) -> Tree:
    """A point that usually lies outside the set of size ``epsilon``: a start moved by a random step."""
    theta = threat.start(x, epsilon, noise_for(x))
    step = threat.steepest(x, normal_like(theta, noise_for(x).child(1)))
    return threat.move(x, theta, step, spread * epsilon)


def degenerate_images(channels: int, height: int, width: int) -> Tensor:
    shape = (channels, height, width)
    return torch.stack([torch.zeros(shape), torch.ones(shape), torch.full(shape, 0.5), random_images(*shape)])


def assert_neutral_is_identity(threat: ThreatModel, x: Tensor) -> None:
    neutral = threat.neutral(x)
    assert all(leaf.dtype == x.dtype and len(leaf) == len(x) for leaf in pytree.tree_leaves(neutral))
    assert torch.equal(threat.apply(x, neutral), x)
    assert torch.equal(threat.size(x, neutral), torch.zeros(len(x), dtype=x.dtype))
    nothing = torch.zeros(len(x), dtype=x.dtype)
    assert torch.equal(threat.apply(x, threat.start(x, nothing, noise_for(x))), x)


def assert_projection_agrees_with_size(
    threat: ThreatModel, x: Tensor, epsilon: Tensor, tolerance: float = 1e-5
) -> None:
    theta = random_theta(threat, x, epsilon)
    projected = threat.project(x, theta, epsilon)
    assert all(leaf.dtype == x.dtype for leaf in pytree.tree_leaves(projected))
    assert (threat.size(x, projected) <= epsilon * (1 + tolerance)).all()
    again, atol = threat.project(x, projected, epsilon), tolerance * float(epsilon.max())
    assert_close(again, projected, tolerance, atol)
    # A point stays in every larger set (nested), and leaves where epsilon falls below its size.
    assert_close(free(threat.project(x, projected, 2 * epsilon)), free(projected), tolerance, atol)
    size = threat.size(x, projected)
    assert (threat.size(x, threat.project(x, projected, size / 2)) <= size / 2 * (1 + tolerance)).all()
    start = threat.start(x, epsilon, noise_for(x))
    assert (threat.size(x, start) <= epsilon * (1 + tolerance)).all()
    assert_close(threat.project(x, start, epsilon), start, tolerance, atol)


def assert_independent_of_batch(threat: ThreatModel, x: Tensor, epsilon: Tensor) -> None:
    """Every method gives a sample the same result alone and in company (float64: no sign hangs on rounding)."""
    x, epsilon = x.double(), epsilon.double()

    def results(index: slice) -> list[Tree]:
        images, radius, noise = x[index], epsilon[index], noise_for(x)
        noise = Noise(noise.keys[index])
        start = threat.start(images, radius, noise)
        leaf = watched(start)
        output = threat.apply(images, leaf)
        weights = random_images(*output.shape[1:], dtype=x.dtype) - 0.5
        step = threat.steepest(images, gradient(output * weights, leaf))
        moved = threat.move(images, start, step, radius / 2)
        projected = threat.project(images, moved, radius)
        return [start, output.detach(), projected, threat.apply(images, projected), threat.size(images, projected)]

    together = results(slice(None))
    for number in range(len(x)):
        alone = results(slice(number, number + 1))
        for a, b in zip(pytree.tree_leaves(alone), pytree.tree_leaves(together), strict=True):
            torch.testing.assert_close(a, b[number : number + 1], rtol=1e-4, atol=1e-5)


def assert_finite_everywhere(threat: ThreatModel, x: Tensor, epsilons: tuple[float, ...]) -> None:
    """In [0, 1] and without NaN, gradient included, at the start and after steps in random directions."""
    threat.check(x)
    for value in epsilons:
        epsilon = torch.full((len(x),), value, dtype=x.dtype)
        theta = threat.start(x, epsilon, noise_for(x))
        for number in range(3):
            leaf = watched(theta)
            output = threat.apply(x, leaf)
            assert output.shape == x.shape
            assert output.dtype == x.dtype
            assert (output >= 0).all()
            assert (output <= 1).all()
            weights = noise_for(x).child(number).normal(*x.shape[1:], dtype=x.dtype)
            slope = gradient(output * weights, leaf)
            assert all(torch.isfinite(part).all() for part in free(slope))
            theta = threat.project(x, threat.move(x, theta, threat.steepest(x, slope), epsilon / 2), epsilon)
            assert all(torch.isfinite(part).all() for part in pytree.tree_leaves(theta))
            assert not threat.size(x, theta).isnan().any()
    assert threat.apply(x, threat.neutral(x)).isfinite().all()


def assert_step_crosses_the_set(threat: ThreatModel, x: Tensor, epsilon: Tensor, tolerance: float = 1e-4) -> None:
    """A step of length epsilon from the centre ends on the border."""
    theta = threat.neutral(x)
    direction = threat.steepest(x, normal_like(theta, noise_for(x)))
    end = threat.project(x, threat.move(x, theta, direction, epsilon), epsilon)
    torch.testing.assert_close(threat.size(x, end), epsilon, rtol=tolerance, atol=0)


def ascend(threat: ThreatModel, x: Tensor, target: Tensor, epsilon: Tensor, steps: int = 10) -> Tensor:
    """Projected steepest ascent of the inner product with ``target``; returns the gains ``[steps + 1, B]``."""
    theta = threat.start(x, epsilon, noise_for(x))
    gains = []
    for _ in range(steps + 1):
        leaf = watched(theta)
        gain = ((threat.apply(x, leaf) - x) * target).flatten(1).sum(1)
        gains.append(gain.detach())
        direction = threat.steepest(x, gradient(gain, leaf))
        theta = threat.project(x, threat.move(x, theta, direction, epsilon / 4), epsilon)
    return torch.stack(gains)


def assert_choice_is_of_the_sample(threat: ThreatModel, x: Tensor, gradient: Tensor, noise: Noise) -> None:
    """What is chosen for a sample does not depend on the others."""
    alone = torch.tensor([1])
    together = take(threat.choose(x, gradient, noise), alone)
    single = threat.choose(x[alone], gradient[alone], noise.take(alone))
    for one, other in zip(pytree.tree_leaves(together), pytree.tree_leaves(single), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
