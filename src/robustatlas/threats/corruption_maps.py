"""The 19 common corruptions as functions of images, random numbers and parameters (Hendrycks and Dietterich 2019). Each
takes images ``[B, C, H, W]`` in [0, 1], a noise stream per image and the parameters of one severity, and returns images
whose values may leave [0, 1] a little."""

import io
import math
from collections.abc import Callable

import numpy as np
import scipy  # which imports its parts where they are used: ndimage takes long
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from robustatlas.common.host import constant_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.fog import plasma, plasma_side

_TURQUOISE = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)
_ICE = (0.75, 0.85, 1.0)
_LUMINANCE = (0.299, 0.587, 0.114)

# ---- shared tools -------------------------------------------------------------------------------------------------


def _repeat_border(index: Tensor, size: int) -> Tensor:
    """Return positions where the border pixel repeats: a a | a b c | c c."""
    return index.clamp(0, size - 1)


def _mirror_border_twice(index: Tensor, size: int) -> Tensor:
    """Return positions mirrored with the border pixel twice: b a | a b c | c b."""
    index = index.remainder(2 * size)
    return torch.minimum(index, 2 * size - 1 - index)


def _mirror_border(index: Tensor, size: int) -> Tensor:
    """Return positions mirrored with the border pixel once: c b | a b c | b a."""
    period = max(2 * size - 2, 1)
    index = index.remainder(period)
    return torch.minimum(index, period - index)


Border = Callable[[Tensor, int], Tensor]


def _smoothing(size: int, sigma: float, truncate: float, border: Border, like: Tensor) -> Tensor:
    """Return ``[size, size]``: the matrix of a Gaussian filter along one axis."""
    reach = int(truncate * sigma + 0.5)
    offsets = torch.arange(-reach, reach + 1, device=like.device)
    weights = torch.exp(-0.5 * (offsets.to(like.dtype) / max(sigma, 1e-6)) ** 2)
    weights = weights / weights.sum()
    source = border(torch.arange(size, device=like.device)[:, None] + offsets, size)
    return like.new_zeros(size, size).scatter_add(1, source, weights.expand(size, -1))


def _smooth(x: Tensor, sigma: float, truncate: float = 4.0, border: Border = _repeat_border) -> Tensor:
    rows = _smoothing(x.shape[-2], sigma, truncate, border, x)
    columns = _smoothing(x.shape[-1], sigma, truncate, border, x)
    return rows @ x @ columns.mT


def _read(x: Tensor, row: Tensor, column: Tensor, border: Border) -> Tensor:
    """Return pixels of ``x`` [B, C, H, W] at the integers ``row`` and ``column``, which broadcast to [B, H, W]."""
    height, width = x.shape[2:]
    index = border(row, height) * width + border(column, width)
    return x.flatten(2).gather(2, index.flatten(1)[:, None].expand(-1, x.shape[1], -1)).view_as(x)


def _sample(x: Tensor, row: Tensor, column: Tensor, border: Border) -> Tensor:
    """Return bilinear samples of ``x`` [B, C, H, W] at real ``row`` and ``column`` [B, H, W]."""
    top, left = row.floor(), column.floor()
    down, right = (row - top)[:, None], (column - left)[:, None]
    r, c = top.long(), left.long()
    upper = _read(x, r, c, border) * (1 - right) + _read(x, r, c + 1, border) * right
    lower = _read(x, r + 1, c, border) * (1 - right) + _read(x, r + 1, c + 1, border) * right
    return upper * (1 - down) + lower * down


