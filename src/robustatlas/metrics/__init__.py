"""Every number that robustatlas reports, as pure functions of outcomes and accuracies."""

from robustatlas.metrics.accuracies import AccuracyTable
from robustatlas.metrics.averages import average_accuracy, union_accuracy
from robustatlas.metrics.competitiveness import (
    InOut,
    competitiveness_in_out,
    competitiveness_ratio,
    percent_seen,
)
from robustatlas.metrics.curves import Band, Crossing, RobustnessCurve, envelope, local_optimality
from robustatlas.metrics.hypervolume import (
    AdversarialHypervolume,
    adversarial_hypervolume,
    hypervolume_at_levels,
    normalised_cross_entropy,
)
from robustatlas.metrics.intervals import Interval, accuracy_interval, percentile_interval, proportion_bounds
from robustatlas.metrics.stability import StabilityConstant, stability_constant
from robustatlas.metrics.uar import mean_uar, unforeseen_attack_robustness

__all__ = [
    "AccuracyTable",
    "AdversarialHypervolume",
    "Band",
    "Crossing",
    "InOut",
    "Interval",
    "RobustnessCurve",
    "StabilityConstant",
    "accuracy_interval",
    "adversarial_hypervolume",
    "average_accuracy",
    "competitiveness_in_out",
    "competitiveness_ratio",
    "envelope",
    "hypervolume_at_levels",
    "local_optimality",
    "mean_uar",
    "normalised_cross_entropy",
    "percent_seen",
    "percentile_interval",
    "proportion_bounds",
    "stability_constant",
    "unforeseen_attack_robustness",
    "union_accuracy",
]
