"""The diagnosis of a model: the verdict, the findings that it rests on, and the samples that they speak against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.checks.findings import Finding, Remedy, strengths_at_ends
from robustatlas.checks.sentences import diagnosis_sentence, flags_to_report
from robustatlas.checks.verdict import Verdict, decide_verdict
from robustatlas.common.tabular import Grid, Tabular, object_column
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import MARK, pluralise
from robustatlas.outcomes.records import DiagnosisRecord


@dataclass(frozen=True, repr=False)
class SampleTable(Tabular):
    """Values of each indicator, sample by sample.

    Attributes:
        index: [n] positions of the samples in the data set.
        columns: name of the indicator -> [n] measured values, NaN where it says nothing.
        doubts: name of the indicator -> [n] True where it speaks against the sample.

    Example:
        >>> table = SampleTable(np.array([7]), {"gradient": np.array([0.1])}, {"gradient": np.array([True])})
        >>> table.doubtful
        array([7])
    """

    index: NDArray[np.int64]
    columns: dict[str, NDArray[np.float64]]
    doubts: dict[str, NDArray[np.bool_]]

    @property
    def doubtful(self) -> NDArray[np.int64]:
        """Positions of the samples that any indicator speaks against."""
        return self.index[np.any(list(self.doubts.values()), axis=0)] if self.doubts else self.index[:0]

    def select(self, index: NDArray[np.int64]) -> SampleTable:
        """Return the rows at some positions."""
        rows = np.isin(self.index, index)
        columns = {name: values[rows] for name, values in self.columns.items()}
        return SampleTable(self.index[rows], columns, {name: values[rows] for name, values in self.doubts.items()})

    def _grid(self) -> Grid:
        rows = [
            (
                str(position),
                *(f"{self.columns[name][row]:.3g}{' !' if doubt[row] else ''}" for name, doubt in self.doubts.items()),
            )
            for row, position in enumerate(self.index.tolist())
        ]
        return Grid("! speaks against the sample", ("sample", *self.columns), rows, tuple(range(len(self.columns) + 1)))

    def _columns(self) -> dict[str, NDArray[Any]]:
        doubts = {f"{name} doubtful": values for name, values in self.doubts.items()}
        return {"index": self.index, **self.columns, **doubts}


@dataclass(frozen=True)
class Diagnosis(Tabular):
    """Diagnosis of a model: can its robustness numbers be trusted, and why.

    Attributes:
        verdict: ``"sound"``, ``"doubtful"``, ``"masked"`` or ``"inconclusive"``.
        indicators: finding of each indicator, with value, threshold, share, source and remedy.
        record: the diagnosis as a run stores it.

    Example:
        >>> import robustatlas as ra
        >>> diagnosis = ra.diagnose(ra.load_model("builtin:digits-linf"), ra.load_dataset("digits"), samples=40)
        >>> diagnosis.verdict, diagnosis.flags
        ('sound', ())
    """

    verdict: Verdict
    indicators: tuple[Finding, ...]
    record: DiagnosisRecord

    @classmethod
    def from_record(cls, record: DiagnosisRecord, more_findings: Sequence[Finding] = ()) -> Diagnosis:
        """Return the diagnosis that the readings of a record and some more findings lead to."""
        findings = (*(Finding.from_reading(reading) for reading in record.readings), *more_findings)
        return cls(decide_verdict(findings, record), findings, record)

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the indicators that are flagged."""
        return tuple(finding.name for finding in self.indicators if finding.flagged)

    @property
    def has_doubts(self) -> bool:
        """True if the verdict speaks against the numbers: ``"doubtful"`` or ``"masked"``."""
        return self.verdict in ("doubtful", "masked")

    @property
    def blind_share(self) -> float:
        """Share of the samples, from 0 to 1, at which attacks by gradients are blind."""
        blind = [finding.reading for finding in self.indicators if finding.severity == "masked"]
        rows = {row for reading in blind if not reading.attack for row in reading.doubtful}
        at_ends = [len(reading.doubtful) / max(1, reading.value_count) for reading in blind if reading.attack]
        return max([len(rows) / max(1, len(self.record.index)), *at_ends])

    @property
    def checked_strengths(self) -> dict[str, tuple[float, ...]]:
        """Attack -> its strengths, increasing, at which the ends of its searches were looked at."""
        return strengths_at_ends(self.indicators)

    @property
    def can_change(self) -> bool:
        """True if a look at the ends of searches can still change the verdict."""
        return self.record.told and self.verdict in ("sound", "doubtful")

    @property
    def samples(self) -> SampleTable:
        """Values of each indicator, sample by sample."""
        index = np.array(self.record.index, np.int64)
        columns, doubts = {}, {}
        for reading in self.record.readings:
            values = [np.nan if value is None else value for value in reading.values]
            columns[reading.name] = np.array(values, np.float64)
            doubts[reading.name] = np.isin(np.arange(len(index)), reading.doubtful)
        return SampleTable(index, columns, doubts)

    @property
    def sentence(self) -> str:
        """Verdict and reasons, for the first line of a result."""
        return diagnosis_sentence(self.verdict, self.indicators, self.record)

    @property
    def warning(self) -> str:
        """Text of a warning; empty if the verdict does not speak against the numbers."""
        return f"{MARK} {self.sentence}" if self.has_doubts else ""

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Advice on each flag that says something of the numbers."""
        return tuple(Remedy(each.name, f"{each.remedy}.", each.code) for each in flags_to_report(self.indicators))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "verdict": self.verdict,
            "flags": list(self.flags),
            "sentence": self.sentence,
            "remedies": [asdict(remedy) for remedy in self.remedies],
            "indicators": {finding.name: finding.to_dict() for finding in self.indicators},
            "samples": len(self.record.index),
            "looked_at": {
                attack: [value_as_typed(attack, each) for each in strengths]
                for attack, strengths in self.checked_strengths.items()
            },
            "doubted": self.samples.doubtful.tolist(),
        }

    def __repr__(self) -> str:
        return f"{self.sentence}\n{self._grid().text()}"

    def _grid(self) -> Grid:
        rows = [
            (
                finding.name,
                "-" if not finding.flagged else "flagged" if finding.decides else "noted",
                "-" if finding.share is None else f"{finding.share.value:.1f} %",
                "" if finding.share is None else f"{finding.share.low:.1f} to {finding.share.high:.1f}",
                f"{finding.threshold:.0f} %",
                "-" if finding.value is None else f"{finding.value:.3g}",
            )
            for finding in self.indicators
        ]
        headings = ("indicator", "", "doubtful", "95 % interval", "limit", "median")
        return Grid(f"{self.verdict} ({pluralise(len(self.record.index), 'sample')})", headings, rows, (2, 4, 5))

    def _columns(self) -> dict[str, NDArray[Any]]:
        found = self.indicators
        ends: dict[str, Sequence[float]] = {
            name: [np.nan if f.share is None else getattr(f.share, name) for f in found]
            for name in ("value", "low", "high")
        }
        return {
            "indicator": object_column([f.name for f in found]),
            "flagged": np.array([f.flagged for f in found]),
            "share": np.array(ends["value"]),
            "low": np.array(ends["low"]),
            "high": np.array(ends["high"]),
            "threshold": np.array([f.threshold for f in found]),
            "doubtful where": object_column([f.reading.limit for f in found]),
            "remedy": object_column([f.remedy for f in found]),
            "code": object_column([f.code for f in found]),
        }
