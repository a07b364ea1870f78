"""Where a model breaks: one rule for every page."""

from collections.abc import Collection
from dataclasses import dataclass

from robustatlas.outcomes.table import OutcomeTable


@dataclass(frozen=True)
class BreakingPoint:
    """The attack that leaves fewest images correct, and the size from which on half of all images are wrong. ``half``:
    the size; 0 where half of the images are wrong before any attack, inf where more than half withstand it."""

    attack: str
    half: float


def breaking_point(table: OutcomeTable, aside: Collection[str] = ()) -> BreakingPoint | None:
    """Where a model breaks: under the attack with the lowest mean accuracy over its strengths.

    Attacks of which not every strength was searched count only where there is no other, and so do those that are set
    ``aside`` (their threat models differ from a reference's); None without any attack.

    >>> from robustatlas.results.result import Result
    >>> sizes = {"linf": [0.1, 0.3, 0.3], "l2": [0.5, 1.0, 1.2]}
    >>> breaking_point(Result.from_arrays([0, 0, 0], [0, 0, 0], sizes, {"linf": [0.2, 0.4], "l2": [1, 1.5]}))
    BreakingPoint(attack='l2', half=1.0)
    """
    if not table.attacks:
        return None
    judged = {attack: float((~outcome.broken()).mean()) for attack, outcome in table.judged().outcomes.items()}
    left = {attack: mean for attack, mean in judged.items() if attack not in aside} or judged
    attack = min(left, key=left.__getitem__) if left else next(iter(table.attacks))
    return BreakingPoint(attack, table.outcome(attack).median_size)
