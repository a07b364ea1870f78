"""A gate for pipelines: does a run keep what is required of it, and did it fall behind an earlier version?"""

from robustatlas.gate.diagnosed import asks_for_verdict, check_verdict
from robustatlas.gate.formats import FORMATS
from robustatlas.gate.requirements import Judged, Requirement, number_of
from robustatlas.gate.verdict import Check, check_against, check_requirements

__all__ = [
    "FORMATS",
    "Check",
    "Judged",
    "Requirement",
    "asks_for_verdict",
    "check_against",
    "check_requirements",
    "check_verdict",
    "number_of",
]
