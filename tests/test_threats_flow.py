from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.flow import StAdv, neighbour_variation
from robustatlas.threats.historical.flow import HistoricalStAdv
from threat_properties import (
    check_finite,
    check_gradient,
    check_independent,
    check_sound,
    check_steps,
    degenerate_images,
    golden,
    golden_images,
    images,
    noise_for,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 12), (1, 8), (1, 28), (3, 33)])
def test_is_a_sound_set(shape, dtype):
    x = images(channels=shape[0], side=shape[1], dtype=dtype)
    check_sound(StAdv(), x, 0.1)
    check_steps(StAdv(), x, 0.1)
    check_independent(StAdv(), x, 0.1)
    check_finite(StAdv(), x, 0.1)


def test_large_and_degenerate_images():
    check_sound(StAdv(), images(count=1, side=224), 0.1)
    check_sound(StAdv(), images(side=9, width=14), 0.1)
    check_sound(StAdv(), degenerate_images(), 0.1)
    check_finite(StAdv(), degenerate_images(), 0.1)
    check_finite(HistoricalStAdv(), degenerate_images(), 0.1)


def test_gradient():
    check_gradient(StAdv(), images(), 0.1)


def test_agrees_with_the_original_outputs():
    x, threat, epsilon = golden_images("spatial"), HistoricalStAdv(), torch.full((2,), 0.05)
    centres = (2 * torch.arange(32.0) + 1) / 32 - 1
    identity = torch.stack(torch.meshgrid(centres, centres, indexing="xy"), -1)
    theta = threat.project(x, golden("spatial", "stadv_delta_in"), epsilon)
    torch.testing.assert_close(identity + theta, golden("spatial", "stadv_grid_proj_eps0p05"), rtol=0, atol=1e-6)
    for flow in (threat, StAdv()):
        torch.testing.assert_close(flow.apply(x, theta), golden("spatial", "stadv_out"), rtol=0, atol=1e-5)
    torch.testing.assert_close(threat.smoothness(theta), golden("spatial", "stadv_norm"), rtol=1e-5, atol=0)
    assert torch.equal(threat.start(x, epsilon, noise_for(x)), threat.neutral(x))


@settings(max_examples=20, deadline=None)
@given(columns=st.integers(-3, 3), rows=st.integers(-3, 3))
def test_a_constant_flow_of_whole_pixels_shifts_the_image(columns, rows):
    x = images(count=1, side=16, dtype=torch.float64)
    theta = torch.tensor([columns, rows], dtype=x.dtype).expand(1, 16, 16, 2) * (2 / 16)
    shifted = StAdv().apply(x, theta)
    inside = slice(3, 13)
    expected = torch.roll(x, (-rows, -columns), (2, 3))
    torch.testing.assert_close(shifted[..., inside, inside], expected[..., inside, inside])


def test_one_pixel_is_a_half_side_over_width():
    """epsilon = .05 moves at most .8 pixels at 32x32: a spot moves less than one pixel."""
    x = torch.zeros(1, 1, 32, 32)
    x[..., 16, 16] = 1
    moved = StAdv().apply(x, torch.tensor([0.05, 0.0]).expand(1, 32, 32, 2))
    torch.testing.assert_close(moved[0, 0, 16, 15:17], torch.tensor([0.8, 0.2]))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(2, 6), st.integers(2, 6))
def test_roughness_is_the_sum_over_all_neighbours(depth, height, width):
    field = torch.randn(
        2, depth, height, width, 3, generator=torch.Generator().manual_seed(height), dtype=torch.float64
    )
    expected = torch.zeros(2, dtype=torch.float64)
    shape = (depth, height, width)
    for i in range(depth):
        for j in range(height):
            for k in range(width):
                for axis in range(3):
                    for step in (-1, 1):
                        other = [i, j, k]
                        other[axis] = min(max(other[axis] + step, 0), shape[axis] - 1)
                        difference = field[:, i, j, k] - field[:, other[0], other[1], other[2]]
                        expected += (difference.square().sum(1) + 1e-10).sqrt()
    torch.testing.assert_close(neighbour_variation(field), expected)


def test_roughness_has_no_gradient_at_the_identity():
    theta = torch.zeros(1, 8, 8, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(StAdv().smoothness(theta).sum(), theta)
    assert torch.equal(gradient, torch.zeros_like(theta))


def test_vectors_are_not_images():
    with pytest.raises(UnsupportedInputError, match="images"):
        StAdv().check(torch.rand(4, 10))
