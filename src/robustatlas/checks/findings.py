"""Findings: what one indicator says of a model, from the share of the samples that it speaks against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustatlas.common.wording import pluralise
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.outcomes.records import DiagnosisRecord, Reading, Severity


@dataclass(frozen=True)
class Finding:
    """Finding of one indicator in a diagnosis.

    Attributes:
        name: name of the indicator.
        value: median of the measured values; None if no sample has one.
        share: share of the samples that it speaks against, in percent, with its 95 % interval; None as above.
        threshold: share in percent. The model is flagged if the lower end of the interval exceeds it.
        flagged: True if the model is flagged.
        samples: number of samples that have a value.
        reading: the values, sample by sample, with ``limit``, ``means``, ``remedy``, ``code`` and ``source``.
        can_leave_open: True if too wide an interval leaves the verdict open.

    Example:
        >>> reading = Reading(name="gradient", severity="masked", threshold=0.1, values=(0.1,) * 20, doubtful=range(20))
        >>> finding = Finding.from_reading(reading)
        >>> finding.flagged, round(finding.share.low)
        (True, 83)
    """

    name: str
    value: float | None
    share: Interval | None
    threshold: float
    flagged: bool
    samples: int
    reading: Reading
    can_leave_open: bool = True

    @classmethod
    def from_reading(cls, reading: Reading) -> Finding:
        """Return the finding that follows from a reading of samples."""
        known = [value for value in reading.values if value is not None]
        share = proportion_interval(len(reading.doubtful), len(known)) if known else None
        limit = 100 * reading.threshold
        flagged = share is not None and share.low > limit
        value = float(np.median(known)) if known else None
        return cls(reading.name, value, share, limit, flagged, len(known), reading)

    @property
    def severity(self) -> Severity:
        """Verdict that a flag leads to."""
        return self.reading.severity

    @property
    def remedy(self) -> str:
        """Advice for a flagged model."""
        return self.reading.remedy

    @property
    def code(self) -> str:
        """Line of Python that carries out the remedy; empty if there is nothing to do."""
        return self.reading.code

    @property
    def source(self) -> str:
        """Publication of the indicator."""
        return self.reading.source

    @property
    def decides(self) -> bool:
        """True if the verdict counts this finding."""
        return self.reading.decides and self.severity != "note"

    @property
    def sentence(self) -> str:
        """Sentence that says in how many samples the sign was seen."""
        if self.share is None:
            return f"{self.name}: nothing can be said."
        of = f"{len(self.reading.doubtful)} of {pluralise(self.samples, 'sample')}"
        ends = f"{self.share.value:.0f} %, {self.share.low:.0f} to {self.share.high:.0f}"
        return f"{self.reading.means} at {of} ({ends})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "flagged": self.flagged,
            "decides": self.decides,
            "value": self.value,
            "share": None if self.share is None else self.share.value,
            "low": None if self.share is None else self.share.low,
            "high": None if self.share is None else self.share.high,
            "threshold": self.threshold,
            "source": self.source,
            "remedy": self.remedy,
            "code": self.code,
        }


@dataclass(frozen=True)
class Remedy:
    """Advice on one flag.

    Attributes:
        flag: name of the indicator.
        sentence: the advice.
        code: the same as one line of Python, in which ``net`` is the network, ``model`` the model, ``data`` the data
            set, ``step`` the function inside of the network that the flag is about, and ``smooth`` one like it.

    Example:
        >>> print(Remedy("batch", "Evaluate one sample at a time.", "ra.evaluate(model, data, batch_size=1)"))
        batch: Evaluate one sample at a time.
            ra.evaluate(model, data, batch_size=1)
    """

    flag: str
    sentence: str
    code: str

    def __str__(self) -> str:
        lines = [f"{self.flag}: {self.sentence}", f"    {self.code}"]
        return "\n".join(lines if self.code else lines[:1])


def strengths_at_ends(findings: Iterable[Finding]) -> dict[str, tuple[float, ...]]:
    """Return for each attack its strengths, increasing, at which the ends of its searches were looked at."""
    strengths: dict[str, set[float]] = {}
    for finding in findings:
        if finding.reading.attack:
            strengths.setdefault(finding.reading.attack, set()).update(finding.reading.strengths)
    return {attack: tuple(sorted(values)) for attack, values in strengths.items()}


def findings_at_other_strengths(records: Sequence[DiagnosisRecord]) -> list[Finding]:
    """Return what earlier records found at ends of searches, at strengths that no later record looked at.

    Args:
        records: diagnoses of one run, the oldest first.
    """
    seen: set[tuple[str, float]] = set()
    found: list[Finding] = []
    for record in reversed(records):
        for reading in record.readings:
            entries = {(reading.attack, strength) for strength in reading.strengths}
            if entries - seen and record is not records[-1]:
                found.append(Finding.from_reading(reading))
            seen |= entries
    return found
