"""Findings that come from the evidence of a run itself: its audits, attacks of one's own, and runs of two gradients."""

from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np

from robustatlas.checks.advice import AUDIT, HIGH_EFFORT, HONEST_GRADIENT
from robustatlas.checks.findings import Finding
from robustatlas.common.errors import UserError
from robustatlas.common.wording import pluralise
from robustatlas.metrics.audit import LARGE, Audited, audit_remedy, audit_sentence, audit_warning, audited
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.outcomes.outcome import Booleans, Floats, Outcome, broken_mask
from robustatlas.outcomes.records import AttackRecord, Reading
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.table import OutcomeTable


class Audits:
    """Audits of the attacks of a run: stronger searches of some of its samples, which are stored beside it.

    Args:
        table: outcomes of the run.
        audit_run: run that holds the audits; None if there are none.
    """

    def __init__(self, table: OutcomeTable, audit_run: Run | None) -> None:
        self._table, self._audit_run = table, audit_run

    def audit(self, attack: str) -> Audited:
        """Return the audit of one attack."""
        if self._audit_run is None:
            raise UserError("This result was not audited; evaluate with audit=50, or 'robustatlas audit RUN'.")
        table = self._table
        audits = self._audit_run.table([attack], None, {attack: table.distances(attack).tolist()})
        rows = np.flatnonzero(np.isin(table.index, audits.index))
        row_in_audit = {int(position): row for row, position in enumerate(audits.index)}
        withstood = audits.correct(attack)[[row_in_audit[int(position)] for position in table.index[rows]]]
        return audited(table.correct(attack), rows, table.correct(attack)[rows] & withstood, table.strengths(attack))

    def sentences(self) -> dict[str, str]:
        """Return for each audited attack the sentence on its audit."""
        sentences = {}
        for attack, records in self._records().items():
            passes = sum(_mean_passes(self._audit_run, record) for record in records if self._audit_run is not None)
            sentences[attack] = audit_sentence(self.audit(attack), passes / max(1.0, sum(self._table.passes(attack))))
        return sentences

    def concerns(self) -> list[str]:
        """Return a sentence for each audit that speaks against the numbers."""
        return [text for audit in self.all() if (text := audit_warning(*audit))]

    def all(self) -> list[tuple[str, Audited, str]]:
        """Return attack, audit, and the kind of attack that found most, for each audited attack."""
        return [(attack, self.audit(attack), self._best_kind(attack)) for attack in self._records()]

    def _records(self) -> dict[str, list[AttackRecord]]:
        """Return for each audited attack the records of the searches of its audit."""
        known = list(self._audit_run.records().values()) if self._audit_run is not None else []
        by_name = {attack: [record for record in known if record.name == attack] for attack in self._table.attacks}
        return {attack: records for attack, records in by_name.items() if records}

    def _best_kind(self, attack: str) -> str:
        """Return the kind of attack that found most in an audit; "" if it is not known."""
        cards = self._audit_run.cards() if self._audit_run is not None else []
        counts = [kinds for card in cards if isinstance(kinds := card.about.get(f"kinds {attack}"), dict)]
        found = Counter({kind: int(str(count)) for kind, count in counts[-1].items()} if counts else {})
        return next((kind for kind, _ in found.most_common(1)), "")


def _mean_passes(run: Run, record: AttackRecord) -> float:
    columns = run.columns(record, run.stored_samples(record), ("forward", "backward"))
    return float(columns["forward"].mean() + columns["backward"].mean())


