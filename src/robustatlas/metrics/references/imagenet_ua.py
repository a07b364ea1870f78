"""The three levels of ImageNet-UA: at which strengths its attacks are calibrated, on ImageNet and on CIFAR-10."""

from typing import Literal

Level = Literal["low", "medium", "high"]
LEVELS: tuple[Level, ...] = ("low", "medium", "high")

Strengths = tuple[float, float, float]

CORE = ("jpeg", "elastic", "wood", "glitch", "kaleidoscope", "pixel", "snow", "gabor")
"""The attacks that UA2 is the mean over."""
EXTRA = ("edge", "fbm", "fog", "hsv", "klotski", "mix", "polkadot", "prison", "blur", "texture", "whirlpool")

_SAME: dict[str, Strengths] = {
    "jpeg": (1 / 255, 3 / 255, 6 / 255),
    "elastic": (0.1, 0.25, 0.5),
    "wood": (0.03, 0.05, 0.1),
    "kaleidoscope": (0.05, 0.1, 0.15),
    "edge": (0.03, 0.1, 0.3),
    "fbm": (0.02, 0.04, 0.08),
    "fog": (0.3, 0.4, 0.5),
    "hsv": (0.01, 0.02, 0.03),
    "klotski": (0.03, 0.05, 0.1),
    "polkadot": (1.0, 2.0, 3.0),
    "prison": (0.01, 0.03, 0.1),
    "blur": (0.1, 0.3, 0.6),
    "texture": (0.01, 0.1, 0.2),
}
IMAGENET: dict[str, Strengths] = _SAME | {
    "glitch": (0.03, 0.05, 0.07),
    "pixel": (3.0, 5.0, 10.0),
    "snow": (10.0, 15.0, 25.0),
    "gabor": (0.02, 0.04, 0.06),
    "mix": (5.0, 10.0, 40.0),
    "whirlpool": (10.0, 40.0, 100.0),
}
"""Low, medium and high on images of 224x224 pixels, as published."""
CIFAR10: dict[str, Strengths] = _SAME | {
    "glitch": (0.03, 0.05, 0.1),
    "pixel": (1.0, 5.0, 10.0),
    "snow": (3.0, 4.0, 5.0),
    "gabor": (0.02, 0.03, 0.04),
    "mix": (1.0, 5.0, 10.0),
    "whirlpool": (20.0, 100.0, 200.0),
}
"""Low, medium and high on images of 32x32 pixels, as published."""


def to_sound_units(attack: str, strengths: Strengths) -> Strengths:
    """Return the levels in the unit of our threat model: snow counts full flakes, the square of the published norm.

    Example:
        >>> to_sound_units("snow", (3.0, 4.0, 5.0)), to_sound_units("fog", (0.3, 0.4, 0.5))
        ((9.0, 16.0, 25.0), (0.3, 0.4, 0.5))
    """
    if attack != "snow":
        return strengths
    low, medium, high = strengths
    return low**2, medium**2, high**2
