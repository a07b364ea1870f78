from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from robustatlas.common.bundle import Fixed, map_tensors
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.historical.snow import HistoricalSnow, HistoricalSnowTheta
from robustatlas.threats.snow import Snow, SnowTheta, gradient_gain, random_kernels, snow_layer, streak
from threat_properties import (
    ascend,
    check_choice,
    check_contract,
    check_finite,
    check_independent,
    check_neutral,
    check_sound,
    degenerate_images,
    golden,
    golden_images,
    images,
    noise_for,
    normal_like,
)


def golden_theta(strength: float) -> HistoricalSnowTheta:
    kernels = golden("uar", "snow_kernels_npseed0").expand(4, -1, -1, -1)
    return HistoricalSnowTheta(golden("uar", "snow_I"), Fixed(kernels), Fixed(torch.full((4,), strength)))


@pytest.mark.parametrize("end", [(8, 12, 1), (12, 9, 3), (10, 10, 5)])
def test_streaks_match_the_original_code(end: tuple[int, int, int]):
    row, column, width = (torch.tensor(float(number)) for number in end)
    expected = golden("uar", "snow_line_{}_{}_{}".format(*end)).float()
    torch.testing.assert_close(streak(row, column, width), expected, rtol=0, atol=1e-6)


def test_maps_match_the_original_code():
    kernels = golden("uar", "snow_kernels_npseed0").expand(4, -1, -1, -1)
    layer = snow_layer(golden("uar", "snow_I") ** 4, kernels, 32, 32)
    torch.testing.assert_close(layer, golden("uar", "snow_map"), rtol=0, atol=1e-5)
    for strength, name in ((0.1, "snow_out_eps0.1"), (0.0, "snow_out_eps0")):
        output = HistoricalSnow().apply(golden_images("uar"), golden_theta(strength))
        torch.testing.assert_close(output, golden("uar", name), rtol=0, atol=1e-5)


def test_default_reaches_the_published_images():
    """The published flakes, brightened by epsilon, lie in the default set, which then makes the very same picture."""
    epsilon = torch.full((4,), 0.1)
    flakes = golden("uar", "snow_I")
    flakes = flakes * (0.2 / flakes.mean((2, 3), keepdim=True).clamp_min(0.2))
    published = replace(golden_theta(0.1), flakes=flakes)
    ours = SnowTheta(0.1 * flakes**4, published.kernels, torch.full((4,), 1 / 16))
    x = golden_images("uar")
    assert (Snow().size(x, ours) <= epsilon).all()
    torch.testing.assert_close(Snow().apply(x, ours), HistoricalSnow().apply(x, published), rtol=0, atol=1e-6)


def test_original_kernels_belong_to_the_random_family():
    """Point symmetry in the quadrants, blur of unit sum: what all kernels, theirs and ours, have in common."""
    ours = random_kernels(noise_for(torch.zeros(50, 1)), torch.float32)
    assert ours.shape == (50, 7, 13, 13)
    for kernels in (ours.flatten(0, 1), golden("uar", "snow_kernels_npseed0")):
        torch.testing.assert_close(kernels.flip(-1, -2), kernels, rtol=0, atol=1e-6)
        assert (kernels >= 0).all()
        assert (kernels <= 1).all()
        assert (kernels[:, 6, 6] > 0.5).all()
    leaning_right = ours[..., 7:, 7:].sum((-1, -2)) > ours[..., 7:, :6].sum((-1, -2))
    assert (leaning_right == leaning_right[:, :1]).all()
    assert 10 < leaning_right[:, 0].sum() < 40


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 1, 28, 28), (2, 3, 20, 33)])
def test_is_a_sound_set(shape: tuple[int, ...], dtype: torch.dtype):
    # A pixel adds up many flakes, each rounded in proportion to the strength.
    check_sound(Snow(), images(*shape, dtype=dtype), 2.0, atol=1e-5 if dtype == torch.float32 else 1e-6)


