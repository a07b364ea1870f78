"""Changes of colour: one number for a whole image, or a function of colours."""

import math

import kornia.color
import kornia.enhance
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.color import Brightness, Contrast, Hue, Saturation
from robustatlas.threats.historical.color import HistoricalBrightness
from robustatlas.threats.historical.recolor import HistoricalRecolor
from robustatlas.threats.recolor import Recolor, interpolate, lattice_identity, luv_to_rgb, rgb_to_luv
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
    moved,
    noise_for,
)

LARGEST = [(Hue(), 0.5), (Hue(), math.pi), (Saturation(), 0.5), (Contrast(), 0.5), (Brightness(), 0.3)]


@pytest.mark.parametrize(("threat", "strength"), LARGEST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_a_sound_set(threat, strength, dtype):
    check_sound(threat, images(dtype=dtype), strength)
    check_sound(threat, degenerate_images(dtype=dtype), strength)
    check_sound(threat, images(count=1, side=8), strength)
    check_steps(threat, degenerate_images(dtype=dtype), strength)
    check_independent(threat, images(), strength)
    check_finite(threat, degenerate_images(dtype=dtype), strength)
    check_finite(threat, images(dtype=dtype), strength)


@pytest.mark.parametrize(("threat", "strength"), LARGEST)
def test_gradient(threat, strength):
    check_gradient(threat, images(), strength)


def test_maps_agree_with_the_original_outputs():
    x = golden_images("spatial")
    angle, factor = golden("spatial", "hue_h")[:, None], golden("spatial", "sat_f")[:, None] - 1
    torch.testing.assert_close(Hue().apply(x, angle), golden("spatial", "hue_out"), rtol=0, atol=1e-5)
    torch.testing.assert_close(Saturation().apply(x, factor), golden("spatial", "sat_out"), rtol=0, atol=1e-5)
    torch.testing.assert_close(Contrast().apply(x, factor), golden("spatial", "contrast_out"), rtol=0, atol=1e-5)


@pytest.mark.oracle
@settings(max_examples=30, deadline=None)
@given(theta=st.floats(-0.9, 6.0), seed=st.integers(0, 1000))
def test_maps_agree_with_kornia(theta, seed):
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = torch.cat([x, degenerate_images(dtype=x.dtype)])
    number = torch.full((len(x), 1), theta, dtype=x.dtype)
    pairs = [
        (Hue(), kornia.enhance.adjust_hue(x, theta)),
        (Saturation(), kornia.enhance.adjust_saturation(x, 1 + theta)),
        (Contrast(), kornia.enhance.adjust_contrast(x, 1 + theta)),
        (Brightness(), kornia.enhance.adjust_brightness(x, theta)),
    ]
    for threat, expected in pairs:
        torch.testing.assert_close(threat.apply(x, number), expected, rtol=0, atol=1e-6, msg=type(threat).__name__)


def test_grey_images_need_a_colour_free_attack():
    grey = images(channels=1)
    for threat in (Hue(), Saturation()):
        with pytest.raises(UnsupportedInputError, match="RGB"):
            threat.check(grey)
    for threat in (Brightness(), Contrast()):
        check_sound(threat, grey, 0.3)
        check_sound(threat, images(channels=1, side=28), 0.3)


def test_historical_brightness_never_darkens():
    x, threat = images(count=50), HistoricalBrightness()
    epsilon = torch.full((50,), 0.2)
    start = threat.start(x, epsilon, noise_for(x))
    assert (start >= 0).all() and start.max() > 0.15 and (start <= 0.2).all()
    assert torch.equal(threat.project(x, -start, epsilon), torch.zeros_like(start))
    assert torch.isinf(threat.size(x, -start - 0.01)).all()
    torch.testing.assert_close(threat.size(x, start), start[:, 0])
    both = Brightness().start(x, epsilon, noise_for(x))
    assert both.min() < -0.1 and both.max() > 0.1


# --- functions of colours


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_recolor_is_a_sound_set(dtype):
    for x in (images(dtype=dtype), degenerate_images(dtype=dtype)):
        check_sound(Recolor(), x, 0.1)
        check_steps(Recolor(), x, 0.1)
        check_independent(Recolor(), x, 0.1)
        check_finite(Recolor(), x, 0.1)
        check_finite(HistoricalRecolor(), x, 0.1)
    check_sound(Recolor(), images(count=1, side=64, width=40), 0.1)


def test_gradient_of_recolor():
    check_gradient(Recolor(), 0.2 + 0.6 * images(), 0.05)


def test_recolor_agrees_with_the_original_outputs():
    x, epsilon, threat = golden_images("spatial"), torch.full((2,), 0.05), HistoricalRecolor()
    torch.testing.assert_close(rgb_to_luv(x), golden("spatial", "luv_of_x"), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        luv_to_rgb(golden("spatial", "luv_in")), golden("spatial", "rgb_of_luv_in"), rtol=0, atol=1e-5
    )
    theta = threat.project(x[:1], golden("spatial", "recolor_delta_in_first1"), epsilon[:1])
    projected = golden("spatial", "recolor_params_proj_eps0p05_first1")
    torch.testing.assert_close(lattice_identity(theta) + theta, projected, rtol=0, atol=1e-5)
    torch.testing.assert_close(threat.apply(x[:1], theta), golden("spatial", "recolor_out_first1"), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        threat.smoothness(theta), golden("spatial", "recolor_smoothness_first1"), rtol=1e-5, atol=0
    )
    begin = threat.project(x, threat.start(x, epsilon, noise_for(x)), epsilon)
    torch.testing.assert_close(
        threat.apply(x, begin), golden("spatial", "recolor_out_start_eps0p05"), rtol=0, atol=1e-5
    )


def test_historical_projection_stays_within_epsilon():
    x, epsilon, threat = degenerate_images(), torch.full((7,), 0.05), HistoricalRecolor()
    theta = threat.project(x, moved(threat, x, 0.5), epsilon)
    assert (threat.size(x, theta) <= 0.05).all()


@pytest.mark.oracle
def test_luv_agrees_with_kornia():
    x = images(side=32, dtype=torch.float64)
    light, u, v = kornia.color.rgb_to_luv(x).unbind(1)
    expected = torch.stack([light / 100, (u + 100) / 200, (v + 100) / 200], 1)
    torch.testing.assert_close(rgb_to_luv(x), expected, rtol=0, atol=5e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_luv_and_back(dtype):
    x = torch.cat([images(side=8, dtype=dtype), degenerate_images(dtype=dtype)])
    torch.testing.assert_close(luv_to_rgb(rgb_to_luv(x)), x, rtol=0, atol=2e-3)


def test_interpolation_of_an_affine_function_is_exact():
    colours = torch.rand(2, 3, 5, 7, dtype=torch.float64)
    identity = lattice_identity(colours)
    lattice = (2 * identity + 0.25).expand(2, *identity.shape)
    torch.testing.assert_close(interpolate(lattice, colours), 2 * colours + 0.25)


def test_colours_beyond_the_lattice_use_its_end():
    colours = torch.tensor([1.5, -0.2, 1.31], dtype=torch.float64).view(1, 3, 1, 1)
    lattice = lattice_identity(colours)[None]
    torch.testing.assert_close(interpolate(lattice, colours).flatten(), torch.tensor([1.0, 0.0, 1.0]).double())


def test_a_constant_function_shifts_lightness():
    x = torch.full((1, 3, 8, 8), 0.5)
    theta = Recolor().neutral(x)
    theta[..., 0] = 0.05
    change = rgb_to_luv(Recolor().apply(x, theta)) - rgb_to_luv(x)
    torch.testing.assert_close(change[:, 0], torch.full((1, 8, 8), 0.05), rtol=0, atol=1e-4)
    assert change[:, 1:].abs().max() < 1e-3


def test_grey_images_are_refused():
    with pytest.raises(UnsupportedInputError, match="recolor changes colours and needs RGB"):
        Recolor().check(images(channels=1))
