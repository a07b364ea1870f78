"""Everyday changes: each against Pillow, kornia or SciPy on the same images."""

import io
from collections.abc import Callable
from itertools import pairwise

import kornia
import numpy as np
import pytest
import scipy
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.threats.everyday.change import Change, with_border
from robustatlas.threats.everyday.geometry import Cropped, Rotated, Sheared, Shifted, Tilted, Zoomed
from robustatlas.threats.everyday.light import Contrasted, Exposed, Gamma, Saturated
from robustatlas.threats.everyday.optics import Coarse, Grainy, Occluded, Recompressed, Shaken, Unfocused
from robustatlas.threats.everyday.weather import Foggy, Rainy, Snowy
from robustatlas.threats.probe import probe
from threat_properties import (
    check_finite,
    check_independent,
    check_sound,
    degenerate_images,
    images,
    noise_for,
)

X = images(count=3, side=24, width=31)
Y = images(count=3, side=24, width=31, dtype=torch.float64)
LEVEL = 1 / 255

CHANGES: list[tuple[Change, float]] = [
    (Rotated(), 30.0),
    (Rotated("black"), 30.0),
    (Rotated("grey"), 30.0),
    (Shifted(), 3.0),
    (Shifted("black", per_cent=True), 10.0),
    (Zoomed(), 30.0),
    (Sheared("grey"), 30.0),
    (Tilted(), 40.0),
    (Cropped(), 40.0),
    (Exposed(), 2.0),
    (Gamma(), 100.0),
    (Contrasted(), 75.0),
    (Saturated(), 100.0),
    (Unfocused(), 2.0),
    (Unfocused("grey"), 2.0),
    (Shaken("black"), 7.0),
    (Grainy(), 30.0),
    (Coarse(), 75.0),
    (Recompressed(), 95.0),
    (Occluded(), 40.0),
    (Foggy(), 80.0),
    (Rainy(), 10.0),
    (Snowy(), 10.0),
]


def named(case: object) -> str:
    return type(case).__name__ + getattr(case, "border", "") if isinstance(case, Change) else ""


@pytest.mark.parametrize(("threat", "strength"), CHANGES, ids=named)
@pytest.mark.parametrize("x", [images(side=20), degenerate_images(side=16)], ids=["ordinary", "degenerate"])
def test_is_sound(threat: Change, strength: float, x: Tensor) -> None:
    check_sound(threat, x, strength)
    check_finite(threat, x, strength)
    check_independent(threat, x, strength)
    assert probe(threat, x, (strength / 3, strength / 2, strength)) == []


SMOOTH = [(t, s) for t, s in CHANGES if not isinstance(t, (Coarse, Recompressed, Unfocused))]


@pytest.mark.parametrize(("threat", "strength"), SMOOTH, ids=named)
def test_slope(threat: Change, strength: float) -> None:
    """Of all numbers but that of a draw."""
    x = images(count=2, side=8, dtype=torch.float64)
    theta = threat.start(x, x.new_full((2,), strength), noise_for(x))
    fixed = sum(kind == "draw" for kind, _ in threat.free)
    smooth, rest = theta.split([theta.shape[1] - fixed, fixed], 1)
    changed = (0.8 * smooth).requires_grad_()
    assert torch.autograd.gradcheck(lambda numbers: threat.apply(x, torch.cat([numbers, rest], 1)), changed)


