"""What drives evaluations to find out whether numbers can be trusted: diagnosis, repair, audit."""

from robustatlas.trust.auditing import audit
from robustatlas.trust.diagnosing import diagnose
from robustatlas.trust.repairing import REMEDIES, Remedy, Repair, repair

__all__ = ["REMEDIES", "Remedy", "Repair", "audit", "diagnose", "repair"]
