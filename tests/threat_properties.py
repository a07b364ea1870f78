"""What every sound threat model promises, checked on ordinary and on degenerate images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.common.bundle import Tree, dot, gradient, map_tensors, optimised_tensors, require_gradient, take_rows
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel

GOLDENS = Path(__file__).parent / "goldens"


def golden(archive: str, name: str) -> Tensor:
    """An input or output of the original implementations."""
    with np.load(GOLDENS / f"{archive}.npz") as arrays:
        return torch.as_tensor(arrays[name])


def golden_images(archive: str, dtype: torch.dtype = torch.float32) -> Tensor:
    return golden(archive, "x_uint8").permute(0, 3, 1, 2).to(dtype).contiguous() / 255


def noise_for(x: Tensor, seed: int = 0) -> Noise:
    return Noise.for_samples(seed, torch.arange(len(x), device=x.device), "test")


def images(
    count: int = 3, channels: int = 3, side: int = 12, width: int | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    generator = torch.Generator().manual_seed(side + channels)
    x = torch.rand(count, channels, side, width or side, generator=generator, dtype=torch.float64)
    return ((x * 255).round() / 255).to(dtype)


def degenerate_images(
    channels: int = 3, side: int = 8, width: int | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """An ordinary image, one of zeros and ones, one saturated colour, nearly black, grey, white, and black."""
    x = torch.zeros(7, channels, side, width or side, dtype=dtype)
    x[0] = images(1, channels, side, width, dtype)[0]
    x[1, :, ::2, ::2] = 1
    x[2, 0] = 1
    x[3] = 1e-7
    x[4] = 0.5
    x[5] = 1
    return x


def strengths_up_to(strength: float, x: Tensor) -> Tensor:
    """One per sample, from ``strength`` down to a hundredth of it."""
    return strength * torch.linspace(1, 0.1, len(x), dtype=x.dtype, device=x.device).square()


def normal_like(theta: Tree, noise: Noise) -> Tree:
    return map_tensors(lambda leaf: noise.normal(*leaf.shape[1:], dtype=leaf.dtype), theta)


def moved(threat: ThreatModel, x: Tensor, strength: float | Tensor) -> Tree:
    """A theta beyond the border of the set."""
    epsilon = strength * x.new_ones(len(x))
    theta = threat.start(x, epsilon, noise_for(x, 1))
    direction = threat.steepest(x, normal_like(theta, noise_for(x, 2)))
    return threat.move(x, theta, direction, 5 * epsilon)


def assert_close(actual: Tree, expected: Tree, rtol: float, atol: float) -> None:
    """Two equally built trees agree."""
    for a, b in zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def check_neutral(threat: ThreatModel, x: Tensor) -> None:
    """The neutral theta and the set of size 0 leave the image as it is."""
    neutral, zero = threat.neutral(x), x.new_zeros(len(x))
    assert all(leaf.dtype == x.dtype and len(leaf) == len(x) for leaf in pytree.tree_leaves(neutral))
    assert torch.equal(threat.size(x, neutral), zero)
    for theta in (neutral, threat.start(x, zero, noise_for(x))):
        assert torch.equal(threat.apply(x, theta), x)


def check_sound(
    threat: ThreatModel, x: Tensor, strength: float, *, contains_clean: bool = True, atol: float = 1e-6
) -> None:
    """The promises of a sound set at strengths from 0 to ``strength``; ``atol`` is for pixels projected once more."""
    threat.check(x)
    if contains_clean:
        check_neutral(threat, x)
        at_zero = threat.project(x, moved(threat, x, strength), x.new_zeros(len(x)))
        assert torch.equal(threat.apply(x, at_zero), x), "the set of size 0 holds more than the image"

    epsilon = strengths_up_to(strength, x)
    projected = threat.project(x, moved(threat, x, epsilon), epsilon)
    for theta in (threat.start(x, epsilon, noise_for(x)), projected):
        assert all(leaf.dtype == x.dtype for leaf in pytree.tree_leaves(theta))
        size = threat.size(x, theta)
        assert size.shape == (len(x),)
        assert (size <= epsilon * (1 + 1e-5)).all(), "outside of the set"
        result = threat.apply(x, theta)
        assert result.shape == x.shape and result.dtype == x.dtype
        assert (result >= 0).all() and (result <= 1).all()
        again, larger = threat.project(x, theta, epsilon), threat.project(x, theta, 2 * epsilon)
        assert_close(again, theta, rtol=1e-5, atol=1e-5 * strength)
        assert_close(optimised_tensors(larger), optimised_tensors(theta), rtol=1e-5, atol=1e-5 * strength)
        for same in (again, larger):
            torch.testing.assert_close(threat.apply(x, same), result, rtol=0, atol=atol)
        smaller = threat.project(x, theta, size / 2)
        assert (threat.size(x, smaller) <= size / 2 * (1 + 1e-5)).all()


def check_steps(threat: ThreatModel, x: Tensor, strength: float) -> None:
    """A step as long as the strength goes from the centre of the set to its border."""
    epsilon, theta = strengths_up_to(strength, x), threat.neutral(x)
    direction = threat.steepest(x, normal_like(theta, noise_for(x)))
    end = threat.project(x, threat.move(x, theta, direction, epsilon), epsilon)
    torch.testing.assert_close(threat.size(x, end), epsilon, rtol=1e-4, atol=0)


def check_independent(threat: ThreatModel, x: Tensor, strength: float, *, atol: float = 1e-6) -> None:
    """Every sample alone gives what it gives in a batch."""

    def attack(x: Tensor, epsilon: Tensor, noise: Noise) -> list[Tree]:
        start = require_gradient(threat.start(x, epsilon, noise))
        result = threat.apply(x, start)
        slope = gradient(result * noise.child(1).normal(*x.shape[1:], dtype=x.dtype), start)
        theta = threat.project(x, threat.move(x, require_gradient(start), threat.steepest(x, slope), epsilon), epsilon)
        return [start, result, theta, threat.apply(x, theta), threat.size(x, theta)]

    epsilon, noise = strengths_up_to(strength, x), noise_for(x)
    together = attack(x, epsilon, noise)
    for index in torch.arange(len(x), device=x.device).split(1):
        alone = attack(x[index], epsilon[index], noise.take(index))
        assert_close(alone, take_rows(together, index), rtol=1e-5, atol=atol)


def check_choice(threat: ThreatModel, x: Tensor, slope: Tensor, noise: Noise) -> None:
    """What is chosen for a sample does not depend on the others."""
    index = torch.tensor([1])
    alone = threat.choose(x[index], slope[index], noise.take(index))
    assert_close(alone, take_rows(threat.choose(x, slope, noise), index), rtol=1e-5, atol=1e-6)


def check_finite(threat: ThreatModel, x: Tensor, strength: float, largest: float | None = None) -> None:
    """No NaN in values or gradients (for theta and the image) at 0, ``strength`` and ``largest`` (10 times that)."""
    threat.check(x)

    def ascent(theta: Tree, seed: int = 5) -> Tree:
        image, theta = x.clone().requires_grad_(), require_gradient(theta)
        result = threat.apply(image, theta)
        assert result.shape == x.shape and result.dtype == x.dtype
        assert (result >= 0).all() and (result <= 1).all()
        weights = noise_for(x, seed).normal(*x.shape[1:], dtype=x.dtype)
        of_image, slope = gradient(result * weights, (image, theta))
        direction = threat.steepest(x, slope)
        assert all(leaf.isfinite().all() for leaf in optimised_tensors((of_image, slope, direction)))
        return direction

    for value in (0.0, strength, largest or 10 * strength):
        epsilon = x.new_full((len(x),), value)
        ascent(threat.neutral(x))
        ascent(threat.project(x, moved(threat, x, max(value, strength)), epsilon))
        theta = threat.start(x, epsilon, noise_for(x))
        for seed in range(5, 8):
            theta = threat.project(x, threat.move(x, theta, ascent(theta, seed), epsilon / 2), epsilon)
            assert all(leaf.isfinite().all() for leaf in pytree.tree_leaves(theta))
            assert not threat.size(x, theta).isnan().any()


def check_contract(
    threat: ThreatModel,
    strength: float,
    small: float,
    largest: float,
    *,
    published: Sequence[ThreatModel] = (),
    side: int = 16,
    contains_clean: bool = True,
    atol: float = 1e-6,
) -> None:
    """All of this on degenerate images, grey and coloured; of ``published`` forms what does not take a sound set."""
    for channels in (1, 3):
        x = degenerate_images(channels, side)
        check_sound(threat, x, strength, contains_clean=contains_clean, atol=atol)
        check_steps(threat, x, strength)
        for each in (threat, *published):
            check_finite(each, x, small, largest=largest)
            check_independent(each, x.double(), strength)


def check_gradient(threat: ThreatModel, x: Tensor, strength: float) -> None:
    """The gradient inside of the set against finite differences, in float64, along one random direction."""
    x = x.double()
    start = threat.start(x, x.new_full((len(x),), strength), noise_for(x))
    theta = require_gradient(map_tensors(lambda leaf: 0.8 * leaf, start))
    weights = noise_for(x, 3).normal(*x.shape[1:], dtype=x.dtype)
    direction = normal_like(theta, noise_for(x, 4))
    slope = gradient(threat.apply(x, theta) * weights, theta)

    def value(step: float) -> Tensor:
        shifted = map_tensors(lambda leaf, along: leaf.detach() + step * along, theta, direction)
        return (threat.apply(x, shifted) * weights).flatten(1).sum(1)

    step = 1e-7 * strength
    expected = (value(step) - value(-step)) / (2 * step)
    torch.testing.assert_close(dot(slope, direction), expected, rtol=1e-4, atol=1e-5)


def ascend(threat: ThreatModel, x: Tensor, target: Tensor, epsilon: Tensor, steps: int = 10) -> Tensor:
    """Projected steepest ascent of the inner product with ``target``; returns the gains ``[steps + 1, B]``."""
    theta = threat.start(x, epsilon, noise_for(x))
    gains = []
    for _ in range(steps + 1):
        leaf = require_gradient(theta)
        gain = ((threat.apply(x, leaf) - x) * target).flatten(1).sum(1)
        gains.append(gain.detach())
        direction = threat.steepest(x, gradient(gain, leaf))
        theta = threat.project(x, threat.move(x, theta, direction, epsilon / 4), epsilon)
    return torch.stack(gains)
