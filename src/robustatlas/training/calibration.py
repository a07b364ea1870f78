"""UAR's calibration: six strengths of an attack that are as hard to learn as six of linf (Kang et al. 2019, sec. 3).
The accuracies come from a reference by the rule "ata"."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from robustatlas.attacks.catalogue import catalogue
from robustatlas.common.errors import UserError
from robustatlas.common.wording import value_as_typed
from robustatlas.metrics.references import Reference
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.strengths import listed_strengths, read_strength

COUNT = 6
"""Strengths of a calibrated attack."""
WITHIN = 3.0
"""Points below the clean accuracy that the smallest strength may cost."""
BELOW = 25.0
"""ATA in percent under which the largest strength pushes, as on ImageNet-100; on CIFAR-10 the paper takes 40."""
FAR = 110.0
"""Cost, in points, beyond which six strengths are not as hard as those of the baseline. The largest costs of the source
are 109.4 in its code (jpeg-l2 on CIFAR-10) and 86.7 in the paper (fog)."""
_LARGEST_GRID = 24
_DECIMALS = 9
"""Of a cost in points: what differs less is equal."""


@dataclass(frozen=True)
class Calibration:
    """Six strengths of an attack.

    Attributes:
        attack: its name.
        strengths: as people type them, in the order of harm.
        ata: adversarial training accuracies in percent at these, in the same order.
        cost: sum of absolute differences of the sorted accuracies and those of the baseline, in points.
        smallest: eps_min, the most harmful strength whose ATA is within 3 points of the clean accuracy; None: none is,
            or the clean accuracy is not known.
        largest: eps_max, the least harmful strength with an ATA below 25; None: none reaches that, so people have to
            say from where on they are confused.

    Example:
        >>> Calibration("mine", (1.0, 2.0), (90.0, 20.0), cost=3.0, smallest=None, largest=2.0).largest
        2.0
    """

    attack: str
    strengths: tuple[float, ...]
    ata: tuple[float, ...]
    cost: float
    smallest: float | None
    largest: float | None

    @property
    def far(self) -> bool:
        """Whether no six strengths are as hard as those of the baseline."""
        return self.cost > FAR

    def mark(self, like: str = "linf") -> str:
        """What a reader has to know of a calibration that is :attr:`far` off."""
        return (
            f"The calibration of {self.attack} is far off: its best six strengths are {self.cost:.0f} points from "
            f"{like}, in all, where no published calibration is more than {FAR:.0f}; train against more and other "
            "strengths before UAR under it is read."
        )


def calibrate(
    attack: str,
    reference: Reference | AccuracyTable,
    like: str = "linf",
    *,
    clean: float | None = None,
    within: float = WITHIN,
    below: float = BELOW,
    up_to: float | None = None,
) -> Calibration:
    """Choose six strengths of ``attack`` as UAR does.

    Args:
        attack: with ATA at six strengths or more in ``reference``.
        reference: ATA in percent; that of ``like`` at exactly six strengths.
        like: the attack whose accuracies are to be matched.
        clean: clean accuracy in percent; default: the reference's.
        within: points below it that define the smallest strength.
        below: ATA in percent that defines the largest strength.
        up_to: leave strengths that do more harm than this one, as people type it, out of the matching; default: none,
            as published (Elastic on CIFAR-10 takes 8, though 4 is below 40 already).

    Returns:
        the six strengths, with the accuracies there and how far these are from those of ``like``.

    Raises:
        UserError: too few strengths, or more than 24; an attack that has fewer; accuracies at strengths that were not
            searched.

    Example:
        >>> linf = {1: 91.0, 2: 88.0, 4: 82.0, 8: 71.0, 16: 46.0, 32: 23.0}
        >>> mine = {0.5: 94.0, 1: 90.0, 2: 87.0, 4: 80.0, 8: 70.0, 16: 50.0, 32: 20.0}
        >>> found = calibrate("mine", AccuracyTable(95, {"linf": linf, "mine": mine}))
        >>> found.strengths, found.cost, found.smallest, found.largest
        ((1.0, 2.0, 4.0, 8.0, 16.0, 32.0), 12.0, 0.5, 32.0)
    """
    table = reference.accuracies if isinstance(reference, Reference) else reference
    known = catalogue().get(attack)
    if known is not None and 0 < len(known.threat.levels) < COUNT:
        levels = listed_strengths(known.threat.levels, attack)
        raise UserError(f"{attack} has only the strengths {levels}, and calibration chooses {COUNT}.")
    table.require_searched("A calibration", [like, attack])
    baseline = table.values(like).tolist()
    if len(baseline) != COUNT:
        raise UserError(
            f"The attack {like!r} that others are matched to has {len(baseline)} strengths in the reference; expected "
            f"exactly {COUNT}, such as 1, 2, 4, 8, 16 and 32 of 255 for linf."
        )
    grid = dict(zip(table.distances(attack).tolist(), table.values(attack).tolist(), strict=True))
    ordinary = table.clean if clean is None else clean
    smallest = [eps for eps, ata in grid.items() if ata >= ordinary - within]
    largest = [eps for eps, ata in grid.items() if ata < below]
    last = math.inf if up_to is None else read_strength(up_to, attack) * (1 + 1e-9)
    distances, cost = match_strengths(baseline, {eps: ata for eps, ata in grid.items() if eps <= last}, attack)
    return Calibration(
        attack=attack,
        strengths=tuple(value_as_typed(attack, eps) for eps in distances),
        ata=tuple(grid[eps] for eps in distances),
        cost=cost,
        smallest=value_as_typed(attack, max(smallest)) if smallest else None,
        largest=value_as_typed(attack, min(largest)) if largest else None,
    )


def match_strengths(
    baseline: Sequence[float], grid: Mapping[float, float], attack: str = "the attack"
) -> tuple[tuple[float, ...], float]:
    """Return the six distances of ``grid`` (distance -> ATA) whose accuracies are nearest to ``baseline``, and their
    cost.

    The cost of six is the sum of absolute differences after sorting both, which is that of the best assignment; at
    equal costs the smaller strengths are taken.
    """
    if not COUNT <= len(grid) <= _LARGEST_GRID:
        raise UserError(
            f"{attack} has ATA at {len(grid)} strengths; calibration chooses {COUNT} among {COUNT} to {_LARGEST_GRID}. "
            + ("Train against more of them, each twice the last." if len(grid) < COUNT else "Leave some out.")
        )
    wanted = sorted(baseline, reverse=True)
    best: tuple[float, tuple[float, ...]] = (math.inf, ())
    for chosen in combinations(sorted(grid), COUNT):
        reached = sorted((grid[eps] for eps in chosen), reverse=True)
        cost = round(math.fsum(abs(a - b) for a, b in zip(wanted, reached, strict=True)), _DECIMALS)
        best = min(best, (cost, chosen))
    return best[1], best[0]


def calibrated(reference: Reference, calibration: Calibration, like: str = "linf") -> Reference:
    """The reference with ``like`` and the attack at its six strengths: what UAR divides by."""
    table = reference.accuracies.restrict(
        [like, calibration.attack] if like != calibration.attack else [like],
        {calibration.attack: calibration.strengths},
    )
    notes = (*reference.notes, f"{calibration.attack} is calibrated to {like}: {calibration.cost:.2f} points apart.")
    marks = (*reference.marks, *([calibration.mark(like)] if calibration.far else []))
    return replace(reference, accuracies=table, ranked=table.attacks, defenses=(), notes=notes, marks=marks)
