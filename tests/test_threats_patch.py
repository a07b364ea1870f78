import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.common.bundle import map_tensors
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.patch import Patch
from threat_properties import (
    check_finite,
    check_independent,
    check_sound,
    degenerate_images,
    images,
    noise_for,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 12, 12), (1, 8, 8), (3, 9, 14), (1, 28, 28)])
def test_is_a_sound_set(shape, dtype):
    x = images(channels=shape[0], side=shape[1], width=shape[2], dtype=dtype)
    check_sound(Patch(), x, 0.5)
    check_independent(Patch(), x, 0.5)
    check_finite(Patch(), x, 0.5)


def test_degenerate_images():
    check_sound(Patch(), degenerate_images(), 0.5)
    check_finite(Patch(), degenerate_images(), 0.5)


@settings(max_examples=40, deadline=None)
@given(height=st.integers(8, 30), width=st.integers(8, 30), seed=st.integers(0, 1000))
def test_squares_of_growing_side_contain_each_other(height, width, seed):
    x, patch = torch.full((2, 1, height, width), 0.5, dtype=torch.float64), Patch()
    whole = patch.start(x, torch.ones(2, dtype=x.dtype), noise_for(x, seed))
    before = torch.zeros(2, height, width, dtype=torch.bool)
    for side in range(1, min(height, width) + 1):
        epsilon = torch.full((2,), side / min(height, width), dtype=x.dtype)
        theta = patch.project(x, whole, epsilon)
        changed = (patch.apply(x, theta) != x).any(1)
        assert (changed.flatten(1).sum(1) == side**2).all()
        assert (changed.any(1).sum(1) == side).all() and (changed.any(2).sum(1) == side).all()
        assert changed[before].all()
        torch.testing.assert_close(patch.size(x, theta), epsilon)
        before = changed


def test_less_than_a_pixel_is_the_clean_image():
    x = images(side=8)
    theta = Patch().start(x, torch.full((3,), 0.12), noise_for(x))
    assert torch.equal(Patch().apply(x, theta), x)


def test_places_differ_between_samples_and_stay():
    x, patch = images(count=60, side=16), Patch()
    epsilon = torch.full((60,), 0.25)
    theta = patch.start(x, epsilon, noise_for(x))
    corners = {tuple(c) for c in (12 * theta.place.values).floor().int().tolist()}
    assert len(corners) > 30
    step = patch.move(x, theta, patch.steepest(x, map_tensors(torch.ones_like, theta)), epsilon)
    assert torch.equal(patch.project(x, step, epsilon).place.values, theta.place.values)


def test_a_step_of_the_strength_is_the_whole_range_of_a_pixel():
    x, patch = torch.zeros(1, 1, 8, 8), Patch()
    epsilon = torch.tensor([0.25])
    theta = patch.project(x, patch.neutral(x), epsilon)
    theta = patch.project(x, patch.move(x, theta, map_tensors(torch.ones_like, theta), epsilon), epsilon)
    assert patch.apply(x, theta).sum() == 4


def test_vectors_are_not_images():
    with pytest.raises(UnsupportedInputError, match="patch needs images"):
        Patch().check(torch.rand(4, 10))
