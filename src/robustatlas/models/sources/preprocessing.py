"""The preprocessing of an image processor of transformers, found by running it: no key of a configuration is read.

A processor that is *linear* (resizing, a middle that is cut out, one mean and deviation a channel, an order of the
channels) becomes a differentiable function of images in [0, 1]. What was found is compared with the processor on
pictures of several sizes, and refused where it differs by more than Pillow's rounding to 8 bits.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError, first_line, silence_logger
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.outputs import logits_in
from robustatlas.models.resizing import INTERPOLATIONS, Resizing

Pixels = NDArray[np.float64]
Size = tuple[int, int]

_SIDES: tuple[Size, ...] = ((96, 96), (80, 132), (141, 90))
"""Heights and widths of the pictures on which a processor is watched: square, wide and high, none a usual size."""

_DARK, _BRIGHT = 40.0, 215.0
"""Ends of the ramps by which places are found: neither is the black that small pictures are put on."""

_EDGE = 30.0
"""Pixels darker than this are no part of a ramp."""

_AROUND = 2
"""Largest error, in pixels, of a size that is read off a ramp."""

_MOST, _MEAN = 1.5, 0.4
"""Largest and mean difference of pixels, in 255ths: Pillow rounds to 8 bits after each of two passes. Of 30
processors that are followed none differed by more than 1.1 and .31; Lanczos taken for bicubic by 3.4 and .67."""


_LOGITS = 1e-3
"""Largest difference of logits, relative to the largest one, by the rounding of means and deviations."""


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of a processor: ``prepare`` (None: nothing), then the ``mean`` and ``std`` of each channel in
    the order that the network takes them (None: none). ``values``: [C, h, w], what the processor made of a picture with
    the ``pixels`` [C, h, w] in [0, 1]."""

    prepare: Resizing | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    values: Tensor
    pixels: Tensor

    def check(self, model: Classifier, source: str) -> None:
        """Raise :class:`UserError` where the logits of ``model`` at the pixels are not those of its network at the
        values of the processor."""
        values, pixels = (each[None].to(model.device, model.dtype) for each in (self.values, self.pixels))
        with torch.no_grad(), model.evaluating():
            try:
                theirs = logits_in(model.net(values.to(model.network_dtype)), 1).to(model.dtype)
            except (RuntimeError, ValueError) as error:
                raise UserError(
                    f"The network of {source} fails at what its own image processor makes of a picture, "
                    f"{tuple(self.values.shape)} ({first_line(error)}); repair preprocessor_config.json."
                ) from error
            ours = model.logits(pixels, verifying=True)
        largest = float((ours - theirs).abs().max())
        if not largest <= max(_LOGITS, model.rounding) * float(theirs.abs().max().clamp_min(1)):
            raise UserError(
                f"The logits of {source} behind its own image processor and ours differ by {largest:.3g}; load the "
                "network yourself and give ra.Classifier(net, mean, std, prepare=...)."
            )


class _Watched:
    """A processor with the number of channels of its pictures; ``source`` is the model's name in messages."""

    def __init__(self, processor: Any, channels: int, source: str) -> None:
        self.processor, self.channels, self.source = processor, channels, source
        self.kind = type(processor).__name__

    def answer(self, picture: NDArray[np.uint8]) -> Pixels:
        """Return the values [C, h, w] that the processor makes of a picture [H, W, C]."""
        try:
            with silence_logger("transformers"):
                made = self.processor(images=picture, input_data_format="channels_last", return_tensors="np")
            values = np.asarray(made["pixel_values"], np.float64)
        except Exception as error:  # whatever a processor of others raises
            raise self.refused(
                f"it fails on a picture of {_size_in_words(picture.shape[:2])} ({first_line(error)})"
            ) from error
        if values.ndim != 4 or values.shape[:2] != (1, self.channels):
            raise self.refused(f"it makes an array {values.shape} of one picture, not [1, {self.channels}, H, W]")
        first: Pixels = values[0]
        return first

    def refused(self, why: str) -> UserError:
        return UserError(
            f"The image processor of {self.source} ({self.kind}) is none whose preprocessing can be followed here: "
            f"{why}. Load the network yourself and give ra.Classifier(net, mean, std, prepare=...)."
        )


