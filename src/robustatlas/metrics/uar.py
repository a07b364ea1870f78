"""Unforeseen attack robustness: UAR, the ratio to adversarially trained references, and UA2, a mean accuracy."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic, share_statistic
from robustatlas.metrics.competitiveness import check_ratio, weighted_ratios
from robustatlas.metrics.references.imagenet_ua import CIFAR10, CORE, IMAGENET, LEVELS, Level, to_sound_units
from robustatlas.metrics.references.matching import match_entries, select_attacks
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable


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


NAMES = {level: f"UA2 {level}" for level in LEVELS}
WORST = {level: f"UA worst {level}" for level in LEVELS}


def ua2(accuracies: AccuracyTable, level: Level = "medium") -> float:
    """Return UA2 of a model: its mean accuracy under the eight core attacks of ImageNet-UA at one of the three levels.

    Args:
        accuracies: of the model, in percent; the strengths show whether levels are those of ImageNet or CIFAR-10.
        level: ``"low"``, ``"medium"`` (the headline) or ``"high"``.

    Returns:
        percent.

    Raises:
        UserError: no such level, or a core attack is missing at it.

    Source: Kaufmann et al. 2023, "Testing Robustness Against Unforeseen Adversaries", and its code.

    Example:
        >>> from robustatlas.metrics.references.imagenet_ua import CIFAR10
        >>> entries = {f"ua-{name}": dict(zip(CIFAR10[name], (60, 40, 20))) for name in CORE}
        >>> ua2(AccuracyTable(90, entries)), ua2(AccuracyTable(90, entries), "high")
        (40.0, 20.0)
    """
    if level not in LEVELS:
        raise UserError(f"level={level!r} is not known; expected one of {', '.join(LEVELS)}.")
    grids = {attack: accuracies.distances(attack).tolist() for attack in accuracies.attacks}
    found = level_positions(grids)
    if found is None:
        raise UserError(
            "UA2 needs the eight core attacks of ImageNet-UA at their three levels; evaluate the suite 'imagenet-ua'."
        )
    values = [accuracies.values(attack)[position] for attack, position in found[level].items()]
    return float(np.mean(values))


def level_positions(grids: Mapping[str, Iterable[float]]) -> dict[Level, dict[str, int]] | None:
    """Return level -> core attack -> the position of that level among its strengths.

    None where one is missing. ``grids``: attack -> its strengths. They may be those of ImageNet or of CIFAR-10, and
    those of snow may be in the unit of the published threat model or of the sound one.
    """
    known = {attack: list(strengths) for attack, strengths in grids.items()}
    for published in (IMAGENET, CIFAR10):
        for sound in (True, False):
            found = {f"ua-{name}": to_sound_units(name, published[name]) if sound else published[name] for name in CORE}
            places = {
                attack: [strength_position(strength, known.get(attack, [])) for strength in levels]
                for attack, levels in found.items()
            }
            if all(place is not None for three in places.values() for place in three):
                return {
                    level: {attack: int(three[number] or 0) for attack, three in places.items()}
                    for number, level in enumerate(LEVELS)
                }
    return None


def ua2_statistics(outcomes: OutcomeTable) -> dict[str, SampleStatistic]:
    """Return UA2 at every level, and the share of samples that no core attack breaks there; nothing where a core
    attack was not evaluated at the levels.
    """
    grids = {attack: outcomes.distances(attack).tolist() for attack in outcomes.attacks}
    found = level_positions(grids)
    if found is None:
        return {}
    accuracies = AccuracyStatistics(outcomes)
    means = {NAMES[level]: accuracies.points_average(places) for level, places in found.items()}
    worst = {
        WORST[level]: share_statistic(
            outcomes.survivors_at_distances({attack: grids[attack][at] for attack, at in places.items()})
        )
        for level, places in found.items()
    }
    return means | worst
