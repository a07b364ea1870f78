"""Findings on attacks of one's own: nothing that they found was verified, or nothing tells how strong they are."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from robustatlas.checks.advice import AUDIT
from robustatlas.checks.verdict import Finding
from robustatlas.common.wording import pluralise
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.outcome import Booleans, Outcome
from robustatlas.outcomes.readings import Reading
from robustatlas.outcomes.records import AttackRecord


def refused_findings(outcomes: Iterable[Outcome], clean: Booleans) -> list[Finding]:
    """Return a flagged finding for each attack of which verification refused every candidate. ``clean`` [N]."""
    return [_refused(each) for each in outcomes if is_all_refused(each, clean)]


def is_all_refused(outcome: Outcome, clean: Booleans) -> bool:
    """Return if there were candidates for examples of the samples that are right, ``clean`` [N], and none held."""
    return outcome.rejected > 0 and not np.isfinite(outcome.minimal_size[clean]).any()


def refusal_of(outcome: Outcome) -> str:
    """Return the sentence on an attack of which verification refused every candidate, without its end."""
    return (
        f"verification refused every one of {pluralise(outcome.rejected, 'candidate')} of {outcome.attack}: they lie "
        "outside of [0, 1], or are classified correctly when looked at again"
    )


def _refused(outcome: Outcome) -> Finding:
    reading = Reading(
        name=f"refused {outcome.attack}",
        severity="doubtful",
        threshold=0.0,
        limit="candidates that verification refused, where none held",
        means=refusal_of(outcome),
        remedy="Correct the attack: what it returns must lie in [0, 1] and be misclassified",
        code="",
        source="ours: each example is looked at again in full precision",
        values=(1.0,) * outcome.rejected,
        doubtful=tuple(range(outcome.rejected)),
    )
    everything = Interval(100.0, 100.0, 100.0, 0.95)
    return Finding(reading.name, 100.0, everything, 0.0, True, outcome.rejected, reading, opens=False)


def unheld(records: Iterable[AttackRecord], audited: Collection[str]) -> dict[str, str]:
    """Return the attacks of one's own that no audit held against this package's attack on the same threat model, each
    with the name of that attack."""
    own: Mapping[str, str] = {record.name: record.counterpart for record in records if record.counterpart}
    return {name: ours for name, ours in own.items() if name not in audited}


def unheld_finding(attack: str, ours: str) -> Finding:
    """Return a finding of nothing, with which no verdict is sound."""
    reading = Reading(
        name=f"audit {attack}",
        severity="doubtful",
        threshold=0.0,
        limit="broken by the audit, not by the run",
        means=f"{attack} is an attack of one's own, which was not held against {ours} on the same threat model",
        remedy=f"Audit the run, or evaluate by {ours} as well",
        code=AUDIT,
        source="ours: two-phase sampling",
    )
    return Finding.of(reading)