def _pixels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return row and column ``[H, W]`` of each pixel."""
    height, width = x.shape[2:]
    row, column = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    return row[:, None].expand(height, width), column.expand(height, width)


def _zoom(x: Tensor, factor: float) -> Tensor:
    height, width = x.shape[2:]
    rows, columns = math.ceil(height / factor), math.ceil(width / factor)
    top, left = (height - rows) // 2, (width - columns) // 2
    middle = x[..., top : top + rows, left : left + columns]
    size = (max(round(rows * factor), height), max(round(columns * factor), width))
    large = F.interpolate(middle, size=size, mode="bilinear", align_corners=True)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    return large[..., top : top + height, left : left + width]


def _streaks(x: Tensor, radius: int, sigma: float, degrees: Tensor) -> Tensor:
    """Blur along a direction ``[B]`` by a one-sided Gaussian on the nearest pixels, as ImageMagick does."""
    steps = torch.arange(2 * radius + 1, dtype=x.dtype, device=x.device)
    weights = torch.exp(-0.5 * (steps / sigma) ** 2)
    weights = weights / weights.sum()
    angle = torch.deg2rad(degrees)
    down = (steps * angle.sin()[:, None] - 0.5).ceil().long()
    right = (steps * angle.cos()[:, None] - 0.5).ceil().long()
    row, column = _pixels(x)
    blurred = torch.zeros_like(x)
    for step, weight in enumerate(weights):
        source = row + down[:, step, None, None], column + right[:, step, None, None]
        blurred = blurred + weight * _read(x, *source, _repeat_border)
    return blurred


def _colour(values: tuple[float, float, float], x: Tensor) -> Tensor:
    """Return ``[C, 1, 1]``: a colour, or its luminance for images that are not RGB."""
    colour = constant_tensor(values, x)
    if x.shape[1] != 3:
        colour = (colour * colour.new_tensor(_LUMINANCE)).sum().expand(x.shape[1])
    return colour.view(-1, 1, 1)


def _pale(x: Tensor) -> Tensor:
    grey = (x * _luminance_weights(x)).sum(dim=1, keepdim=True)
    return torch.maximum(x, 1.5 * grey + 0.5)


def _luminance_weights(x: Tensor) -> Tensor:
    weights = constant_tensor(_LUMINANCE, x)
    return (weights if x.shape[1] == 3 else weights.new_full((x.shape[1],), 1 / x.shape[1])).view(-1, 1, 1)


def _map_images(x: Tensor, function: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]) -> Tensor:
    """Apply ``function`` to every image as 8-bit ``[H, W]`` (grey) or ``[H, W, 3]``."""
    images = (x * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    results = [function(image[..., 0] if image.shape[-1] == 1 else image) for image in images]
    return torch.from_numpy(np.stack(results)).to(x).view(len(x), *x.shape[2:], -1).permute(0, 3, 1, 2) / 255


def _fractal(x: Tensor, noise: Noise, decay: float) -> Tensor:
    """Return ``[B, 1, H, W]``: diamond-square heights in [0, 1]; level i has amplitude ``decay ** (-2 i)``.

    Twice the published exponent: the code multiplies its amplitude by a random number of that same amplitude.
    """
    side = plasma_side(x.shape[2] - 1, x.shape[3] - 1)
    levels = noise.symmetric(side * side - 1, dtype=x.dtype)
    start, count = 0, 1
    while count < side:
        levels[:, start : start + 3 * count * count] *= count * decay ** (-2 * math.log2(count))
        start, count = start + 3 * count * count, 2 * count
    field = plasma(levels, side)
    field = field - field.amin(dim=(1, 2), keepdim=True)
    field = field / field.amax(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    return field[:, None, : x.shape[2], : x.shape[3]]


# ---- noise --------------------------------------------------------------------------------------------------------


def gaussian_noise(x: Tensor, noise: Noise, scale: float) -> Tensor:
    """Add normal noise with standard deviation ``scale``."""
    return x + scale * noise.normal(*x.shape[1:], dtype=x.dtype)


def speckle_noise(x: Tensor, noise: Noise, scale: float) -> Tensor:
    """Add normal noise in proportion to the pixel."""
    return x + x * scale * noise.normal(*x.shape[1:], dtype=x.dtype)


def shot_noise(x: Tensor, noise: Noise, photons: float) -> Tensor:
    """Draw Poisson noise, in which a white pixel counts ``photons`` on average.

    Drawn by inversion of the distribution function, with bisection.
    """
    rate = (photons * x).double()
    chance = noise.uniform(*x.shape[1:], dtype=torch.float64)
    low = torch.full_like(rate, -1.0)
    high = (rate + 8 * rate.sqrt() + 20).ceil()
    for _ in range(math.ceil(math.log2(photons + 8 * math.sqrt(photons) + 22)) + 1):
        middle = ((low + high) / 2).floor()
        below = torch.special.gammaincc(middle.clamp_min(0) + 1, rate) < chance
        below |= middle < 0
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (high / photons).to(x.dtype)


def impulse_noise(x: Tensor, noise: Noise, share: float) -> Tensor:
    """Return a ``share`` of the numbers set to 0 or 1."""
    draw = noise.uniform(*x.shape[1:], dtype=x.dtype)
    return x.masked_fill(draw < share / 2, 0.0).masked_fill(draw >= 1 - share / 2, 1.0)


# ---- blur ---------------------------------------------------------------------------------------------------------


def gaussian_blur(x: Tensor, noise: Noise, sigma: float) -> Tensor:
    """Blur by a Gaussian."""
    return _smooth(x, sigma)


def defocus_blur(x: Tensor, noise: Noise, radius: float, alias: float) -> Tensor:
    """Convolve with a disk whose border is softened."""
    reach, half = (8, 1) if radius <= 8 else (int(radius), 2)
    index = torch.arange(-reach, reach + 1, dtype=x.dtype, device=x.device)
    disk = (index[:, None] ** 2 + index**2 <= radius**2).to(x.dtype)
    disk = _smooth(disk / disk.sum(), alias, (half + 0.25) / alias, _mirror_border)
    height, width = x.shape[2:]
    rows = _mirror_border(torch.arange(-reach, height + reach, device=x.device), height)
    columns = _mirror_border(torch.arange(-reach, width + reach, device=x.device), width)
    padded = x[..., rows, :][..., columns]
    return F.conv2d(padded.flatten(0, 1)[:, None], disk[None, None]).view_as(x)


def glass_blur(x: Tensor, noise: Noise, sigma: float, reach: int, rounds: int) -> Tensor:
    """Blur, exchange near pixels at random, and blur again.

    Each pixel, from the lower right, becomes a copy of one up to ``reach`` away. (A swap is meant; the published code
    copies, because its rows are views.)
    """
    batch, _, height, width = x.shape
    rows, columns = np.arange(height - reach, reach, -1), np.arange(width - reach, reach, -1)
    moves = (noise.integers(2 * reach, rounds, len(rows), len(columns), 2) - reach).cpu().numpy()
    source = np.broadcast_to(np.arange(height * width), (batch, height * width)).copy().reshape(batch, height, width)
    each = np.arange(batch)
    for turn in range(rounds):
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                move = moves[:, turn, i, j]
                source[:, row, column] = source[each, row + move[:, 1], column + move[:, 0]]
    index = torch.from_numpy(source).to(x.device).flatten(1)[:, None].expand(-1, x.shape[1], -1)
    return _smooth(_smooth(x, sigma).flatten(2).gather(2, index).view_as(x), sigma)


def motion_blur(x: Tensor, noise: Noise, radius: int, sigma: float) -> Tensor:
    """Blur along a random direction up to 45 degrees from the horizontal."""
    return _streaks(x, radius, sigma, 45 * noise.symmetric(1, dtype=x.dtype)[:, 0])


def zoom_blur(x: Tensor, noise: Noise, largest: float, step: float) -> Tensor:
    """Return the mean of the image and of enlargements by 1, 1 + step, ... up to ``largest``."""
    factors = [1 + step * number for number in range(round((largest - 1) / step) + 1)]
    return torch.stack((x, *(_zoom(x, factor) for factor in factors))).mean(dim=0)


# ---- weather ------------------------------------------------------------------------------------------------------


def fog(x: Tensor, noise: Noise, thickness: float, decay: float) -> Tensor:
    """Return a plasma added, and the range of the image kept."""
    brightest = x.amax(dim=(1, 2, 3), keepdim=True)
    return (x + thickness * _fractal(x, noise, decay)) * brightest / (brightest + thickness)


def frost(x: Tensor, noise: Noise, image: float, ice: float) -> Tensor:
    """Cover the image by bluish ridges of two plasmas; the original uses photographs of frosted windows."""
    ridges = [1 - (2 * _fractal(x, noise.child(number), 1.35) - 1).abs() for number in (0, 1)]
    crystals = ridges[0] * ridges[1]
    return image * x + ice * (0.2 + 0.8 * crystals) * _colour(_ICE, x)


def snow(
    x: Tensor,
    noise: Noise,
    mean: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    keep: float,
) -> Tensor:
    """Return enlarged bright grains, smeared downwards, once as they are and once turned by 180 degrees, over a paler
    image."""
    grains = _zoom(mean + scale * noise.child(0).normal(1, *x.shape[2:], dtype=x.dtype), zoom)
    grains = torch.where(grains < threshold, 0.0, grains).clamp(0, 1)
    layer = _streaks(grains, radius, sigma, -90 + 45 * noise.child(1).symmetric(1, dtype=x.dtype)[:, 0])
    return keep * x + (1 - keep) * _pale(x) + layer + layer.rot90(2, (2, 3))


def spatter(
    x: Tensor, noise: Noise, mean: float, scale: float, sigma: float, threshold: float, strength: float, mud: bool
) -> Tensor:
    """Add drops of water or of mud."""
    liquid = _smooth(mean + scale * noise.normal(1, *x.shape[2:], dtype=x.dtype), sigma)
    if mud:
        cover = _smooth((liquid > threshold).to(x.dtype), strength)
        cover = torch.where(cover < 0.8, 0.0, cover)
        return x * (1 - cover) + _colour(_MUD, x) * cover
    liquid = torch.where(liquid < threshold, 0.0, liquid)
    light = _map_images(liquid.clamp(0, 1), _water).to(x.dtype)
    shine = liquid * light
    shine = strength * shine / shine.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
    return x + shine * _colour(_TURQUOISE, x)


def _water(liquid: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the brightness of drops: they are lit from one side, by the distance from their border."""
    drops = liquid > 0
    borders = drops & ~scipy.ndimage.binary_erosion(drops)
    if not borders.any():
        return np.zeros_like(liquid)
    distance = np.minimum(scipy.ndimage.distance_transform_edt(~borders), 20)
    levels = scipy.ndimage.uniform_filter(distance, 3, mode="mirror").astype(np.uint8)
    counts = np.bincount(levels.ravel(), minlength=256)
    ranks = counts.cumsum() - counts[levels.min()]
    equal = np.rint(255 * ranks / max(ranks[-1], 1))[levels]
    relief = scipy.ndimage.correlate(equal, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]), mode="mirror").clip(0, 255)
    return np.rint(scipy.ndimage.uniform_filter(relief, 3, mode="mirror")).astype(np.uint8)


