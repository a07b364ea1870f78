"""Common corruptions: 19 kinds of random noise, blur, weather and digital artefacts at five severities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, select
from robustatlas.common.errors import UserError
from robustatlas.common.host import to_host, true_rows
from robustatlas.common.noise import Noise
from robustatlas.threats import corruption_maps as maps
from robustatlas.threats.base import ThreatModel, UnsupportedInputError

LARGEST_SMALL_SIDE = 64
"""Images with sides up to this many pixels use the parameters of CIFAR-10-C, larger ones those of ImageNet-C."""


@dataclass(frozen=True)
class _Definition:
    """Corruption and its parameters for the severities 1 to 5, for small and for large images."""

    corrupt: Callable[..., Tensor]
    small: tuple[tuple[float, ...], ...]
    large: tuple[tuple[float, ...], ...]


def _single(*values: float) -> tuple[tuple[float, ...], ...]:
    return tuple((value,) for value in values)


def _scaled_by_side(side: float, *shares: tuple[float, float, float]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(side * share for share in triple) for triple in shares)


_DEFINITIONS = {
    "gaussian_noise": _Definition(
        maps.gaussian_noise, _single(0.04, 0.06, 0.08, 0.09, 0.10), _single(0.08, 0.12, 0.18, 0.26, 0.38)
    ),
    "shot_noise": _Definition(maps.shot_noise, _single(500, 250, 100, 75, 50), _single(60, 25, 12, 5, 3)),
    "impulse_noise": _Definition(
        maps.impulse_noise, _single(0.01, 0.02, 0.03, 0.05, 0.07), _single(0.03, 0.06, 0.09, 0.17, 0.27)
    ),
    "defocus_blur": _Definition(
        maps.defocus_blur,
        ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    ),
    "glass_blur": _Definition(
        maps.glass_blur,
        ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    ),
    "motion_blur": _Definition(
        maps.motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)), ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))
    ),
    "zoom_blur": _Definition(
        maps.zoom_blur,
        ((1.06, 0.01), (1.11, 0.01), (1.15, 0.01), (1.2, 0.01), (1.25, 0.01)),
        ((1.11, 0.01), (1.15, 0.01), (1.2, 0.02), (1.24, 0.02), (1.30, 0.03)),
    ),
    "snow": _Definition(
        maps.snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    ),
    "frost": _Definition(
        maps.frost,
        ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
        ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    ),
    "fog": _Definition(
        maps.fog,
        ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    ),
    "brightness": _Definition(maps.brightness, _single(0.05, 0.1, 0.15, 0.2, 0.3), _single(0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": _Definition(maps.contrast, _single(0.75, 0.5, 0.4, 0.3, 0.15), _single(0.4, 0.3, 0.2, 0.1, 0.05)),
    "elastic_transform": _Definition(
        maps.elastic_transform,
        _scaled_by_side(32, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
        _scaled_by_side(244, (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)),
    ),
    "pixelate": _Definition(maps.pixelate, _single(0.95, 0.9, 0.85, 0.75, 0.65), _single(0.6, 0.5, 0.4, 0.3, 0.25)),
    "jpeg_compression": _Definition(maps.jpeg_compression, _single(80, 65, 58, 50, 40), _single(25, 18, 15, 10, 7)),
    "speckle_noise": _Definition(
        maps.speckle_noise, _single(0.06, 0.1, 0.12, 0.16, 0.2), _single(0.15, 0.2, 0.35, 0.45, 0.6)
    ),
    "gaussian_blur": _Definition(maps.gaussian_blur, _single(0.4, 0.6, 0.7, 0.8, 1), _single(1, 2, 3, 4, 6)),
    "spatter": _Definition(
        maps.spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        (
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ),
    ),
    "saturate": _Definition(
        maps.saturate,
        ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    ),
}
CORRUPTIONS = tuple(_DEFINITIONS)
"""The names of all corruptions."""


@dataclass(frozen=True)
class CorruptionTheta(Bundle):
    """``severity`` [B] and corrupted ``image`` [B, C, H, W]."""

    severity: Fixed
    image: Fixed


@dataclass(frozen=True)
class Corruption(ThreatModel):
    """One common corruption (Hendrycks and Dietterich 2019).

    ``epsilon`` is the severity, 1 to 5, rounded down.

    :meth:`start` draws the corruption; nothing is optimised. A severity above ``epsilon`` is projected to the clean
    image. Each sample has its own random numbers. ``frost`` lays a procedural texture over the image, ``motion_blur``
    and ``snow`` follow ImageMagick's description, and ``spatter`` uses the borders of drops instead of Canny's edges.
    Images are not rounded to 8 bits at the end.

    Args:
        name: one of :data:`CORRUPTIONS`.

    Example:
        >>> import torch
        >>> threat = Corruption("gaussian_noise")
        >>> x = torch.rand(2, 3, 32, 32)
        >>> noise = Noise.for_samples(seed=0, indices=torch.arange(2), purpose="example")
        >>> theta = threat.start(x, torch.tensor([1.0, 5.0]), noise)
        >>> threat.size(x, theta)
        tensor([1., 5.])
    """

    levels: ClassVar[tuple[float, ...]] = (1.0, 2.0, 3.0, 4.0, 5.0)
    optimised: ClassVar[bool] = False

    name: str

    def __post_init__(self) -> None:
        if self.name not in _DEFINITIONS:
            raise UserError(f"There is no corruption called {self.name!r}; choose one of {', '.join(CORRUPTIONS)}.")

    def check(self, x: Tensor) -> None:
        """Raise unless ``x`` contains grey or RGB images (``saturate``: RGB images) of 8 by 8 pixels or more."""
        channels = (3,) if self.name == "saturate" else (1, 3)
        if x.dim() != 4 or x.shape[1] not in channels or min(x.shape[2:]) < 8:
            wanted = "RGB" if channels == (3,) else "grey or RGB"
            raise UnsupportedInputError(
                f"corruption-{self.name} needs {wanted} images [B, C, H, W] of at least 8 by 8 pixels; "
                f"got shape {tuple(x.shape)}: leave this attack out for this data."
            )

    def neutral(self, x: Tensor) -> CorruptionTheta:
        return CorruptionTheta(Fixed(x.new_zeros(len(x))), Fixed(x))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> CorruptionTheta:
        severity = epsilon.floor().clamp(0, 5)
        definition = _DEFINITIONS[self.name]
        table = definition.small if max(x.shape[2:]) <= LARGEST_SMALL_SIDE else definition.large
        corrupted = x.clone()
        levels = [severity == level for level, _ in enumerate(table, start=1)]
        for parameters, mask, count in zip(table, levels, to_host(*(mask.sum() for mask in levels)), strict=True):
            if count:
                rows = true_rows(mask, count)
                corrupted[rows] = definition.corrupt(x[rows], noise.take(rows), *parameters).clamp(0, 1)
        return CorruptionTheta(Fixed(severity), Fixed(corrupted))

    def apply(self, x: Tensor, theta: CorruptionTheta) -> Tensor:
        return theta.image.values

    def project(self, x: Tensor, theta: CorruptionTheta, epsilon: Tensor) -> CorruptionTheta:
        """Return ``theta`` if its severity is at most ``epsilon``, else the clean image."""
        return select(theta.severity.values <= epsilon, theta, self.neutral(x))

    def steepest(self, x: Tensor, gradient: CorruptionTheta) -> CorruptionTheta:
        return gradient

    def size(self, x: Tensor, theta: CorruptionTheta) -> Tensor:
        return theta.severity.values
