"""What an audit says, as a finding of the diagnosis."""

from __future__ import annotations

from robustatlas.diagnosis.verdict import Finding
from robustatlas.metrics.audit import LARGE, Audited, remedy_of
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.readings import Reading


def finding_of(attack: str, audit: Audited, kind: str) -> Finding:
    """Flagged where the dear search would surely leave much less than the run did.

    Args:
        attack: that was audited.
        audit: its estimates.
        kind: of attack, that found most.

    Example:
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
        source="ours: two-phase sampling",
        values=(1.0,) * audit.audited,
        doubtful=tuple(range(min(fallen, audit.audited))),
    )
    return Finding(reading.name, found - estimate, share, LARGE, share.low > LARGE, audit.audited, reading, False)
