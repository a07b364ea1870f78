"""A gate for pipelines: does a run keep what is required of it, and did it fall behind an earlier version?"""

from robustatlas.gate.formats import FORMATS
from robustatlas.gate.requirements import Judged, Requirement, number_of
from robustatlas.gate.verdict import Check, check_against, check_requirements

__all__ = ["FORMATS", "Check", "Judged", "Requirement", "check_against", "check_requirements", "number_of"]
