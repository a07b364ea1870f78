from __future__ import annotations

import kornia.geometry
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.historical.warp import HistoricalAffine, HistoricalPerspective
from robustatlas.threats.warp import Affine, Perspective, Rotation
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

LARGEST = [(Affine(), 0.1), (Perspective(), 0.002), (Rotation(), 10.0)]


@pytest.mark.parametrize(("threat", "strength"), LARGEST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_a_sound_set(threat, strength, dtype):
    for x in (images(dtype=dtype), images(channels=1, side=28, dtype=dtype), images(side=9, width=14, dtype=dtype)):
        check_sound(threat, x, strength)
        check_independent(threat, x, strength)
        check_finite(threat, x, strength)
    check_sound(threat, degenerate_images(dtype=dtype), strength)
    check_steps(threat, degenerate_images(dtype=dtype), strength)
    check_finite(threat, degenerate_images(dtype=dtype), strength)
    check_sound(threat, images(count=1, side=224), strength)


@pytest.mark.parametrize(("threat", "strength"), LARGEST)
def test_gradient(threat, strength):
    check_gradient(threat, images(), strength)


@pytest.mark.parametrize(
    ("affine_set", "perspective_set"), [(Affine(), Perspective()), (HistoricalAffine(), HistoricalPerspective())]
)
def test_agrees_with_the_original_outputs(affine_set, perspective_set):
    x = golden_images("spatial", torch.float64)
    affine = golden("spatial", "affine_M").double() - torch.eye(3)[:2]
    result = affine_set.apply(x, affine)
    torch.testing.assert_close(result, golden("spatial", "affine_out").double(), rtol=0, atol=1e-5)
    perspective = (golden("spatial", "persp_M").double() - torch.eye(3)).flatten(1)[:, :8]
    result = perspective_set.apply(x, perspective)
    torch.testing.assert_close(result, golden("spatial", "persp_out").double(), rtol=0, atol=2e-5)


@pytest.mark.oracle
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_agrees_with_kornia(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(2, 3, 16, 20, generator=generator, dtype=torch.float64)

    def draw(*shape: int) -> torch.Tensor:
        return 2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1

    theta = 0.2 * draw(2, 2, 3)
    matrix = torch.eye(3, dtype=x.dtype)[:2] + theta
    expected = kornia.geometry.warp_affine(x, matrix, (16, 20), align_corners=True)
    torch.testing.assert_close(Affine().apply(x, theta), expected, rtol=0, atol=1e-6)

    theta = 0.002 * draw(2, 8)
    matrix = torch.eye(3, dtype=x.dtype) + torch.cat([theta, torch.zeros(2, 1)], 1).view(2, 3, 3)
    expected = kornia.geometry.warp_perspective(x, matrix, (16, 20), align_corners=True)
    torch.testing.assert_close(Perspective().apply(x, theta), expected, rtol=0, atol=1e-6)

    angle = 90 * draw(2, 1)
    expected = kornia.geometry.rotate(x, angle[:, 0], align_corners=True)
    torch.testing.assert_close(Rotation().apply(x, angle), expected, rtol=0, atol=1e-6)

    pixels = 5 * draw(2, 2)
    shift = torch.cat([torch.zeros(2, 2, 2, dtype=x.dtype), pixels[:, :, None]], 2)
    expected = kornia.geometry.translate(x, pixels, align_corners=True)
    torch.testing.assert_close(Affine().apply(x, shift), expected, rtol=0, atol=1e-6)


def test_a_quarter_turn():
    x = images(dtype=torch.float64)
    turned = Rotation().apply(x, torch.full((3, 1), 90.0, dtype=x.dtype))
    torch.testing.assert_close(turned, torch.rot90(x, 1, (2, 3)), rtol=0, atol=1e-9)


def test_a_singular_matrix_gives_a_picture():
    x = images()
    collapsed = -torch.eye(3)[:2].expand(3, 2, 3)
    for threat, theta in ((Affine(), collapsed), (Perspective(), torch.full((3, 8), -1.0))):
        result = threat.apply(x, theta)
        assert torch.isfinite(result).all()


def test_historical_start_is_one_sided():
    x = images(count=40)
    epsilon = torch.full((40,), 0.1)
    start = HistoricalAffine().start(x, epsilon, noise_for(x))
    assert start.min() >= 0 and start.max() <= 0.1 and start.max() > 0.09
    assert Affine().start(x, epsilon, noise_for(x)).min() < -0.09


HISTORICAL = [(HistoricalAffine(), 0.1), (HistoricalPerspective(), 0.002)]


@pytest.mark.parametrize(("threat", "strength"), LARGEST + HISTORICAL)
def test_white_images_stay_in_the_box(threat, strength):
    x = torch.ones(4, 3, 31, 31)
    result = threat.apply(x, threat.start(x, torch.full((4,), strength), noise_for(x)))
    assert result.max() <= 1 and result.min() >= 0


def test_vectors_are_not_images():
    with pytest.raises(UnsupportedInputError, match="images"):
        Affine().check(torch.rand(4, 10))
