"""Agreement of attacks on models: UAR of each model under each attack, and its correlation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.metrics.averages import average_accuracy
from robustatlas.metrics.comparison import attack_correlation
from robustatlas.metrics.uar import uar_matrix
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.report.numbers.against import Held

FEWEST = 3
"""Models that a correlation takes."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Scores of models under attacks, [M, A] in percent: UAR where there is a reference (``uar``), else average
    accuracies. ``correlation`` [A, A]: over the models that count, which ``over`` names; None of fewer than three
    models or two attacks."""

    attacks: tuple[str, ...]
    scores: NDArray[np.float64]
    uar: bool
    correlation: NDArray[np.float64] | None
    over: str


def agreement_of(
    models: Sequence[AccuracyTable], trained_on: Sequence[Mapping[str, float] | None], held: Held | None = None
) -> Agreement:
    """Return how attacks agree on some models.

    With a reference as figure 6b of Kang et al. 2019 has it: the correlation of UAR over adversarially trained models,
    of each pair of attacks over those trained against neither. Without one, of average accuracies over all models.

    ``models``: accuracies of each, in percent, at the same points. ``trained_on``: of each, attack -> strength of its
    training; None where nothing is known of that.

    >>> sizes = [(80, 70), (60, 55), (40, 20)]
    >>> models = [AccuracyTable(90, {"p": {1: p}, "q": {1: q}}) for p, q in sizes]
    >>> agreement_of(models, [None] * 3).correlation.round(2)
    array([[1.  , 0.97],
           [0.97, 1.  ]])
    """
    if held is None or not held.ranked:
        attacks = models[0].attacks
        scores = np.array([[average_accuracy(model, [attack]) for attack in attacks] for model in models])
        found = _correlated(scores, np.zeros(scores.shape, np.bool_))
        return Agreement(attacks, scores, False, found, f"average accuracies of all {len(models)} models")
    attacks, reference = tuple(held.ranked), held.table(held.ranked)
    scores = uar_matrix([model.restrict(attacks, held.ranked) for model in models], reference)
    defended = np.array([trained is None or bool(trained) for trained in trained_on], np.bool_)
    seen = np.array([[attack in (trained or {}) for attack in attacks] for trained in trained_on], np.bool_)
    found = _correlated(scores[defended], seen[defended])
    over = f"UAR of {defended.sum()} adversarially trained models, of each pair over those trained against neither"
    if unknown := sum(trained is None for trained in trained_on):
        over += f"; {unknown} of unknown training count as such (--about tells it)"
    return Agreement(attacks, scores, True, found, over)


def _correlated(scores: NDArray[np.float64], seen: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    return attack_correlation(scores, seen=seen) if len(scores) >= FEWEST and scores.shape[1] > 1 else None