def preprocessing_of(processor: Any, channels: int, source: str) -> Preprocessing:
    """Return what a processor does to pictures.

    Args:
        processor: an image processor of transformers.
        channels: of the pictures that the network takes, 3 or 1.
        source: the name of the model, for messages.

    Raises:
        UserError: the processor is not linear, or does something else than resize, cut out, normalise and reorder.
    """
    watched = _Watched(processor, channels, source)
    order, mean, std = _colours(watched)
    pictures = [_pattern(sides, channels) for sides in _SIDES]
    seen = [_pixels_of(watched.answer(picture), order, mean, std) for picture in pictures]
    sizing = _sizing(watched, order, mean, std, pictures, seen)
    pictures = _larger_pictures(sizing, channels)
    seen = [_pixels_of(watched.answer(picture), order, mean, std) for picture in pictures]
    sizing = min(_interpolated(sizing), key=lambda each: _differences(each, pictures, seen)[1])
    largest, average = _differences(sizing, pictures, seen)
    if np.isinf(largest):
        raise watched.refused("it makes pictures of some sizes larger or smaller than of others")
    if largest > _MOST or average > _MEAN:
        raise watched.refused(f"its pixels and ours differ by up to {largest:.3g} of 255, {average:.2g} on average")
    keeps_order = order == tuple(range(channels))
    changes = sizing.resize is not None or sizing.crop is not None
    prepare = None if keeps_order and not changes else _with_channels(sizing, None if keeps_order else order)
    plain = bool(np.allclose(mean, 0, atol=1e-7) and np.allclose(std, 1, atol=1e-7))
    answer = watched.answer(pictures[0])
    return Preprocessing(
        prepare,
        mean=None if plain else _figures(mean),
        std=None if plain else _figures(std),
        values=torch.from_numpy(answer),
        pixels=torch.from_numpy(_pixels_of(answer, order, mean, std) / 255).clamp(0, 1),
    )


def _with_channels(sizing: Resizing, order: tuple[int, ...] | None) -> Resizing:
    return Resizing(sizing.resize, sizing.crop, sizing.interpolation, sizing.middle, order)


def _figures(values: Pixels) -> tuple[float, ...]:
    """Return numbers without the digits that float32 has made up."""
    return tuple(float(f"{value:.7g}") + 0.0 for value in values)


def _colours(watched: _Watched) -> tuple[tuple[int, ...], Pixels, Pixels]:
    """Return the order of the channels, and the mean and deviation of each in that order."""
    black = _values_of_colour(watched, np.zeros(watched.channels, np.uint8))
    lit = [
        _values_of_colour(watched, 255 * np.eye(watched.channels, dtype=np.uint8)[k]) for k in range(watched.channels)
    ]
    scale = np.stack(lit, 1) - black[:, None]
    order = tuple(np.abs(scale).argmax(1).tolist())
    own = scale[np.arange(watched.channels), order]
    rest = np.abs(scale).sum(1) - np.abs(own)
    if sorted(order) != list(range(watched.channels)) or (own <= 0).any() or (rest > 1e-4 * own).any():
        raise watched.refused("it does not scale and shift each channel of a picture by itself")
    std = 1 / own
    return order, -black * std, std


