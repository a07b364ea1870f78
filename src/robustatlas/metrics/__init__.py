"""Every number that robustatlas reports, as pure functions of outcomes; published references; figures."""

from robustatlas.metrics.audit import Audited, audited
from robustatlas.metrics.averages import average_accuracy, success_over_queries, typical_accuracies, union_accuracy
from robustatlas.metrics.bootstrap import (
    AccuracyStatistics,
    SampleStatistic,
    bootstrap_replicates,
    confidence_intervals,
    mean_statistic,
    share_statistic,
)
from robustatlas.metrics.comparison import (
    Difference,
    McNemar,
    RankTest,
    attack_correlation,
    chance_of_difference,
    difference_intervals,
    holm,
    mcnemar,
    mcnemar_at_strengths,
    rank_sum_test,
    signed_rank_test,
)
from robustatlas.metrics.competitiveness import InOut, competitiveness_in_out, competitiveness_ratio, percent_seen
from robustatlas.metrics.curves import (
    Band,
    Crossing,
    RobustnessCurve,
    SlopeChange,
    change_of_slope,
    envelope,
    local_optimality,
)
from robustatlas.metrics.hypervolume import (
    AdversarialHypervolume,
    ConvergenceRate,
    adversarial_hypervolume,
    convergence_rate,
    hypervolume_at_levels,
    normalised_cross_entropy,
)
from robustatlas.metrics.interclass import InterclassDistances, interclass_distances
from robustatlas.metrics.intervals import (
    Interval,
    accuracy_interval,
    percentile_interval,
    proportion_bounds,
    proportion_interval,
)
from robustatlas.metrics.stability import StabilityConstant, stability_constant
from robustatlas.metrics.trainings import OverTrainings, combine_trainings, mean_over_trainings
from robustatlas.metrics.uar import mean_uar, ua2, uar_matrix, unforeseen_attack_robustness
from robustatlas.outcomes import AccuracyTable, OutcomeTable, common_strengths, shared_samples

__all__ = [
    "AccuracyStatistics",
    "AccuracyTable",
    "AdversarialHypervolume",
    "Audited",
    "Band",
    "ConvergenceRate",
    "Crossing",
    "Difference",
    "InOut",
    "InterclassDistances",
    "Interval",
    "McNemar",
    "OutcomeTable",
    "OverTrainings",
    "RankTest",
    "RobustnessCurve",
    "SampleStatistic",
    "SlopeChange",
    "StabilityConstant",
    "accuracy_interval",
    "adversarial_hypervolume",
    "attack_correlation",
    "audited",
    "average_accuracy",
    "bootstrap_replicates",
    "chance_of_difference",
    "change_of_slope",
    "combine_trainings",
    "common_strengths",
    "competitiveness_in_out",
    "competitiveness_ratio",
    "confidence_intervals",
    "convergence_rate",
    "difference_intervals",
    "envelope",
    "holm",
    "hypervolume_at_levels",
    "interclass_distances",
    "local_optimality",
    "mcnemar",
    "mcnemar_at_strengths",
    "mean_over_trainings",
    "mean_statistic",
    "mean_uar",
    "normalised_cross_entropy",
    "percent_seen",
    "percentile_interval",
    "proportion_bounds",
    "proportion_interval",
    "rank_sum_test",
    "share_statistic",
    "shared_samples",
    "signed_rank_test",
    "stability_constant",
    "success_over_queries",
    "typical_accuracies",
    "ua2",
    "uar_matrix",
    "unforeseen_attack_robustness",
    "union_accuracy",
]
