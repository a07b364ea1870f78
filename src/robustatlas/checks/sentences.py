"""The diagnosis in words: its verdict with the reasons, for the first line of a result and for warnings."""

from collections.abc import Sequence

from robustatlas.checks.findings import Finding, strengths_at_ends
from robustatlas.checks.verdict import FEW, Verdict, leaves_open
from robustatlas.common.typed_strengths import format_strength, range_words
from robustatlas.common.wording import join_words, list_names, pluralise
from robustatlas.outcomes.records import DiagnosisRecord


def diagnosis_sentence(verdict: Verdict, findings: Sequence[Finding], record: DiagnosisRecord) -> str:
    """Return the verdict, its meaning and the sentences of the flags that say something of the numbers."""
    meaning = {
        "sound": _sound_meaning,
        "masked": _masked_meaning,
        "doubtful": _doubtful_meaning,
        "inconclusive": _inconclusive_meaning,
    }[verdict]
    reasons = [finding.sentence for finding in flags_to_report(findings)]
    capitalised = [reason[:1].upper() + reason[1:] for reason in reasons]
    return " ".join([f"Diagnosis: {verdict}. {meaning(findings, record)}", *capitalised])


def flags_to_report(findings: Sequence[Finding]) -> list[Finding]:
    """Return the flags that say something of the numbers. Indicators known for false alarms do not."""
    return [finding for finding in findings if finding.flagged and finding.reading.decides]


def _sound_meaning(findings: Sequence[Finding], record: DiagnosisRecord) -> str:
    count = pluralise(len(record.index), "sample")
    return f"Nothing speaks against the numbers ({count} looked at). {_checked_places(findings)}".rstrip()


def _masked_meaning(findings: Sequence[Finding], record: DiagnosisRecord) -> str:
    return "Attacks by gradients are blind at many samples, so robust accuracies are too high."


def _doubtful_meaning(findings: Sequence[Finding], record: DiagnosisRecord) -> str:
    if any(finding.flagged and finding.decides for finding in findings):
        return "Robust accuracies may be too high."
    return f"Undecided: {join_words([each.sentence.rstrip('.') for each in findings if leaves_open(each)])}."


def _inconclusive_meaning(findings: Sequence[Finding], record: DiagnosisRecord) -> str:
    if not record.told:
        return (
            "No attack by gradients stands behind the numbers, so nothing is to be diagnosed: sweeps are exact to "
            "their steps, all others are weak upper bounds."
        )
    silent = [finding for finding in findings if finding.decides and not finding.samples]
    # An attack of one's own without an audit is a finding on no samples. It names what is missing, so it comes first.
    if missing_audits := [finding for finding in silent if finding.name.startswith("audit ")]:
        return " ".join(f"{each.reading.means}. {each.remedy}." for each in missing_audits)
    if silent and len(record.index) >= FEW:
        return f"{join_words([each.name for each in silent])} could not be read above rounding, so nothing can be told."
    widest = max((each.share.high for each in findings if each.share is not None and leaves_open(each)), default=100.0)
    count = pluralise(len(record.index), "sample")
    return f"{count} looked at, and up to {widest:.0f} % of such may be doubtful; look at {FEW} or more to decide."


def _checked_places(findings: Sequence[Finding]) -> str:
    """Return the sentence on where gradients were checked; empty if no indicator looked at gradients."""
    if strengths := strengths_at_ends(findings):
        ends = list_names(
            [f"{name} {range_words(name)} {format_strength(each[-1], attack=name)}" for name, each in strengths.items()]
        )
        where = f"there and at the points where attacks ended ({ends})"
        return f"Gradients were checked {where}, not at other strengths."
    if any(finding.severity == "masked" for finding in findings):
        return "Gradients were checked there, not at the points where attacks ended."
    return ""