# ---- digital ------------------------------------------------------------------------------------------------------


def brightness(x: Tensor, noise: Noise, amount: float) -> Tensor:
    """Return the value of HSV raised."""
    value = x.amax(dim=1, keepdim=True)
    raised = (value + amount).clamp_max(1)
    return torch.where(value > 0, x * raised / value.clamp_min(1e-12), raised)


def contrast(x: Tensor, noise: Noise, factor: float) -> Tensor:
    """Return each channel moved towards its mean."""
    mean = x.mean(dim=(2, 3), keepdim=True)
    return (x - mean) * factor + mean


def saturate(x: Tensor, noise: Noise, factor: float, offset: float) -> Tensor:
    """Return the saturation of HSV multiplied and raised; greys, which have no hue, turn red."""
    value = x.amax(dim=1, keepdim=True)
    distance = value - x
    saturation = distance.amax(dim=1, keepdim=True) / value.clamp_min(1e-12)
    changed = (saturation * factor + offset).clamp(0, 1)
    red = x.new_tensor([0.0, 1.0, 1.0]).view(3, 1, 1) * value
    return value - torch.where(saturation > 0, distance * changed / saturation.clamp_min(1e-12), red * changed)


def jpeg_compression(x: Tensor, noise: Noise, quality: int) -> Tensor:
    """Compress as JPEG with a ``quality``, by Pillow."""

    def compress(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file))

    return _map_images(x, compress)


