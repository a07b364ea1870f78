"""The verdict: from shares of doubtful samples with their intervals, never from one sample or one average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.tabular import Grid, Tabular, object_column
from robustatlas.common.typed_strengths import format_strength, value_as_typed, words_up_to
from robustatlas.common.wording import MARK, join_words, list_names, pluralise
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.outcomes.readings import DiagnosisRecord, Reading, Severity

Verdict = Literal["sound", "doubtful", "masked", "inconclusive"]
"""What the indicators say together:

- ``"sound"``: none speaks against the numbers.
- ``"masked"``: attacks by gradients are blind at many samples, so robust accuracies are too high.
- ``"doubtful"``: something else speaks against the numbers.
- ``"inconclusive"``: no gradients, or fewer than 32 samples that leave more than 30 % of doubtful ones possible.
"""

EXCLUDED = 0.3
"""A model is called sound only where the intervals exclude this share of doubtful samples: the least that was seen of a
model whose robust accuracy is overestimated is 31.6 %."""
FEW = 32
"""Fewer samples, undecided, are too few; more are doubtful."""


@dataclass(frozen=True)
class Finding:
    """One indicator of a diagnosis.

    Attributes:
        name: of the indicator.
        value: the median of what was measured; None where nothing can be said.
        share: of the samples that it speaks against, in percent, with its 95 % interval; None likewise.
        threshold: share in percent above which, by the lower end of the interval, the model is flagged.
        flagged: whether it is.
        samples: of which something can be said.
        reading: what was read, sample by sample, with ``limit``, ``means``, ``remedy``, ``code`` and ``source``.
        opens: whether too wide an interval leaves the verdict open.

    Example:
        >>> reading = Reading(name="gradient", severity="masked", threshold=0.1, values=(0.1,) * 20, doubtful=range(20))
        >>> finding = Finding.of(reading)
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
    opens: bool = True

    @classmethod
    def of(cls, reading: Reading) -> Finding:
        """What a reading says of the model."""
        known = [value for value in reading.values if value is not None]
        share = proportion_interval(len(reading.doubtful), len(known)) if known else None
        limit = 100 * reading.threshold
        flagged = share is not None and share.low > limit
        value = float(np.median(known)) if known else None
        return cls(reading.name, value, share, limit, flagged, len(known), reading)

    @property
    def severity(self) -> Severity:
        """What a flag makes of the verdict."""
        return self.reading.severity

    @property
    def remedy(self) -> str:
        """What to do where it is flagged."""
        return self.reading.remedy

    @property
    def code(self) -> str:
        """Line of Python that carries out the remedy; empty where there is nothing to do."""
        return self.reading.code

    @property
    def source(self) -> str:
        """Where it was published."""
        return self.reading.source

    @property
    def decides(self) -> bool:
        """Whether the verdict counts it."""
        return self.reading.decides and self.severity != "note"

    @property
    def sentence(self) -> str:
        """What was found, in a sentence."""
        if self.share is None:
            return f"{self.name}: nothing can be said."
        of = f"{len(self.reading.doubtful)} of {pluralise(self.samples, 'sample')}"
        ends = f"{self.share.value:.0f} %, {self.share.low:.0f} to {self.share.high:.0f}"
        return f"{self.reading.means} at {of} ({ends})."