def test_slope_of_blur() -> None:
    """Away from the widths at which its kernel gets a pixel more."""
    x, sigma = images(count=1, side=8, dtype=torch.float64), torch.tensor([[1.05]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda theta: Unfocused().apply(x, theta), sigma.requires_grad_())


def at(threat: Change, *numbers: float, x: Tensor = Y) -> Tensor:
    """The images changed by the same numbers."""
    return threat.apply(x, x.new_tensor(numbers).expand(len(x), -1))


def by_scipy(x: Tensor, function: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """``function`` of every channel."""
    return torch.stack([torch.stack([torch.from_numpy(function(c.numpy())) for c in image]) for image in x])


def resized(image: np.ndarray, size: tuple[int, int], box: tuple[float, ...] | None = None) -> np.ndarray:
    """By Pillow, bilinear; copied, as its memory cannot be written to."""
    return np.array(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR, box))


MODES = [("reflect", "mirror", 0.0), ("black", "grid-constant", 0.0), ("grey", "grid-constant", 0.5)]


@pytest.mark.parametrize(("border", "mode", "fill"), MODES)
def test_geometry_is_that_of_scipy(border: str, mode: str, fill: float) -> None:
    """Rows and columns; an image is read at the inverse map."""
    row, column = (Y.shape[2] - 1) / 2, (Y.shape[3] - 1) / 2
    angle = np.deg2rad(20)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    cases = [
        (Rotated(), (20.0,), turn),
        (Zoomed(), (25.0,), np.eye(2) / 1.25),
        (Zoomed(), (-20.0,), np.eye(2) / 0.8),
        (Sheared(), (15.0,), np.array([[1, 0], [-np.tan(np.deg2rad(15)), 1]])),
    ]
    for threat, numbers, inverse in cases:
        centre = np.array([row, column])
        offset = centre - inverse @ centre
        expected = by_scipy(
            Y, lambda c, m=inverse, o=offset: scipy.ndimage.affine_transform(c, m, o, order=1, mode=mode, cval=fill)
        )
        torch.testing.assert_close(at(with_border(threat, border), *numbers), expected, rtol=0, atol=1e-9)
    expected = by_scipy(Y, lambda c: scipy.ndimage.shift(c, (-1.5, 2.25), order=1, mode=mode, cval=fill))
    torch.testing.assert_close(at(with_border(Shifted(), border), 2.25, -1.5), expected, rtol=0, atol=1e-9)
    shares = (2.25 / Y.shape[3] * 100, -1.5 / Y.shape[2] * 100)
    same = at(with_border(Shifted(per_cent=True), border), *shares)
    torch.testing.assert_close(same, expected, rtol=0, atol=1e-9)


def test_rotation_is_that_of_pillow() -> None:
    """Inside, where Pillow does not look beyond an edge; it has 8-bit images."""
    turned = [np.asarray(to_pillow(image).rotate(10, Image.Resampling.BILINEAR)) for image in Y]
    expected = torch.from_numpy(np.stack(turned)).permute(0, 3, 1, 2) / 255
    assert_near(at(Rotated(), 10.0)[..., 6:-6, 6:-6], expected[..., 6:-6, 6:-6], LEVEL)


def test_tilt_is_that_of_kornia() -> None:
    """A warp by the homography that carries the corners to where a pinhole camera sees them."""
    height, width = Y.shape[2:]
    down, side, distance = np.deg2rad(12), np.deg2rad(-20), max(height, width)
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], float)
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    seen = []
    for x, y in corners - middle:
        x, z = x * np.cos(side), -x * np.sin(side)
        y, z = y * np.cos(down) - z * np.sin(down), y * np.sin(down) + z * np.cos(down)
        seen.append(middle + np.array([x, y]) * distance / (distance + z))
    before, after = torch.from_numpy(corners)[None], torch.from_numpy(np.array(seen))[None]
    matrix = kornia.geometry.get_perspective_transform(before, after).expand(len(Y), 3, 3)
    expected = kornia.geometry.warp_perspective(Y, matrix, (height, width), align_corners=True)
    torch.testing.assert_close(at(Tilted("black"), 12.0, -20.0), expected, rtol=0, atol=1e-9)


