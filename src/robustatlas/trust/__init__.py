"""What drives evaluations to find out whether numbers can be trusted: diagnosis, repair, audit."""

from robustatlas.trust.auditing import audit
from robustatlas.trust.diagnosing import diagnose
from robustatlas.trust.repairing import REMEDIES, Remedy, Repair, repair
from robustatlas.trust.rules import ByRules, evaluate_by_rules

__all__ = ["REMEDIES", "ByRules", "Remedy", "Repair", "audit", "diagnose", "evaluate_by_rules", "repair"]