@dataclass(frozen=True)
class Remedy:
    """What to do about one flag.

    Attributes:
        flag: name of the indicator.
        sentence: what to do.
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


@dataclass(frozen=True, repr=False)
class SampleTable(Tabular):
    """Which sample, and what each indicator read of it.

    Attributes:
        index: [n] positions of the samples in the data set.
        columns: name of the indicator -> [n] what was measured, NaN where nothing can be said.
        doubted: name of the indicator -> [n] whether it speaks against the sample.

    Example:
        >>> table = SampleTable(np.array([7]), {"gradient": np.array([0.1])}, {"gradient": np.array([True])})
        >>> table.doubtful
        array([7])
    """

    index: NDArray[np.int64]
    columns: dict[str, NDArray[np.float64]]
    doubted: dict[str, NDArray[np.bool_]]

    @property
    def doubtful(self) -> NDArray[np.int64]:
        """Positions of the samples that any indicator speaks against."""
        return self.index[np.any(list(self.doubted.values()), axis=0)] if self.doubted else self.index[:0]

    def select(self, index: NDArray[np.int64]) -> SampleTable:
        """The same of some positions only."""
        rows = np.isin(self.index, index)
        columns = {name: values[rows] for name, values in self.columns.items()}
        return SampleTable(self.index[rows], columns, {name: values[rows] for name, values in self.doubted.items()})

    def _grid(self) -> Grid:
        rows = [
            (
                str(position),
                *(f"{self.columns[name][row]:.3g}{' !' if doubt[row] else ''}" for name, doubt in self.doubted.items()),
            )
            for row, position in enumerate(self.index.tolist())
        ]
        return Grid("! speaks against the sample", ("sample", *self.columns), rows, tuple(range(len(self.columns) + 1)))

    def _columns(self) -> dict[str, NDArray[Any]]:
        doubts = {f"{name} doubtful": values for name, values in self.doubted.items()}
        return {"index": self.index, **self.columns, **doubts}


@dataclass(frozen=True)
class Diagnosis(Tabular):
    """Whether a robustness number can be trusted, and why.

    Attributes:
        verdict: ``"sound"``, ``"doubtful"``, ``"masked"`` or ``"inconclusive"``.
        indicators: what each read, with value, threshold, share, source and remedy.
        record: as a run keeps it.

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
    def of(cls, record: DiagnosisRecord, besides: Sequence[Finding] = ()) -> Diagnosis:
        """The verdict on what was read, and on what was found ``besides``."""
        findings = (*(Finding.of(reading) for reading in record.readings), *besides)
        return cls(_verdict(findings, record), findings, record)

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the indicators that are flagged."""
        return tuple(finding.name for finding in self.indicators if finding.flagged)

    @property
    def doubted(self) -> bool:
        """Whether the verdict speaks against the numbers: ``"doubtful"`` or ``"masked"``."""
        return self.verdict in ("doubtful", "masked")

    @property
    def blind(self) -> float:
        """Share of the samples, from 0 to 1, at which attacks by gradients are blind."""
        blind = [finding.reading for finding in self.indicators if finding.severity == "masked"]
        rows = {row for reading in blind if not reading.attack for row in reading.doubtful}
        at_ends = [len(reading.doubtful) / max(1, reading.judged) for reading in blind if reading.attack]
        return max([len(rows) / max(1, len(self.record.index)), *at_ends])

    @property
    def looked_at(self) -> dict[str, tuple[float, ...]]:
        """Attack -> its strengths, increasing, that were looked at where its searches ended."""
        read = [finding.reading for finding in self.indicators if finding.reading.attack]
        return {
            name: tuple(sorted({strength for each in read if each.attack == name for strength in each.strengths}))
            for name in dict.fromkeys(each.attack for each in read)
        }

    @property
    def open(self) -> bool:
        """Whether a look where searches ended can still change the verdict."""
        return self.record.told and self.verdict in ("sound", "doubtful")

    @property
    def samples(self) -> SampleTable:
        """Of each sample what each indicator read."""
        index = np.array(self.record.index, np.int64)
        columns, doubted = {}, {}
        for reading in self.record.readings:
            values = [np.nan if value is None else value for value in reading.values]
            columns[reading.name] = np.array(values, np.float64)
            doubted[reading.name] = np.isin(np.arange(len(index)), reading.doubtful)
        return SampleTable(index, columns, doubted)

    @property
    def sentence(self) -> str:
        """The verdict and its reasons, for the first line of a result."""
        reasons = [finding.sentence for finding in self._telling()]
        return " ".join([f"Diagnosis: {self.verdict}. {self._meaning()}", *map(_begun, reasons)])

    @property
    def warned(self) -> str:
        """What a warning says; empty where the verdict does not speak against the numbers."""
        if not self.doubted:
            return ""
        reasons = self.sentence.partition(". ")[2]
        masked = f"{MARK} Diagnosis: masked. {reasons}"
        return masked if self.verdict == "masked" else f"{MARK} Diagnosis: doubtful. {reasons}"

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What to do about each flag that says something of the numbers."""
        return tuple(Remedy(finding.name, f"{finding.remedy}.", finding.code) for finding in self._telling())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "verdict": self.verdict,
            "flags": list(self.flags),
            "sentence": self.sentence,
            "remedies": [asdict(remedy) for remedy in self.remedies],
            "indicators": {
                finding.name: {
                    "flagged": finding.flagged,
                    "decides": finding.decides,
                    "value": finding.value,
                    "share": None if finding.share is None else finding.share.value,
                    "low": None if finding.share is None else finding.share.low,
                    "high": None if finding.share is None else finding.share.high,
                    "threshold": finding.threshold,
                    "source": finding.source,
                    "remedy": finding.remedy,
                    "code": finding.code,
                }
                for finding in self.indicators
            },
            "samples": len(self.record.index),
            "looked_at": {
                attack: [value_as_typed(attack, each) for each in strengths]
                for attack, strengths in self.looked_at.items()
            },
            "doubted": self.samples.doubtful.tolist(),
        }

    def _meaning(self) -> str:
        count = pluralise(len(self.record.index), "sample")
        if self.verdict == "sound":
            return f"Nothing speaks against the numbers ({count} looked at). {self._reach()}".rstrip()
        if self.verdict == "masked":
            return "Attacks by gradients are blind at many samples, so robust accuracies are too high."
        if self.verdict == "doubtful":
            return "Robust accuracies may be too high." if self._flagged() else f"Undecided: {self._open()}."
        if not self.record.told:
            return (
                "No attack by gradients stands behind the numbers, so nothing is to be diagnosed: sweeps are exact to "
                "their steps, all others are weak upper bounds."
            )
        unheld = [
            each for each in self.indicators if each.decides and not each.samples and each.name.startswith("audit ")
        ]
        if unheld:
            return " ".join(f"{each.reading.means}. {each.remedy}." for each in unheld)
        silent = [finding.name for finding in self.indicators if finding.decides and not finding.samples]
        if silent and len(self.record.index) >= FEW:
            return f"{join_words(silent)} could not be read above rounding, so nothing can be told."
        shares = [
            finding.share.high for finding in self.indicators if finding.share is not None and _undecided(finding)
        ]
        widest = max(shares, default=100.0)
        return f"{count} looked at, and up to {widest:.0f} % of such may be doubtful; look at {FEW} or more to decide."

    def _reach(self) -> str:
        """How far from the samples was looked; empty where there is nothing to look at."""
        if self.looked_at:
            ends = list_names(
                [
                    f"{attack} {words_up_to(attack)} {format_strength(strengths[-1], attack=attack)}"
                    for attack, strengths in self.looked_at.items()
                ]
            )
            where = f"there and at the points where attacks ended ({ends})"
            return f"Gradients were checked {where}, not at other strengths."
        by_gradients = any(finding.severity == "masked" for finding in self.indicators)
        if not by_gradients:
            return ""
        return "Gradients were checked there, not at the points where attacks ended."

    def _telling(self) -> list[Finding]:
        """Flags that say something of the numbers, decisive or not; those that are known for false alarms do not."""
        return [finding for finding in self.indicators if finding.flagged and finding.reading.decides]

    def _flagged(self) -> bool:
        return any(finding.flagged and finding.decides for finding in self.indicators)

    def _open(self) -> str:
        undecided = [finding for finding in self.indicators if _undecided(finding)]
        return join_words([finding.sentence.rstrip(".") for finding in undecided])

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


