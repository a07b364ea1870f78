"""Readings of indicators at the samples of a model (``diagnoses/HASH.json``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustatlas.common.errors import UserError
from robustatlas.outcomes.base import Record
from robustatlas.outcomes.hashes import digest
from robustatlas.outcomes.records import MOST_SAMPLES

Severity = Literal["masked", "doubtful", "note"]
"""Verdict that a flag causes: ``"masked"`` (attacks by gradients are blind at many samples), ``"doubtful"``, or
``"note"`` (worth knowing; the search is not concerned)."""


class Reading(Record):
    """One indicator at the samples of a diagnosis.

    Attributes:
        severity: what a flag makes of the verdict.
        threshold: share of the samples above which the model is flagged.
        limit: from which value on a sample is doubtful, in words.
        means: what a flag says.
        remedy: what to do then.
        code: the remedy as one line of Python; empty where there is nothing to do.
        decides: whether the verdict counts it.
        values: [n] what was measured; None where nothing can be said.
        doubtful: rows, from 0, of the samples that it speaks against.
        attack: that was looked at where its searches ended; empty: the samples themselves were looked at.
        strengths: of that attack, increasing, that were looked at; none of the samples themselves.

    Example:
        >>> reading = Reading(name="gradient", severity="masked", threshold=0.1, values=(1.0, 0.2, None), doubtful=(1,))
        >>> reading.value_count
        2
    """

    name: str
    severity: Severity
    threshold: float = Field(ge=0, le=1)
    limit: str = ""
    means: str = ""
    remedy: str = ""
    code: str = ""
    source: str = ""
    decides: bool = True
    values: tuple[float | None, ...] = ()
    doubtful: tuple[int, ...] = ()
    attack: str = ""
    strengths: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Reading:
        if any(not 0 <= row < len(self.values) or self.values[row] is None for row in self.doubtful):
            raise UserError(f"The reading of {self.name!r} doubts samples that it has no value of.")
        return self

    @property
    def value_count(self) -> int:
        """Number of samples of which something can be said."""
        return sum(value is not None for value in self.values)


class DiagnosisRecord(Record):
    """Readings of all indicators at samples ``index`` [n], positions in the data set of correctly classified samples.
    ``asked``: names the question, that is attacks, samples to choose from and seed. ``told``: whether anything can be
    told: attacks by gradients were asked for, or such with nothing to optimise. ``forward``, ``backward``: passes a
    sample."""

    asked: str
    created: str = ""
    told: bool = True
    index: tuple[Annotated[int, Field(ge=0, le=MOST_SAMPLES)], ...] = ()
    readings: tuple[Reading, ...] = ()
    forward: float = 0.0
    backward: float = 0.0

    @model_validator(mode="after")
    def _check(self) -> DiagnosisRecord:
        for reading in self.readings:
            if len(reading.values) != len(self.index):
                raise UserError(
                    f"The reading of {reading.name!r} has {len(reading.values)} values for {len(self.index)} samples."
                )
        return self

    @property
    def name(self) -> str:
        """Name of its file."""
        return digest([self.asked, [[r.name, *r.strengths] if r.strengths else r.name for r in self.readings]])
