"""What drives evaluations to find out whether numbers can be trusted: diagnosis and audit."""

from robustatlas.trust.auditing import audit
from robustatlas.trust.diagnosing import diagnose

__all__ = ["audit", "diagnose"]
