"""The verdict on a model. It rests on shares of doubtful samples with their intervals, never on one sample."""

from collections.abc import Sequence
from typing import Literal

from robustatlas.checks.findings import Finding
from robustatlas.outcomes.records import DiagnosisRecord

Verdict = Literal["sound", "doubtful", "masked", "inconclusive"]
"""Verdict of a diagnosis:

- ``"sound"``: no indicator speaks against the numbers.
- ``"masked"``: attacks by gradients are blind at many samples, so robust accuracies are too high.
- ``"doubtful"``: another indicator speaks against the numbers.
- ``"inconclusive"``: no gradients, or fewer than 32 samples that leave more than 30 % of doubtful ones possible.
"""

EXCLUDED = 0.3
"""Share of doubtful samples that the intervals must exclude before a model is called sound. The smallest share that was
seen in a model whose robust accuracy is overestimated is 31.6 %."""
FEW = 32
"""Number of samples from which on an open question makes a model doubtful. With fewer it is inconclusive."""


def decide_verdict(findings: Sequence[Finding], record: DiagnosisRecord) -> Verdict:
    """Return the verdict that the findings on a record lead to."""
    deciding = [finding for finding in findings if finding.decides]
    severities = {finding.severity for finding in deciding if finding.flagged}
    if "masked" in severities:
        return "masked"
    if severities:
        return "doubtful"
    if not record.told or not record.index:
        return "inconclusive"
    if any(not finding.samples for finding in deciding):
        return "inconclusive"
    if any(map(leaves_open, deciding)):
        return "doubtful" if len(record.index) >= FEW else "inconclusive"
    return "sound"


def leaves_open(finding: Finding) -> bool:
    """Return True if the interval of a finding does not exclude a share that would have to be flagged."""
    if not finding.can_leave_open or not finding.decides or finding.share is None:
        return False
    return finding.share.high > 100 * EXCLUDED
