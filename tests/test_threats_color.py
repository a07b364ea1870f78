from __future__ import annotations

import math

import kornia.enhance
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.color import Brightness, Contrast, Hue, Saturation
from robustatlas.threats.historical.color import HistoricalBrightness
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
