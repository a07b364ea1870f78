"""Unforeseen attack robustness (UAR)."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.competitiveness import check_ratio, weighted_ratios
from robustatlas.metrics.references.matching import match_entries, select_attacks
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.accuracies import AccuracyTable


def unforeseen_attack_robustness(accuracies: AccuracyTable, reference: Reference | AccuracyTable, attack: str) -> float:
    """Return UAR of a model under one attack: 100 * sum of its accuracies / sum of the reference's; may exceed 100.

    Args:
        accuracies: of the model, in percent, at the strengths that the reference is calibrated at.
        reference: ATA, the best accuracy of adversarially trained models under the same attack and strength.
        attack: name of the attack. The clean accuracy takes no part.

    Returns:
        percent, at least 0.

    Raises:
        UserError: where a strength is missing or extra.

    Source: Kang et al. 2019, "Testing Robustness Against Unforeseen Adversaries", equation 1 with calibrated strengths.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}})
        >>> round(unforeseen_attack_robustness(model, reference, "p"), 6)
        64.285714
    """
    entries = match_entries(accuracies, reference, [attack], clean=False)
    check_ratio(entries, "exp")
    return float(weighted_ratios(entries.accuracy, entries.reference, "exp"))


def mean_uar(
    accuracies: AccuracyTable, reference: Reference | AccuracyTable, attacks: Iterable[str] | None = None
) -> float:
    """Return mean of the UARs of several attacks (mUAR); when `attacks` is None, of those that the reference ranks.

    Args:
        accuracies: of the model, in percent, at the strengths that the reference is calibrated at.
        reference: ATA, the best accuracy of adversarially trained models under the same attack and strength.
        attacks: the attacks to average over.

    Returns:
        percent, at least 0.

    Raises:
        UserError: where a strength is missing or extra.

    Source: Kang et al. 2019, as Dai et al. 2023 (MultiRobustBench) write it, definition B.1.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> round(mean_uar(model, reference), 6)
        63.579983
    """
    chosen = select_attacks(accuracies, reference, attacks)
    return float(np.mean([unforeseen_attack_robustness(accuracies, reference, attack) for attack in chosen]))


def uar_matrix(
    models: Sequence[AccuracyTable], reference: Reference | AccuracyTable, attacks: Iterable[str] | None = None
) -> NDArray[np.float64]:
    """Return UAR [M, A] in percent of each of M models under each of A attacks.

    Args:
        models: of each its accuracies in percent, at the strengths that the reference is calibrated at.
        reference: ATA, the best accuracy of adversarially trained models under the same attack and strength.
        attacks: the columns; when None those that the reference ranks.

    Returns:
        percent, at least 0, in the order of the models and attacks.

    Raises:
        UserError: no model, or where a strength is missing or extra.

    Source: Kang et al. 2019, figures 6a, 7, 12 and 15; `attack_correlation` of it is figure 6b.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> uar_matrix([model, reference], reference).round(1)
        array([[ 64.3,  62.9],
               [100. , 100. ]])
    """
    if not models:
        raise UserError("No model is given; a matrix of UAR has a row for each model.")
    chosen = select_attacks(models[0], reference, attacks)
    return np.array([[unforeseen_attack_robustness(m, reference, attack) for attack in chosen] for m in models])