def test_crop_is_that_of_pillow() -> None:
    """A part of the image at a real place, enlarged."""
    height, width = Y.shape[2:]
    left, top = 0.3 * 0.4 * width, 0.8 * 0.4 * height
    box = (left, top, left + 0.6 * width, top + 0.6 * height)
    expected = by_scipy(Y, lambda c: resized(c.astype(np.float32), (width, height), box))
    inner = (..., slice(1, -1), slice(1, -1))  # at the edge of the part Pillow does not look beyond it
    torch.testing.assert_close(at(Cropped(), 40.0, 0.3, 0.8)[inner], expected.double()[inner], rtol=0, atol=1e-5)


def to_pillow(image: Tensor) -> Image.Image:
    return Image.fromarray((image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def by_pillow(change: Callable[[Image.Image], Image.Image]) -> Tensor:
    return torch.from_numpy(np.stack([np.asarray(change(to_pillow(image))) for image in Y])).permute(0, 3, 1, 2) / 255


def assert_near(actual: Tensor, expected: Tensor, levels: float) -> None:
    torch.testing.assert_close(actual.to(expected.dtype), expected, rtol=0, atol=levels + 1e-6)


def test_light_is_that_of_kornia() -> None:
    linear = kornia.color.rgb_to_linear_rgb(Y)
    for stops in (-1.5, 0.7):
        expected = kornia.color.linear_rgb_to_rgb(linear * 2**stops).clamp(0, 1)
        torch.testing.assert_close(at(Exposed(), stops), expected, rtol=0, atol=1e-6)
    for theta, gamma in ((50.0, 1.5), (-50.0, 1 / 1.5)):
        expected = kornia.enhance.adjust_gamma(Y, gamma)
        torch.testing.assert_close(at(Gamma(), theta), expected, rtol=0, atol=1e-9)
    for theta in (-60.0, 40.0):
        expected = kornia.enhance.adjust_contrast_with_mean_subtraction(Y, 1 + theta / 100)
        torch.testing.assert_close(at(Contrasted(), theta), expected, rtol=0, atol=1e-6)
        expected = kornia.enhance.adjust_saturation_with_gray_subtraction(Y, 1 + theta / 100)
        torch.testing.assert_close(at(Saturated(), theta), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("theta", [-60.0, 40.0])
def test_contrast_and_saturation_are_those_of_pillow(theta: float) -> None:
    """Up to its rounding of grey and of results to whole levels."""
    factor = 1 + theta / 100
    for threat, pillow in ((Contrasted(), ImageEnhance.Contrast), (Saturated(), ImageEnhance.Color)):
        expected = by_pillow(lambda image, enhanced=pillow: enhanced(image).enhance(factor))
        assert_near(at(threat, theta), expected, 1.5 * LEVEL)


@pytest.mark.parametrize(("border", "mode", "fill"), MODES)
def test_blur_is_that_of_scipy(border: str, mode: str, fill: float) -> None:
    for sigma in (0.6, 1.7):
        expected = by_scipy(
            Y,
            lambda c, s=sigma: scipy.ndimage.gaussian_filter(c, s, mode=mode.removeprefix("grid-"), cval=fill),
        )
        torch.testing.assert_close(at(with_border(Unfocused(), border), sigma), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("border", "mode", "fill"), MODES)
def test_motion_blur_is_that_of_scipy(border: str, mode: str, fill: float) -> None:
    """Of odd lengths along rows (0 degrees) and columns (90): the mean of so many pixels."""
    for turn, axis in ((0.0, 1), (0.5, 0)):
        expected = by_scipy(
            Y, lambda c, a=axis: scipy.ndimage.uniform_filter1d(c, 5, a, mode=mode.removeprefix("grid-"), cval=fill)
        )
        torch.testing.assert_close(at(with_border(Shaken(), border), 5.0, turn), expected, rtol=0, atol=1e-9)
    still = at(Shaken(), 1.0, 0.3)
    assert torch.equal(still, Y)


def test_resolution_is_that_of_pillow() -> None:
    height, width = X.shape[2:]
    for lost in (30.0, 75.0):
        small = (round(width * (1 - lost / 100)), round(height * (1 - lost / 100)))
        expected = by_scipy(
            X,
            lambda c, s=small: resized(resized(c, s), (width, height)),
        )
        torch.testing.assert_close(at(Coarse(), lost, x=X), expected, rtol=0, atol=1e-5)


def test_jpeg_is_the_file_that_pillow_writes() -> None:
    x = images(count=4, side=32)
    lost = torch.tensor([[5.0], [30.0], [70.0], [95.0]])
    found = Recompressed().apply(x, lost)
    for image, quality, result in zip(x, (95, 70, 30, 5), found, strict=True):
        file = io.BytesIO()
        to_pillow(image).save(file, "JPEG", quality=quality)
        expected = torch.from_numpy(np.asarray(Image.open(file)).copy()).permute(2, 0, 1).float() / 255
        assert torch.equal((result * 255).round(), (expected * 255).round())


def test_occlusion_is_what_pillow_pastes() -> None:
    """A quarter of the area: half of each side."""
    x = images(count=2, side=16, dtype=torch.float64)
    found = at(Occluded(grey=0.0), 25.0, 0.25, 1.0, x=x)
    for image, result in zip(x, found, strict=True):
        pasted = to_pillow(image)
        pasted.paste((0, 0, 0), (2, 8, 10, 16))
        expected = torch.from_numpy(np.asarray(pasted).copy()).permute(2, 0, 1) / 255
        assert_near(result, expected, 0)


def test_noise_is_normal() -> None:
    """By SciPy's test of Kolmogorov and Smirnov; a pattern grows with its strength."""
    x = torch.full((1, 3, 96, 96), 0.5, dtype=torch.float64)
    once, twice = (at(Grainy(), sd, 0.37, x=x) - x for sd in (10.0, 20.0))
    assert scipy.stats.kstest((once * 25.5).flatten().numpy(), "norm").pvalue > 0.01
    torch.testing.assert_close(twice, 2 * once, rtol=0, atol=1e-12)
    other = at(Grainy(), 10.0, 0.38, x=x) - x
    assert abs(np.corrcoef(once.flatten(), other.flatten())[0, 1]) < 0.03


def test_weather_grows_with_its_density() -> None:
    """More of it at more density, everywhere; what is hidden on average is what the density says."""
    black, sizes = torch.zeros(1, 3, 64, 64, dtype=torch.float64), (2.0, 5.0, 20.0, 60.0)
    for threat in (Foggy(), Rainy(), Snowy()):
        found = [at(threat, size, 0.2, x=black) for size in sizes]
        assert all((more >= less).all() for less, more in pairwise(found))
        assert found[0].mean() < found[-1].mean()
    for size in sizes:
        hidden = at(Foggy(), size, 0.7, x=black).mean() / Foggy.colour
        assert hidden == pytest.approx(size / 100, rel=1e-6)


def test_typical_draws() -> None:
    """A signed change lies anywhere within the strength, an amount is the strength; the rest is anywhere."""
    x = images(count=1, side=8).expand(2000, -1, -1, -1)
    epsilon = torch.full((2000,), 10.0)
    turned = Rotated().typical(x, epsilon, noise_for(x))
    assert scipy.stats.kstest(turned[:, 0] / 20 + 0.5, "uniform").pvalue > 0.01
    shaken = Shaken().typical(x, epsilon, noise_for(x))
    assert (shaken[:, 0] == 10).all()
    assert scipy.stats.kstest(shaken[:, 1], "uniform").pvalue > 0.01


def test_borders_that_there_are_not() -> None:
    with pytest.raises(UserError, match="border='white'"):
        with_border(Rotated(), "white")
    with pytest.raises(UserError, match="border='white'"):
        Rotated("white")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="never shows"):
        with_border(Foggy(), "black")
    with pytest.raises(UserError, match="from 0"):
        Occluded(grey=2.0)