def test_large_images():
    check_sound(Snow(), images(1, 3, 224), 2.0, atol=1e-5)
    check_neutral(Snow(), images(1, 3, 224, dtype=torch.float64))


@given(st.floats(1e-3, 80), st.integers(8, 40), st.integers(8, 40))
@settings(max_examples=20, deadline=None)
def test_is_a_sound_set_at_every_strength(strength: float, height: int, width: int):
    check_sound(Snow(), images(2, 1, height, width), strength, atol=1e-5 * max(strength, 1))


def test_contract():
    check_contract(Snow(), 2.0, small=0.1, largest=80.0, side=32, atol=1e-5)
    check_finite(Snow(), degenerate_images(1, 8), 0.1, largest=80.0)
    x = degenerate_images(3, 32)
    check_finite(HistoricalSnow(), x, 0.1, largest=80.0)
    check_independent(HistoricalSnow(), x.double(), 2.0)


def test_gradient():
    x = images(1, 1, 8, dtype=torch.float64) * 0.3
    theta = Snow().start(x, torch.tensor([0.05], dtype=torch.float64), noise_for(x))

    def output(flakes: Tensor, paleness: Tensor) -> Tensor:
        return Snow().apply(x, SnowTheta(flakes, theta.kernels, paleness))

    inputs = (theta.flakes.requires_grad_(), theta.paleness.requires_grad_())
    assert torch.autograd.gradcheck(output, inputs, fast_mode=True)


def test_steps_leave_the_streaks_alone():
    for threat in (Snow(), HistoricalSnow()):
        x = images(2, 3, 32)
        epsilon = torch.tensor([0.1, 0.5])
        theta = threat.start(x, epsilon, noise_for(x))
        step = threat.steepest(x, normal_like(theta, noise_for(x).child(9)))
        moved = threat.project(x, threat.move(x, theta, step, epsilon), epsilon)
        assert torch.equal(moved.kernels.values, theta.kernels.values)
        assert not torch.equal(moved.flakes, theta.flakes)


def test_ascent_puts_snow_where_it_pays():
    x = golden_images("uar")
    gains = ascend(Snow(), x, images(4, 3, 32) - 0.5, torch.full((4,), 0.5))
    assert (gains.amax(0) > gains[0] + 5).all()


def test_historical_step_starts_from_the_clipped_values_and_is_not_clipped():
    threat, x = HistoricalSnow(), images(1, 3, 32)
    epsilon = torch.tensor([0.1])
    theta = threat.start(x, epsilon, noise_for(x))
    up = map_tensors(torch.ones_like, theta)
    for flakes, length, expected in ((-0.5, 0.3, 0.3), (3.0, 1.5, 1.7)):
        outside = map_tensors(lambda leaf, value=flakes: torch.full_like(leaf, value), theta)
        moved = threat.project(x, threat.move(x, outside, up, torch.tensor([length])), epsilon)
        torch.testing.assert_close(moved.flakes, torch.full_like(theta.flakes, expected))


def test_says_which_images_fit():
    with pytest.raises(UnsupportedInputError, match=r"grey or RGB .*\(1, 2, 8, 8\)"):
        Snow().check(torch.zeros(1, 2, 8, 8))
    with pytest.raises(UnsupportedInputError, match="multiples of 32"):
        HistoricalSnow().check(torch.zeros(1, 3, 28, 28))
    Snow().check(torch.zeros(1, 1, 28, 28))


def test_chosen_streaks_promise_more_than_drawn_ones():
    x, threat = images(6, 3, 16), Snow()
    noise, gradient = noise_for(x), noise_for(x).child(5).normal(3, 16, 16)
    chosen = threat.choose(x, gradient, noise)
    best = gradient_gain(x, gradient, chosen.kernels.values).sum(1)
    for k in range(4):
        drawn = threat.start(x, torch.ones(6), noise.child(100 + k))
        assert (best > gradient_gain(x, gradient, drawn.kernels.values).sum(1)).all()
    assert (threat.apply(x, chosen) == x).all()
    check_choice(threat, x, gradient, noise)
