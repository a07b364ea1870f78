"""That an evaluation stopped before it had searched all samples, since enough was known (``stops/HASH.json``)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustatlas.outcomes.base import Record
from robustatlas.outcomes.hashes import digest
from robustatlas.outcomes.records import MOST_SAMPLES, AttackName


class StopRecord(Record):
    """An evaluation that took samples in random order, and stopped.

    Attributes:
        attacks: whose accuracies were known well enough.
        order: positions in the data set of the samples that were searched, as they were drawn.
        population: number of samples that there were to draw from.
        until: percentage points to which every accuracy was known either way, or ``"separated"`` from another run.
        created: when it stopped, in UTC.

    Example:
        >>> StopRecord(attacks=("linf",), order=(4, 0, 2), population=9, until=2.0).index.tolist()
        [4, 0, 2]
    """

    attacks: tuple[AttackName, ...] = Field(min_length=1)
    order: tuple[Annotated[int, Field(ge=0, le=MOST_SAMPLES)], ...] = Field(min_length=1)
    population: int = Field(ge=1, le=MOST_SAMPLES)
    until: float | Literal["separated"]
    created: str = ""

    @property
    def name(self) -> str:
        """Of its file; the same for the same samples of the same attacks."""
        return digest([list(self.attacks), list(self.order), self.population])

    @property
    def index(self) -> NDArray[np.int64]:
        """Positions of the samples, as they were drawn."""
        return np.array(self.order, np.int64)