def at_other_ends(records: Sequence[DiagnosisRecord]) -> list[Finding]:
    """What earlier ``records`` (oldest first) read at ends of searches, at strengths that no later one looked at."""
    seen: set[tuple[str, float]] = set()
    found: list[Finding] = []
    for record in reversed(records):
        for reading in record.readings:
            entries = {(reading.attack, strength) for strength in reading.strengths}
            if entries - seen and record is not records[-1]:
                found.append(Finding.of(reading))
            seen |= entries
    return found


def _verdict(findings: Sequence[Finding], record: DiagnosisRecord) -> Verdict:
    deciding = [finding for finding in findings if finding.decides]
    flagged = {finding.severity for finding in deciding if finding.flagged}
    if "masked" in flagged:
        return "masked"
    if flagged:
        return "doubtful"
    if not record.told or not record.index:
        return "inconclusive"
    if any(not finding.samples for finding in deciding):
        return "inconclusive"
    if any(map(_undecided, deciding)):
        return "doubtful" if len(record.index) >= FEW else "inconclusive"
    return "sound"


def _undecided(finding: Finding) -> bool:
    """Whether a share that would have to be flagged is not excluded."""
    return finding.opens and finding.decides and finding.share is not None and finding.share.high > 100 * EXCLUDED


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
