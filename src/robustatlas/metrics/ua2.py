"""UA2: accuracy under the core attacks of ImageNet-UA at one level."""

from collections.abc import Iterable, Mapping

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic, share_statistic
from robustatlas.metrics.references.imagenet_ua import CIFAR10, CORE, IMAGENET, LEVELS, Level, to_sound_units
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable

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
