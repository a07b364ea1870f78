"""Can this number be trusted? A verdict from what indicators read of single samples."""

from robustatlas.diagnosis.audit import finding_of
from robustatlas.diagnosis.verdict import Diagnosis, Finding, SampleTable, Verdict

__all__ = ["Diagnosis", "Finding", "SampleTable", "Verdict", "finding_of"]