def audit_finding(attack: str, audit: Audited, kind: str) -> Finding:
    """Return a finding that is flagged if the audit would surely leave much less standing than the run did.

    >>> from robustatlas.metrics import audited
    >>> found = audit_finding("linf", audited([[True]] * 20, range(20), [[False]] * 20, [0.1]), "square-linf")
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
        remedy=audit_remedy(kind),
        code=remedy_code(kind),
        source="ours: two-phase sampling",
        values=(1.0,) * audit.audited,
        doubtful=tuple(range(min(fallen, audit.audited))),
    )
    flagged = share.low > LARGE
    return Finding(reading.name, found - estimate, share, LARGE, flagged, audit.audited, reading, can_leave_open=False)


def remedy_code(kind: str) -> str:
    """Return the line of code for :func:`robustatlas.metrics.audit.audit_remedy`.

    >>> remedy_code("square-linf")
    'ra.evaluate(model, data, "square-linf")'
    """
    if kind in ("", "high effort"):
        return HIGH_EFFORT
    return HONEST_GRADIENT if " " in kind else f'ra.evaluate(model, data, "{kind}")'


def refused_findings(outcomes: Iterable[Outcome], clean: Booleans) -> list[Finding]:
    """Return a flagged finding for each attack of which verification refused every candidate. ``clean`` [N]."""
    return [_refused_finding(outcome) for outcome in outcomes if is_all_refused(outcome, clean)]


def is_all_refused(outcome: Outcome, clean: Booleans) -> bool:
    """Return True if verification refused every candidate for an example of the samples that are right, ``clean``."""
    return outcome.rejected > 0 and not np.isfinite(outcome.minimal_size[clean]).any()


def refusal_sentence(outcome: Outcome) -> str:
    """Return the sentence on an attack of which verification refused every candidate, without its end."""
    return (
        f"verification refused every one of {pluralise(outcome.rejected, 'candidate')} of {outcome.attack}: they lie "
        "outside of [0, 1], or are classified correctly when looked at again"
    )


def _refused_finding(outcome: Outcome) -> Finding:
    reading = Reading(
        name=f"refused {outcome.attack}",
        severity="doubtful",
        threshold=0.0,
        limit="candidates that verification refused, where none held",
        means=refusal_sentence(outcome),
        remedy="Correct the attack: what it returns must lie in [0, 1] and be misclassified",
        code="",
        source="ours: each example is looked at again in full precision",
        values=(1.0,) * outcome.rejected,
        doubtful=tuple(range(outcome.rejected)),
    )
    everything = Interval(100.0, 100.0, 100.0, 0.95)
    return Finding(reading.name, 100.0, everything, 0.0, True, outcome.rejected, reading, can_leave_open=False)


def attacks_without_audit(records: Iterable[AttackRecord], audited: Collection[str]) -> dict[str, str]:
    """Return the attacks of one's own that no audit compared with this package's attack on the same threat model, each
    with the name of that attack."""
    own = {record.name: record.counterpart for record in records if record.counterpart}
    return {name: counterpart for name, counterpart in own.items() if name not in audited}


def missing_audit_finding(attack: str, counterpart: str) -> Finding:
    """Return a finding on no samples, with which no verdict is sound."""
    reading = Reading(
        name=f"audit {attack}",
        severity="doubtful",
        threshold=0.0,
        limit="broken by the audit, not by the run",
        means=f"{attack} is an attack of one's own, which was not held against {counterpart} on the same threat model",
        remedy=f"Audit the run, or evaluate by {counterpart} as well",
        code=AUDIT,
        source="ours: two-phase sampling",
    )
    return Finding.from_reading(reading)


def piecewise_findings(outcomes: Iterable[Outcome]) -> list[Finding]:
    """Return a finding for each attack with runs through smoothed ReLUs and runs through the network's own gradients.

    It is flagged as an audit is: if the runs through the network's own gradients alone surely leave more than 5 points
    more standing, in the mean over the strengths.
    """
    return [
        _piecewise_finding(each, sizes)
        for each in outcomes
        if (sizes := each.true_gradient_size) is not None and each.monotone
    ]


def _piecewise_finding(outcome: Outcome, true_size: Floats) -> Finding:
    missed = outcome.broken() & ~broken_mask(true_size, outcome.strengths)
    counts = missed.sum(0)
    low, high = proportion_bounds(counts, outcome.samples)
    share = Interval(float(100 * missed.mean()), float(low.mean()), float(high.mean()), 0.95)
    reading = Reading(
        name=f"piecewise {outcome.attack}",
        severity="doubtful",
        threshold=LARGE / 100,
        limit="broken at a strength through smoothed ReLUs alone",
        means=f"the gradient is all but piecewise constant: {outcome.attack} broke what only smoothed ReLUs lead to",
        remedy="Evaluate at high effort (effort='high'); attacks through the network's own gradient miss examples",
        code=HIGH_EFFORT,
        source="ours: runs of one plan through both gradients",
        values=tuple(map(float, missed.mean(1))),
        doubtful=tuple(np.flatnonzero(missed.any(1)).tolist()),
    )
    flagged = share.low > LARGE
    return Finding(reading.name, share.value, share, LARGE, flagged, outcome.samples, reading, can_leave_open=False)
