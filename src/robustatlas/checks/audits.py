"""What an audit, kept beside a run, says of the run's own numbers, in sentences and as a finding of the diagnosis."""

from collections import Counter

import numpy as np

from robustatlas.checks.advice import HIGH_EFFORT, HONEST_GRADIENT
from robustatlas.checks.verdict import Finding
from robustatlas.common.errors import UserError
from robustatlas.metrics.audit import LARGE, Audited, audited, concern, remedy_of, sentence
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.readings import Reading
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.table import OutcomeTable


class Audits:
    """The audits of some attacks."""

    def __init__(self, table: OutcomeTable, dear: Run | None) -> None:
        self._table, self._dear = table, dear

    def of(self, attack: str) -> Audited:
        """The audit of one attack."""
        if self._dear is None:
            raise UserError("This result was not audited; evaluate with audit=50, or 'robustatlas audit RUN'.")
        table = self._table
        dear = self._dear.table([attack], None, {attack: table.distances(attack).tolist()})
        rows = np.flatnonzero(np.isin(table.index, dear.index))
        place = {int(position): row for row, position in enumerate(dear.index)}
        there = dear.correct(attack)[[place[int(position)] for position in table.index[rows]]]
        return audited(table.correct(attack), rows, table.correct(attack)[rows] & there, table.strengths(attack))

    def sentences(self) -> dict[str, str]:
        """Attack -> what its audit says in words; empty where there was none."""
        told = {}
        for attack, records in self._records().items():
            dear = sum(_passes(self._dear, record) for record in records if self._dear is not None)
            told[attack] = sentence(self.of(attack), dear / max(1.0, sum(self._table.passes(attack))))
        return told

    def concerns(self) -> list[str]:
        """What the audits hold against the numbers, in a sentence each."""
        return [said for audit in self.all() if (said := concern(*audit))]

    def all(self) -> list[tuple[str, Audited, str]]:
        """Attack, audit, and the kind of attack that found most, of each that was audited."""
        return [(attack, self.of(attack), self._finder(attack)) for attack in self._records()]

    def _records(self) -> dict[str, list[AttackRecord]]:
        """Attack -> how the audit searched it."""
        known = list(self._dear.records().values()) if self._dear is not None else []
        by_name = {attack: [record for record in known if record.name == attack] for attack in self._table.attacks}
        return {attack: records for attack, records in by_name.items() if records}

    def _finder(self, attack: str) -> str:
        """The kind of attack that found most in the audit of one, "" where that is not known."""
        cards = self._dear.cards() if self._dear is not None else []
        counts = [kinds for card in cards if isinstance(kinds := card.about.get(f"kinds {attack}"), dict)]
        found = Counter({kind: int(str(count)) for kind, count in counts[-1].items()} if counts else {})
        return next((kind for kind, _ in found.most_common(1)), "")


def _passes(run: Run, record: AttackRecord) -> float:
    columns = run.columns(record, run.done(record), ("forward", "backward"))
    return float(columns["forward"].mean() + columns["backward"].mean())


def _code_of(kind: str) -> str:
    """Return the line of code for :func:`robustatlas.metrics.audit.remedy_of`.

    >>> _code_of("square-linf")
    'ra.evaluate(model, data, "square-linf")'
    """
    if kind in ("", "high effort"):
        return HIGH_EFFORT
    return HONEST_GRADIENT if " " in kind else f'ra.evaluate(model, data, "{kind}")'


def finding_of(attack: str, audit: Audited, kind: str) -> Finding:
    """Flagged where the dear search would surely leave much less than the run did.

    >>> from robustatlas.metrics import audited
    >>> found = finding_of("linf", audited([[True]] * 20, range(20), [[False]] * 20, [0.1]), "square-linf")
    >>> found.flagged, found.remedy
    (True, 'Evaluate all samples by square-linf as well')
    """
    found, (estimate, low, high) = float(audit.found.mean()), audit.mean
    share = Interval(found - estimate, found - high, found - low, audit.confidence)
    fallen = int(audit.fallen.max(initial=0))
    reading = Reading(
        name=f"audit {attack}",
        severity="doubtful",
        threshold=LARGE / 100,
        limit="broken by the audit, not by the run",
        means=f"an audit of {attack} broke samples that the run left standing",
        remedy=remedy_of(kind),
        code=_code_of(kind),
        source="ours: two-phase sampling",
        values=(1.0,) * audit.audited,
        doubtful=tuple(range(min(fallen, audit.audited))),
    )
    return Finding(reading.name, found - estimate, share, LARGE, share.low > LARGE, audit.audited, reading, False)
