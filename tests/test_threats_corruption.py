import colorsys

import numpy as np
import pytest
import scipy.ndimage
import scipy.stats
import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.threats import corruption_maps as maps
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.corruption import CORRUPTIONS, Corruption
from threat_properties import (
    check_independent,
    check_neutral,
    check_sound,
    degenerate_images,
    golden_images,
    images,
    noise_for,
)

BLURS = ("gaussian_blur", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "pixelate")


def corrupted(name: str, x: Tensor, severity: float) -> Tensor:
    threat = Corruption(name)
    return threat.apply(x, threat.start(x, torch.full((len(x),), severity, dtype=x.dtype), noise_for(x)))


def channels_of(name: str) -> tuple[int, ...]:
    return (3,) if name == "saturate" else (1, 3)


def test_there_are_nineteen():
    assert len(CORRUPTIONS) == 19


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_contract(name: str):
    threat = Corruption(name)
    for channels in channels_of(name):
        for height, width in ((32, 32), (8, 8), (28, 20)):
            x = degenerate_images(channels, height, width)
            threat.check(x)
            check_neutral(threat, x)
            for severity in (1.0, 2.0, 3.0, 4.0, 5.0, 50.0):
                output = corrupted(name, x, severity)
                assert output.shape == x.shape
                assert output.dtype == x.dtype
                assert output.isfinite().all()
                assert (output >= 0).all()
                assert (output <= 1).all()
        x = degenerate_images(channels, 16, dtype=torch.float64)
        check_sound(threat, x, 20.0)
        check_independent(threat, x, 20.0)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_large_images_get_the_parameters_of_imagenet(name: str):
    x = images(1, 3, 96, 72)
    for severity in (1.0, 5.0):
        output = corrupted(name, x, severity)
        assert output.isfinite().all()
        assert not torch.equal(output, x)


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name not in ("saturate", "elastic_transform")])
def test_the_highest_severity_changes_most(name: str):
    x = golden_images("uar")
    mild, strong = ((corrupted(name, x, severity) - x).abs().mean() for severity in (1.0, 5.0))
    assert strong > mild


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_same_draw_gives_the_same_image_to_the_last_bit(name: str):
    x = images(3, 3, 16)
    first = corrupted(name, x, 3.0)
    assert all(torch.equal(first, corrupted(name, x, 3.0)) for _ in range(5))


def test_severity_is_the_size():
    threat, x = Corruption("contrast"), images(4, 3, 16)
    epsilon = torch.tensor([0.5, 1.0, 3.7, 12.0])
    theta = threat.start(x, epsilon, noise_for(x))
    assert threat.size(x, theta).tolist() == [0, 1, 3, 5]
    assert torch.equal(threat.project(x, theta, epsilon).image.values, theta.image.values)
    weaker = threat.project(x, theta, epsilon - 1.5)
    assert threat.size(x, weaker).tolist() == [0, 0, 0, 5]
    assert torch.equal(threat.apply(x, weaker)[:3], x[:3])


@pytest.mark.parametrize("name", BLURS)
def test_blurs_leave_a_constant_image_as_it_is(name: str):
    x = torch.full((1, 3, 32, 32), 102 / 255)
    for severity in (1.0, 3.0, 5.0):
        torch.testing.assert_close(corrupted(name, x, severity), x, rtol=0, atol=1e-5)


def test_gaussian_filters_are_those_of_scipy():
    x = images(1, 1, 20, 13, dtype=torch.float64)
    for sigma in (0.4, 1.0, 6.0):
        expected = scipy.ndimage.gaussian_filter(x[0, 0].numpy(), sigma, mode="nearest", truncate=4)
        np.testing.assert_allclose(maps.gaussian_blur(x, noise_for(x), sigma)[0, 0], expected, atol=1e-12)
        expected = scipy.ndimage.gaussian_filter(x[0, 0].numpy(), 9 * sigma, mode="reflect", truncate=3)
        ours = maps._smooth(x, 9 * sigma, truncate=3, border=maps._mirror_border_twice)
        np.testing.assert_allclose(ours[0, 0], expected, atol=1e-12)


def test_displacements_are_read_as_by_scipy():
    x = images(1, 1, 11, 9, dtype=torch.float64)
    places = 8 * noise_for(x).uniform(2, 11, 9, dtype=x.dtype)[0] + torch.tensor([-3.0, 2.0]).view(2, 1, 1)
    for mode, border in (
        ("reflect", maps._mirror_border_twice),
        ("mirror", maps._mirror_border),
        ("nearest", maps._repeat_border),
    ):
        expected = scipy.ndimage.map_coordinates(x[0, 0].numpy(), places.numpy(), order=1, mode=mode)
        np.testing.assert_allclose(maps._sample(x, places[:1], places[1:], border)[0, 0], expected, atol=1e-12)


