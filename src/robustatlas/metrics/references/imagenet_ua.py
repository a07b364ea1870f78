"""The three levels of ImageNet-UA, at which its attacks are calibrated, and the published UA2 of its authors."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter

from robustatlas.common.documents import read_json, validate
from robustatlas.common.errors import UserError
from robustatlas.common.wording import suggestion

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


@dataclass(frozen=True)
class UA2Model:
    """One model: accuracies in percent.

    Attributes:
        name: as the authors have it, with the training (Linf and L2 are adversarial trainings).
        clean: clean accuracy.
        pgd: under PGD of 50 steps, linf 4/255; no part of UA2.
        low, medium, high: UA2 at the three levels, by the published protocol.

    Example:
        >>> published_ua2("imagenet").models[0].medium
        27.72
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    clean: float
    pgd: float
    low: float
    medium: float
    high: float


@dataclass(frozen=True)
class PublishedUA2:
    """Published models on one data set, best at the medium level first.

    Attributes:
        data: name of the data set.
        images: how many were attacked.
        source: where the numbers come from.
        read: level -> how its numbers were read.
        models: the models.

    Example:
        >>> published_ua2("cifar10").read["medium"]
        'read off a bar chart'
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    data: str
    images: int
    source: str
    read: Mapping[Level, str]
    models: tuple[UA2Model, ...]


def published_ua2(data: str) -> PublishedUA2:
    """Return UA2 of published models. By the published protocol on the published threat models: only numbers of
    ``protocol="paper"`` compare with them.

    Args:
        data: ``"imagenet"``, ``"cifar10"`` or ``"imagenet100"``.

    Returns:
        the models with the source of their numbers.

    Raises:
        UserError: nothing is published for that data set.

    Example:
        >>> published = published_ua2("imagenet")
        >>> len(published.models), published.images
        (70, 50000)
    """
    tables = _tables()
    if data not in tables:
        raise UserError(
            f"UA2 is not published for {data!r}" + suggestion(data, tables, f"it is for {', '.join(tables)}")
        )
    return tables[data]


@cache
def _tables() -> Mapping[str, PublishedUA2]:
    path = Path(str(files("robustatlas.metrics.references"))) / "ua2.json"
    found = validate(TypeAdapter(tuple[PublishedUA2, ...]), read_json(path), path.name)
    return {table.data: table for table in found}
