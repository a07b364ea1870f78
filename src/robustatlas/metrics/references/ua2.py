"""Published UA2 of the authors of ImageNet-UA, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter

from robustatlas.common.documents import read_json, validate
from robustatlas.common.errors import UserError
from robustatlas.common.wording import suggestion
from robustatlas.metrics.references.imagenet_ua import Level


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