def test_zoom_is_that_of_scipy():
    x = images(1, 1, 32, dtype=torch.float64)
    for factor in (1.0, 1.07, 1.25, 3.0):
        rows = int(np.ceil(32 / factor))
        top = (32 - rows) // 2
        large = scipy.ndimage.zoom(x[0, 0].numpy()[top : top + rows, top : top + rows], factor, order=1)
        trim = (len(large) - 32) // 2
        np.testing.assert_allclose(maps._zoom(x, factor)[0, 0], large[trim : trim + 32, trim : trim + 32], atol=1e-12)


def test_shot_noise_inverts_the_poisson_distribution():
    x = images(2, 1, 16, dtype=torch.float64)
    for photons in (3.0, 60.0, 500.0):
        chance = noise_for(x).uniform(1, 16, 16, dtype=torch.float64)
        expected = scipy.stats.poisson.ppf(chance.numpy(), photons * x.numpy()) / photons
        np.testing.assert_allclose(maps.shot_noise(x, noise_for(x), photons), np.maximum(expected, 0), atol=1e-12)


def test_noise_has_the_right_size():
    x = torch.full((1, 1, 200, 200), 0.5)
    noise = noise_for(x)
    assert (maps.gaussian_noise(x, noise, 0.08) - x).std() == pytest.approx(0.08, rel=0.02)
    assert (maps.speckle_noise(x, noise, 0.2) - x).std() == pytest.approx(0.1, rel=0.02)
    salted = maps.impulse_noise(x, noise, 0.27)
    assert (salted == 0).float().mean() == pytest.approx(0.135, rel=0.05)
    assert (salted == 1).float().mean() == pytest.approx(0.135, rel=0.05)


def test_brightness_and_saturation_are_those_of_hsv():
    x = images(1, 3, 6, dtype=torch.float64)
    x[0, :, 0, 0] = 0
    x[0, :, 0, 1] = 0.6
    bright = maps.brightness(x, noise_for(x), 0.3)
    vivid = maps.saturate(x, noise_for(x), 2.0, 0.1)
    for row in range(6):
        for column in range(6):
            h, s, v = colorsys.rgb_to_hsv(*x[0, :, row, column].tolist())
            expected = colorsys.hsv_to_rgb(h, s, min(v + 0.3, 1))
            np.testing.assert_allclose(bright[0, :, row, column], expected, atol=1e-9)
            expected = colorsys.hsv_to_rgb(h, min(2 * s + 0.1, 1), v)
            np.testing.assert_allclose(vivid[0, :, row, column], expected, atol=1e-9)


def test_contrast_keeps_the_mean_of_each_channel():
    x = images(1, 3, 9)
    output = maps.contrast(x, noise_for(x), 0.4)
    torch.testing.assert_close(output.mean((2, 3)), x.mean((2, 3)))
    torch.testing.assert_close(output.std((2, 3)), 0.4 * x.std((2, 3)))


def test_motion_blur_of_a_point_is_a_one_sided_gaussian():
    x = torch.zeros(1, 1, 15, 15)
    x[0, 0, 7, 7] = 1
    output = maps._streaks(x, 3, 2.0, torch.zeros(1))
    weights = torch.exp(-(torch.arange(7.0) ** 2) / 8)
    torch.testing.assert_close(output[0, 0, 7, 1:8].flip(0), weights / weights.sum())
    assert output.sum() == pytest.approx(1)


def test_glass_takes_colours_from_nearby():
    x = torch.arange(144.0).view(1, 1, 12, 12) / 143
    output = maps.glass_blur(x, noise_for(x), 1e-3, 1, 1)
    # A source may itself have been replaced by one below or to the right of it, never by one above.
    rows = (output * 143).round().long()[0, 0] // 12
    assert (rows >= torch.arange(12)[:, None] - 1).all()
    assert torch.equal(rows[0], torch.zeros(12, dtype=torch.int64))
    assert not torch.equal(output, x)


def test_says_what_is_wrong():
    with pytest.raises(UserError, match=r"'rain'.*gaussian_noise"):
        Corruption("rain")
    with pytest.raises(UnsupportedInputError, match=r"corruption-saturate .*\(1, 1, 8, 8\)"):
        Corruption("saturate").check(torch.zeros(1, 1, 8, 8))
    with pytest.raises(UnsupportedInputError, match=r"\(1, 3, 4, 8\)"):
        Corruption("fog").check(torch.zeros(1, 3, 4, 8))
