from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from robustatlas.datasets import load_dataset
from robustatlas.errors import UserError
from robustatlas.models import load_model
from robustatlas.models.defenses import BitDepthReduction, JPEGCompression, MedianSmoothing
from robustatlas.noise import Noise
from robustatlas.threats.lp import Linf
from robustatlas.training import adversarial_examples


def picture(channels: int, height: int, width: int) -> Tensor:
    """Smooth shapes with a little noise, in 256 levels."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, channels, height // 6 + 2, width // 6 + 2, generator=generator)
    smooth = nn.functional.interpolate(coarse, (height, width), mode="bicubic", align_corners=True)
    noisy = smooth + 0.05 * torch.randn(smooth.shape, generator=generator)
    return (noisy.clamp(0, 1) * 255).round() / 255


def by_pillow(x: Tensor, quality: int, subsampling: int) -> np.ndarray:
    pixels = (x[0] * 255).byte().permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "JPEG", quality=quality, subsampling=subsampling)
    return np.asarray(Image.open(file)).astype(np.float64)


@pytest.mark.oracle
@pytest.mark.parametrize("quality", [10, 50, 75, 95])
@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 32, 32), (3, 21, 45), (1, 8, 8)])
def test_jpeg_is_that_of_libjpeg(quality: int, shape: tuple[int, int, int]) -> None:
    x = picture(*shape)
    ours = JPEGCompression(quality, subsample=False)(x)[0].permute(1, 2, 0).squeeze().numpy() * 255
    difference = np.abs(ours - by_pillow(x, quality, 0))
    assert difference.mean() < 0.5
    assert (difference <= 1).mean() > 0.88


@pytest.mark.oracle
def test_jpeg_with_subsampling_has_the_luminance_of_libjpeg() -> None:
    """Decoders smooth the chrominance when they double it; here it is repeated."""
    x = ((0.25 + picture(3, 48, 48) / 2) * 255).round() / 255
    weights = np.array([0.299, 0.587, 0.114])
    ours = (JPEGCompression(75)(x)[0].permute(1, 2, 0).numpy() * 255) @ weights
    theirs = by_pillow(x, 75, 2) @ weights
    assert np.abs(ours - theirs).mean() < 0.5


def test_jpeg_in_double_and_in_batches() -> None:
    x = torch.cat([picture(3, 32, 32), picture(3, 32, 32).flip(2)]).double()
    whole = JPEGCompression(60)(x)
    assert whole.dtype == torch.float64
    assert torch.equal(whole[1:], JPEGCompression(60)(x[1:]))


def test_bits() -> None:
    squeezed = BitDepthReduction(3)(torch.linspace(0, 1, 1000))
    torch.testing.assert_close(squeezed.unique(), torch.arange(8) / 7)


def test_median() -> None:
    from scipy.ndimage import median_filter

    x = torch.rand(2, 3, 9, 11)
    expected = median_filter(x.numpy(), size=(1, 1, 3, 3), mode="mirror")
    np.testing.assert_array_equal(MedianSmoothing(3)(x).numpy(), expected)


@pytest.mark.parametrize("defense", [BitDepthReduction(2), MedianSmoothing(3), JPEGCompression(50)])
def test_attacks_see_through_defenses(defense: nn.Module) -> None:
    data = load_dataset("digits").take(100)
    net = nn.Sequential(defense, load_model("builtin:digits-standard").net)
    epsilon = torch.full((100,), 0.2)
    found = adversarial_examples(net, Linf(), data.images, data.labels, epsilon, Noise.of(0, data.index, "test"))
    with torch.no_grad():
        clean, attacked = ((net(x).argmax(1) == data.labels).float().mean() for x in (data.images, found))
    assert float(attacked) < 0.6 * float(clean)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BitDepthReduction(0), "bit depth must lie in 1..16, got 0"),
        (lambda: MedianSmoothing(2), "odd side, got 2"),
        (lambda: JPEGCompression(0), "quality must lie in 1..100, got 0"),
        (lambda: JPEGCompression()(torch.zeros(1, 2, 8, 8)), "grey or RGB images"),
    ],
)
def test_wrong_settings(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
