"""Diagnosis and audit: evaluations that are run in order to judge if numbers can be trusted."""

from robustatlas.trust.auditing import audit
from robustatlas.trust.diagnosing import diagnose

__all__ = ["audit", "diagnose"]
