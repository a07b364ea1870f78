"""Every number that robustatlas reports, as pure functions of outcomes and accuracies."""

from robustatlas.metrics.accuracies import AccuracyTable
from robustatlas.metrics.averages import average_accuracy, union_accuracy
from robustatlas.metrics.competitiveness import (
    InOut,
    competitiveness_in_out,
    competitiveness_ratio,
    percent_seen,
)
from robustatlas.metrics.stability import StabilityConstant, stability_constant
from robustatlas.metrics.uar import mean_uar, unforeseen_attack_robustness

__all__ = [
    "AccuracyTable",
    "InOut",
    "StabilityConstant",
    "average_accuracy",
    "competitiveness_in_out",
    "competitiveness_ratio",
    "mean_uar",
    "percent_seen",
    "stability_constant",
    "unforeseen_attack_robustness",
    "union_accuracy",
]
