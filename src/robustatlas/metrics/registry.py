"""Every number that is reported, with its definition. A new metric is a file of its own and one line: below, or an
entry point of another package. One with `against` or `of_attack` then stands in `show`, `compare`, `check` and the
report by itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from robustatlas.common.registry import Registry
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic
from robustatlas.metrics.competitiveness import RatioKind
from robustatlas.metrics.uar import ua2_statistics
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.table import OutcomeTable


@dataclass(frozen=True)
class Metric:
    """A number, or a kind of statement.

    Attributes:
        heading: of its column on a page; ends with ``%`` where the number is in percent.
        needs_clean: whether there is none where the reference has no clean accuracy.
        against: from a model's statistics and a reference at the same points; None for what needs no reference.
        of_attack: the same for one of the attacks.
        of_model: from the outcomes of a model alone, name -> statistic of each number that it stands for; nothing where
            the attacks that it needs were not evaluated.
    """

    name: str
    definition: str
    source: str = ""
    heading: str = ""
    needs_clean: bool = False
    against: Callable[[AccuracyStatistics, AccuracyTable], SampleStatistic] | None = None
    of_attack: Callable[[AccuracyStatistics, AccuracyTable, str], SampleStatistic] | None = None
    of_model: Callable[[OutcomeTable], Mapping[str, SampleStatistic]] | None = None

    @property
    def explanation(self) -> str:
        """Definition and source."""
        return f"{self.definition} {self.source}." if self.source else self.definition


_MRB = "Dai et al. 2023 (MultiRobustBench)"
_KANG = "Kang et al. 2019"
_K = "over the clean input and every (attack, strength), by their weights (--weights; all alike otherwise)"


def _ratio(kind: RatioKind, definition: str) -> Metric:
    return Metric(
        f"CR {kind}",
        f"{definition}, in percent.",
        _MRB,
        heading=f"CR {kind}, %",
        needs_clean=True,
        against=lambda ours, reference: ours.competitiveness(reference, kind),
    )


_ALL = (
    Metric("clean accuracy", "Share of samples classified correctly without any perturbation."),
    Metric("average accuracy", "Mean robust accuracy over every (attack, strength), all counting alike."),
    Metric(
        "union accuracy",
        "Share of samples that no attack breaks, each attack up to the strength that is named, by default the "
        "searched one that papers give or comes next, else the middle one: the worst case for every sample. --union "
        "linf=0.1,l2=0.5 chooses.",
    ),
    Metric(
        "median size",
        "Size at which half of the samples that are right without a change are wrong, which halves the clean accuracy; "
        "'never' where an attack does not get that far. From the robustness curve R(size): the share of samples with "
        "an adversarial example no larger.",
    ),
    Metric(
        "curve area",
        "Area under the robustness curve up to the attack's largest strength, in percent: the mean robust error over "
        "all sizes up to there.",
    ),
    Metric(
        "AH",
        "Adversarial hypervolume, in [0, 1]: mean over samples and equal steps of the strength of max(0, lowest margin "
        "p_y - max p_k found so far). 1 would be full confidence at every strength. std: over the samples. too low by: "
        "the integral that it approximates with its number of levels is at most this much larger. weak: share of "
        "samples where the attack found a larger margin in a larger set.",
        "Guo et al. 2024",
    ),
    Metric(
        "CR",
        "Competitiveness ratio to a reference, mostly models trained against the very attack (acc*), in percent: mean "
        "of acc / acc* over "
        "the attack's strengths and the clean input.",
        _MRB,
        of_attack=lambda ours, reference, attack: ours.competitiveness(reference, attacks=[attack]),
        needs_clean=True,
    ),
    Metric(
        "UAR",
        "Unforeseen attack robustness: 100 * sum of accuracies over the strengths of an attack / sum of those of "
        "models trained against it; the clean input takes no part.",
        _KANG,
        of_attack=lambda ours, reference, attack: ours.uar(reference, [attack]),
    ),
    _ratio("ind-avg", f"Expectation of acc / acc* {_K}"),
    _ratio("ind-worst", "Smallest acc / acc* over the clean input and every (attack, strength)"),
    _ratio("exp", f"Expectation of acc over that of acc* {_K}"),
    _ratio("max", "Smallest acc over smallest acc*, wherever each is"),
    Metric(
        "mUAR",
        "Mean UAR over the attacks.",
        f"Definition B.1 of {_MRB}, of the UAR of {_KANG}",
        heading="mUAR, %",
        against=lambda ours, reference: ours.uar(reference),
    ),
    Metric(
        "UA2",
        "UA2 low, medium and high: mean accuracy under the eight core attacks of ImageNet-UA at one of their three "
        "levels; medium is the headline. By protocol='paper' it is the published number, of last iterates; otherwise "
        "of the best examples that our searches found in the sound threat models. UA worst low, medium and high: share "
        "of samples that none of the eight breaks up to that level.",
        "Kaufmann et al. 2023",
        heading="UA2, %",
        of_model=ua2_statistics,
    ),
    Metric(
        "seen",
        "Seen in training are the clean input and the attacks of the training up to their strengths. seen: their share "
        "of the points, in percent. CR in, CR out: CR ind-avg over those, and over all others.",
        _MRB,
    ),
    Metric(
        "SC",
        "Stability constant: largest change of accuracy per change of difficulty (100 - acc*, or --difficulty), from a "
        "point seen in training to any other at most 3 points (--alpha) easier or harder; lower is steadier. Divides "
        "by differences of a few images, so it is shown with the pair of points that decides it, and with a floor: "
        "only pairs at least so many points apart.",
        _MRB,
    ),
    Metric(
        "interval",
        "In brackets the 95 % confidence interval over the choice of test samples: exact (Clopper-Pearson) for a "
        "single proportion, such as an accuracy at one strength, percentile bootstrap (1000 resamples) for all other "
        "numbers. It does not cover a weak attack.",
    ),
    Metric(
        "difference",
        "First model minus the other on the same samples, with a paired bootstrap interval and a p-value that agree: "
        "p is the larger one of a test (McNemar's of a proportion; of other numbers the models swapped on each sample) "
        "and of the level at which the interval begins to exclude 0; both are corrected for all pairs (Bonferroni).",
    ),
    Metric(
        "McNemar",
        "Exact test of the samples that only one of two models gets right at a strength; p-values are corrected (Holm) "
        "over all attacks and strengths of the comparison.",
    ),
    Metric(
        "crossing",
        "A strength at which the robustness curves of two models change order. Significant where the simultaneous "
        "(DKW) bands of both curves are apart on either side.",
    ),
    Metric(
        "Wilcoxon",
        "Signed-rank test of the hypervolumes of two models on the same samples; rank-sum: as if the samples were "
        "different ones. Corrected (Holm) over the attacks. Both are over the samples of one training; the test over "
        "seeds of Guo et al. 2024 (table II) is that of --group.",
    ),
    Metric(
        "trainings",
        "Of groups of runs (--group), one for each training: mean and standard deviation over the trainings, Student's "
        "95 % interval over the choice of trainings, and the bootstrap interval over the choice of samples. "
        "Wilcoxon's rank-sum test has a value for each training: do the seeds of one model reach more than those of "
        "another?",
    ),
    Metric(
        "agreement",
        "Pearson correlation over models of their scores under two attacks: near 1 they rank and space models alike. "
        "With a reference it is of UAR, over adversarially trained models, of each pair over those that were trained "
        "against neither attack, as Figure 6b of Kang et al. 2019; without one of average accuracies over all models, "
        "which is not in that paper. With few models it is rough.",
    ),
)

METRICS: Registry[Metric] = Registry(
    "metric",
    "robustatlas.metrics",
    {metric.name: metric for metric in _ALL},
    "a robustatlas.metrics.registry.Metric",
    lambda thing: isinstance(thing, Metric),
)
"""Name -> metric, in the order in which they are explained."""


def reference_metrics() -> list[Metric]:
    """Return the metrics that compare a model with a reference over all attacks.

    >>> [metric.name for metric in reference_metrics()][:2]
    ['CR ind-avg', 'CR ind-worst']
    """
    return [metric for metric in METRICS.load_usable().values() if metric.against]


def model_metrics() -> list[Metric]:
    """Return the metrics of a model without a reference, other than accuracies.

    >>> [metric.name for metric in model_metrics()]
    ['UA2']
    """
    return [metric for metric in METRICS.load_usable().values() if metric.of_model]


def attack_metrics() -> list[Metric]:
    """Return the metrics that compare a model with a reference under one attack.

    >>> [metric.name for metric in attack_metrics()][:2]
    ['CR', 'UAR']
    """
    return [metric for metric in METRICS.load_usable().values() if metric.of_attack]
