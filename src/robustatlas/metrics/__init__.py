"""Every number that robustatlas reports, as pure functions of outcomes and accuracies."""

from robustatlas.metrics.accuracies import AccuracyTable

__all__ = ["AccuracyTable"]
