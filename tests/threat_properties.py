"""What every sound threat model promises, checked on ordinary and on degenerate images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.bundle import Tree, dot, free, gradient, over, watched
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel

GOLDENS = Path(__file__).parent / "goldens"


def golden(name: str) -> Tensor:
    with np.load(GOLDENS / "spatial.npz") as arrays:
        return torch.as_tensor(arrays[name])


def golden_images(dtype: torch.dtype = torch.float32) -> Tensor:
    return golden("x_uint8").permute(0, 3, 1, 2).to(dtype).contiguous() / 255


def noise_for(x: Tensor, seed: int = 0) -> Noise:
    return Noise.of(seed, torch.arange(len(x), device=x.device), "test")


def images(
    count: int = 3, channels: int = 3, side: int = 12, dtype: torch.dtype = torch.float32, width: int | None = None
) -> Tensor:
    generator = torch.Generator().manual_seed(side + channels)
    x = torch.rand(count, channels, side, width or side, generator=generator, dtype=torch.float64)
    return ((x * 255).round() / 255).to(dtype)


def degenerate_images(channels: int = 3, side: int = 8, dtype: torch.dtype = torch.float32) -> Tensor:
    """Black, white, grey, one saturated colour, nearly black, and an image of zeros and ones."""
    x = torch.zeros(6, channels, side, side, dtype=dtype)
    x[1] = 1
    x[2] = 0.5
    x[3, 0] = 1
    x[4] = 1e-7
    x[5, :, ::2, ::2] = 1
    return x


def normal_like(theta: Tree, noise: Noise) -> Tree:
    return over(lambda leaf: noise.normal(*leaf.shape[1:], dtype=leaf.dtype), theta)


def moved(threat: ThreatModel, x: Tensor, strength: float, seed: int = 1) -> Tree:
    """A theta far beyond the border of the set."""
    epsilon = x.new_full((len(x),), strength)
    theta = threat.start(x, epsilon, noise_for(x, seed))
    direction = threat.steepest(x, normal_like(theta, noise_for(x, seed + 1)))
    return threat.move(x, theta, direction, 1.5 * epsilon)


def check_sound(threat: ThreatModel, x: Tensor, strength: float) -> None:
    """The promises of a sound set at strengths from 0 to ``strength``."""
    threat.check(x)
    neutral = threat.neutral(x)
    assert all(leaf.dtype == x.dtype and len(leaf) == len(x) for leaf in pytree.tree_leaves(neutral))
    assert torch.equal(threat.apply(x, neutral), x), "the neutral theta changes the image"
    assert torch.equal(threat.size(x, neutral), x.new_zeros(len(x)))

    zero = x.new_zeros(len(x))
    for at_zero in (threat.start(x, zero, noise_for(x)), threat.project(x, moved(threat, x, strength), zero)):
        assert torch.equal(threat.apply(x, at_zero), x), "the set of size 0 holds more than the image"

    epsilon = strength * torch.linspace(0.3, 1, len(x), dtype=x.dtype)
    start = threat.start(x, epsilon, noise_for(x))
    projected = threat.project(x, moved(threat, x, strength), epsilon)
    for theta in (start, projected):
        size = threat.size(x, theta)
        assert size.shape == (len(x),)
        assert (size <= epsilon * (1 + 1e-5)).all(), "outside of the set"
        result = threat.apply(x, theta)
        assert result.shape == x.shape and result.dtype == x.dtype
        assert (result >= 0).all() and (result <= 1).all()
        again = threat.project(x, theta, epsilon)
        torch.testing.assert_close(threat.apply(x, again), result, rtol=0, atol=1e-6)
        larger = threat.project(x, theta, 2 * epsilon)
        torch.testing.assert_close(threat.apply(x, larger), result, rtol=0, atol=1e-6)


def check_independent(threat: ThreatModel, x: Tensor, strength: float) -> None:
    """One sample alone gives what it gives in a batch."""
    epsilon = strength * torch.linspace(0.3, 1, len(x), dtype=x.dtype)

    def attack(x: Tensor, epsilon: Tensor, noise: Noise) -> tuple[Tree, Tensor, Tensor]:
        theta = watched(threat.start(x, epsilon, noise))
        slope = gradient(threat.apply(x, theta) * x.flip(-1), theta)
        theta = threat.move(x, watched(theta), threat.steepest(x, slope), epsilon)
        theta = threat.project(x, theta, epsilon)
        return theta, threat.apply(x, theta), threat.size(x, theta)

    together = attack(x, epsilon, noise_for(x))
    index = torch.tensor([len(x) - 1])
    alone = attack(x[index], epsilon[index], noise_for(x).take(index))
    for a, b in zip(pytree.tree_leaves(together), pytree.tree_leaves(alone), strict=True):
        torch.testing.assert_close(a[index], b, rtol=1e-5, atol=1e-6)


def check_finite(threat: ThreatModel, x: Tensor, strength: float) -> None:
    """No NaN in values or gradients (for theta and the image) at 0, at ``strength`` and at ten times of it."""
    for epsilon in (0.0, strength, 10 * strength):
        size = x.new_full((len(x),), epsilon)
        for theta in (
            threat.neutral(x),
            threat.start(x, size, noise_for(x)),
            threat.project(x, moved(threat, x, max(epsilon, strength)), size),
        ):
            image = x.clone().requires_grad_()
            theta = watched(theta)
            result = threat.apply(image, theta)
            weights = noise_for(x, 5).normal(*x.shape[1:], dtype=x.dtype)
            of_image, slope = gradient(result * weights, (image, theta))
            direction = threat.steepest(x, slope)
            assert all(torch.isfinite(leaf).all() for leaf in free((result, of_image, slope, direction)))


def check_gradient(threat: ThreatModel, x: Tensor, strength: float) -> None:
    """The gradient inside of the set against finite differences, in float64, along one random direction."""
    x = x.double()
    start = threat.start(x, x.new_full((len(x),), strength), noise_for(x))
    theta = watched(over(lambda leaf: 0.8 * leaf, start))
    weights = noise_for(x, 3).normal(*x.shape[1:], dtype=x.dtype)
    direction = normal_like(theta, noise_for(x, 4))
    slope = gradient(threat.apply(x, theta) * weights, theta)

    def value(step: float) -> Tensor:
        shifted = over(lambda leaf, along: leaf.detach() + step * along, theta, direction)
        return (threat.apply(x, shifted) * weights).flatten(1).sum(1)

    step = 1e-7 * strength
    expected = (value(step) - value(-step)) / (2 * step)
    torch.testing.assert_close(dot(slope, direction), expected, rtol=1e-4, atol=1e-5)