def pixelate(x: Tensor, noise: Noise, share: float) -> Tensor:
    """Reduce to a ``share`` of the resolution and enlarge again, with Pillow's box filters."""
    height, width = x.shape[2:]

    def coarsen(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        small = Image.fromarray(image).resize((int(width * share), int(height * share)), Image.Resampling.BOX)
        return np.asarray(small.resize((width, height), Image.Resampling.BOX))

    return _map_images(x, coarsen)


def elastic_transform(x: Tensor, noise: Noise, strength: float, sigma: float, shift: float) -> Tensor:
    """Return a random affine map (three points moved by up to ``shift`` pixels), then a smooth random displacement."""
    height, width = x.shape[2:]
    side = min(height, width) // 3
    middle = x.new_tensor([width // 2, height // 2])
    before = middle + side * x.new_tensor([[1, 1], [1, -1], [-1, -1]])
    after = before + shift * noise.child(0).symmetric(3, 2, dtype=x.dtype)
    ones = x.new_ones(len(x), 3, 1)
    back = torch.linalg.lstsq(torch.cat((after, ones), dim=2), before.expand_as(after), driver="gels").solution
    row, column = _pixels(x)
    places = torch.stack((column, row, torch.ones_like(row)), dim=-1).to(x.dtype)
    source = torch.einsum("hwk,bkd->bhwd", places, back)
    x = _sample(x, source[..., 1], source[..., 0], _mirror_border)
    field = noise.child(1).symmetric(2, height, width, dtype=x.dtype)
    moved = strength * _smooth(field, sigma, truncate=3, border=_mirror_border_twice)
    return _sample(x, row + moved[:, 1], column + moved[:, 0], _mirror_border_twice)