def _values_of_colour(watched: _Watched, colour: NDArray[np.uint8]) -> Pixels:
    """Return the values [C] that a processor makes of the middle of a picture of one ``colour`` [C]."""
    values = watched.answer(np.broadcast_to(colour, (*_SIDES[0], watched.channels)).copy())
    return values[:, values.shape[1] // 2, values.shape[2] // 2]


def _pixels_of(values: Pixels, order: tuple[int, ...], mean: Pixels, std: Pixels) -> Pixels:
    """Return the pixels [C, h, w], in [0, 255] and in the order of the picture, behind the values of a processor."""
    return 255 * (values * std[:, None, None] + mean[:, None, None])[np.argsort(order)]


def _sizing(
    watched: _Watched, order: tuple[int, ...], mean: Pixels, std: Pixels, pictures: list[Any], seen: list[Pixels]
) -> Resizing:
    """Return how pictures are resized and cut out; the interpolation may be another one."""
    finals = [(pixels.shape[1], pixels.shape[2]) for pixels in seen]
    if finals == list(_SIDES):
        return Resizing(None)
    found: list[Size] = []
    for sides in _SIDES:
        ramps = [_ramp(sides, axis, watched.channels) for axis in (0, 1)]
        ends = [_pixels_of(watched.answer(ramp), order, mean, std).mean(0) for ramp in ramps]
        lengths = [_resized_length(values, sides[axis], axis) for axis, values in enumerate(ends)]
        if None in lengths:
            raise watched.refused(f"it turns or distorts a picture of {_size_in_words(sides)}")
        found.append((round(lengths[0] or 0), round(lengths[1] or 0)))
    crop = finals[0] if len(set(finals)) == 1 else None
    candidates = list(_candidates(found, finals, crop))
    if not candidates:
        before, after = (", ".join(map(_size_in_words, sizes)) for sizes in (_SIDES, found))
        raise watched.refused(f"it resizes pictures of {before} to {after}")
    ways = [each for candidate in candidates for each in _interpolated(candidate)]
    return min(ways, key=lambda each: _differences(each, pictures, seen)[1])


def _candidates(found: list[Size], finals: list[Size], crop: Size | None) -> Iterator[Resizing]:
    """Yield the rules under which the pictures of :data:`_SIDES` come near the sizes ``found``, then ``finals``."""
    cut = crop is not None and any(_far(size, crop) for size in found)
    near = range(-_AROUND, _AROUND + 1)
    if not any(_far(size, sides) for size, sides in zip(found, _SIDES, strict=True)):
        yield Resizing(None, crop, middle="transformers")
    if not any(_far(size, found[0]) for size in found):
        if crop is not None and not cut:
            yield Resizing(crop)
        elif crop is not None:
            for rows, columns in itertools.product(near, near):
                yield Resizing((found[0][0] + rows, found[0][1] + columns), crop, middle="transformers")
    for side in (min(found[0]) + step for step in near):
        rule = Resizing(side, crop, middle="transformers")
        targets = [
            (side * height // min(height, width), side * width // min(height, width)) for height, width in _SIDES
        ]
        near_all = not any(_far(size, target) for size, target in zip(found, targets, strict=True))
        if side > 0 and near_all and (crop is not None or targets == finals):
            yield rule


def _far(one: Size, other: Size) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) > _AROUND * (1 + max(other) // 256)


def _interpolated(sizing: Resizing) -> list[Resizing]:
    """Return a rule with each interpolation."""
    if sizing.resize is None:
        return [sizing]
    return [Resizing(sizing.resize, sizing.crop, name, sizing.middle) for name in INTERPOLATIONS]


def _differences(sizing: Resizing, pictures: list[Any], seen: list[Pixels]) -> tuple[float, float]:
    """Return the largest and the mean difference, in 255ths, between our pixels and those of a processor."""
    largest, sums = 0.0, []
    for picture, pixels in zip(pictures, seen, strict=True):
        ours = 255 * sizing.resized_and_cut(_as_input(picture))[0].numpy()
        if ours.shape != pixels.shape:
            return float("inf"), float("inf")
        differences = np.abs(ours - pixels)
        largest = max(largest, float(differences.max()))
        sums.append(float(differences.mean()))
    return largest, float(np.mean(sums))


def _as_input(picture: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(picture.transpose(2, 0, 1)[None] / np.float64(255))


def _larger_pictures(sizing: Resizing, channels: int) -> list[Any]:
    """Return pictures that ``sizing`` makes smaller, and others that it makes larger; with odd margins."""
    resized = (sizing.resize,) if isinstance(sizing.resize, int) else sizing.resize or ()
    side = max([_SIDES[0][0], *(sizing.crop or ()), *resized])
    sizes = [*_SIDES, (2 * side + 13, 3 * side - 8), (2 * side - 4, side + 37)]
    return [_pattern(sides, channels) for sides in sizes]


def _ramp(sides: Size, axis: int, channels: int) -> NDArray[np.uint8]:
    """Return a picture [H, W, C] that becomes brighter along an axis."""
    values = np.linspace(_DARK, _BRIGHT, sides[axis])
    ramp = values[:, None] if axis == 0 else values[None]
    return np.broadcast_to(ramp[..., None], (*sides, channels)).round().astype(np.uint8)


def _resized_length(values: Pixels, length: int, axis: int) -> float | None:
    """Return to how many pixels ``length`` was resized, from a ramp [h, w] along an axis; None: it is none."""
    line = values[:, values.shape[1] // 2] if axis == 0 else values[values.shape[0] // 2]
    inside = np.flatnonzero(line > _EDGE)
    margin = len(inside) // 8
    inside = inside[margin : len(inside) - margin]
    if len(inside) < 4:
        return None
    slope, start = np.polyfit(inside, line[inside], 1)
    if slope <= 0 or np.abs(line[inside] - slope * inside - start).max() > 3 * max(
        1.0, slope, (_BRIGHT - _DARK) / length
    ):
        return None
    return float((_BRIGHT - _DARK) / (length - 1) * length / slope)


def _pattern(sides: Size, channels: int) -> NDArray[np.uint8]:
    """Return a picture [H, W, C] with details of several sizes and no pixel near black or white, where rounding would
    cut off what Pillow overshoots."""
    height, width = sides
    y, x = np.mgrid[:height, :width]
    waves = [
        np.sin(0.9 * x + 0.4 * y + k) + np.sin(0.07 * x - 0.11 * y + 2 * k) + np.sin(0.3 * y + 0.02 * k * x)
        for k in range(channels)
    ]
    return (127 + 25 * np.stack(waves, 2)).round().astype(np.uint8)


def _size_in_words(sides: Any) -> str:
    return f"{sides[1]} x {sides[0]} pixels"
