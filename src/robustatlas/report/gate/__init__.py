"""A gate for pipelines: does a run keep what is required of it, and did it fall behind an earlier version?"""

from robustatlas.report.gate.checked import check
from robustatlas.report.gate.formats import FORMATS
from robustatlas.report.gate.requirements import Judged, Requirement
from robustatlas.report.gate.verdict import (
    Check,
    Decision,
    check_against,
    check_requirements,
    check_verdict,
    is_about_diagnosis,
    overall_sentence,
)

__all__ = [
    "FORMATS",
    "Check",
    "Decision",
    "Judged",
    "Requirement",
    "check",
    "check_against",
    "check_requirements",
    "check_verdict",
    "is_about_diagnosis",
    "overall_sentence",
]
