"""What drives evaluations to find out whether numbers can be trusted: diagnosis, repair, audit."""

from robustatlas.trust.diagnosing import diagnose

__all__ = ["diagnose"]
