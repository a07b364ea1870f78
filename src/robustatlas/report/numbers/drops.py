"""Drops of accuracy from an earlier version of a model to a new one, on the same images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.metrics.comparison import holm, mcnemar
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import Point
from robustatlas.outcomes.outcome import percent
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers.number import CLEAN, ROBUST
from robustatlas.report.numbers.shared import Shared
from robustatlas.results.result import Result


@dataclass(frozen=True)
class Drop:
    """Drop of one accuracy.

    Attributes:
        what: clean or robust accuracy.
        strength: of the attack; 0 for clean accuracy.
        points: by how much it fell, in percentage points; negative if it rose.
        p_value: of no difference, by McNemar's exact test, corrected (Holm) for all drops of the two versions.
        only_new, only_old: number of images that only one of the versions gets right.
    """

    what: str
    strength: float
    points: float
    p_value: float
    only_new: int
    only_old: int


@dataclass(frozen=True)
class Drops:
    """Drops of two versions of a model.

    Attributes:
        tested: "clean", or attack -> its drops, one for each strength.
        masked: attack -> the versions whose gradient is missing or misleads under it, so that nothing is tested.
        unsearched: points that were not searched on both versions; their attacks are not tested.
    """

    tested: Mapping[str, Sequence[Drop]]
    masked: Mapping[str, Sequence[Result]]
    unsearched: tuple[Point, ...]


def drops_between(shared: Shared) -> Drops:
    """Return the drops of the second of two runs to the first, under every attack that can be tested on both."""
    both = shared.table(0), shared.table(1)
    blind = {attack: [one for one in both if masked_shares(one, [attack])] for attack in shared.grid}
    seeing = {attack: grid for attack, grid in shared.grid.items() if not blind[attack]}
    unsearched = tuple(dict.fromkeys(point for one in both for point in one.restrict_distances(seeing).unsearched))
    tested = {attack: grid for attack, grid in seeing.items() if attack not in dict(unsearched)}
    new, old = (_correct(one.restrict_distances(tested)) for one in both)
    test, falls = mcnemar(new, old), percent(old.sum(0) - new.sum(0), shared.samples)
    columns = zip(falls, holm(test.p_values), test.only_first, test.only_second, strict=True)
    found: dict[str, list[Drop]] = {}
    points = [("clean", CLEAN, 0.0), *((attack, ROBUST, each) for attack, grid in tested.items() for each in grid)]
    for (name, what, strength), column in zip(points, columns, strict=True):
        fall, p_value, only_new, only_old = column
        found.setdefault(name, []).append(Drop(what, strength, float(fall), float(p_value), only_new, only_old))
    return Drops(found, {attack: which for attack, which in blind.items() if which}, unsearched)


def _correct(table: OutcomeTable) -> NDArray[np.bool_]:
    """Return [N, 1 + all strengths] if each sample is right, clean and under each attack at each strength."""
    return np.concatenate([table.clean[:, None], *(table.correct(attack) for attack in table.attacks)], axis=1)
