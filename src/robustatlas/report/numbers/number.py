"""One number of a model, and the table of such numbers that every surface filters, orders and formats."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.strengths import is_same_strength

CLEAN = "clean accuracy"
REJECTED = "clean rejected"
ROBUST = "robust accuracy"
TYPICAL = "typical accuracy"
CERTIFIED = "certified accuracy"
MEAN_OF_ATTACK = "mean over strengths"
WORST_OF_STRENGTH = "worst case at one strength"
MEAN_OF_STRENGTH = "mean over attacks at one strength"
MEAN = "average accuracy"
WORST = "union accuracy"
MEDIAN = "median size"
AREA = "curve area"
HYPERVOLUME = "AH"
UAR = "UAR"


class Status(Enum):
    """Status of a number; its value is the word that people read."""

    OK = "ok"
    UPPER_BOUND = "upper bound only"
    INCOMPLETE = "incomplete"
    CERTIFIED = "certified"
    PUBLISHED = "published"


@dataclass(frozen=True)
class Number(Interval):
    """A number of a model: an interval with what it is a number of.

    Attributes:
        what: name of the number, such as `robust accuracy`; the registry of metrics explains the names that it has.
        model: name of the model, without a mark.
        at: attack -> the strengths that the number rests on; empty for the clean inputs.
        samples: number of samples.
        status: what the number is known to be.
        why: reason of a status other than OK, in words that follow it; empty where the status says all.
        seed: of the training of the model; None where it is not known.
        decided_by: attack -> percent of the samples that it alone breaks, of a worst case over attacks.

    Example:
        >>> Number(58.2, 54.1, 62.1, 0.95, ROBUST, "net", {"linf": (0.1,)}, samples=600).attacks
        ('linf',)
    """

    what: str
    model: str
    at: Mapping[str, tuple[float, ...]]
    samples: int
    status: Status = Status.OK
    why: str = ""
    seed: int | None = None
    decided_by: Mapping[str, float] = field(default_factory=dict)

    @property
    def attacks(self) -> tuple[str, ...]:
        """The attacks that the number rests on."""
        return tuple(self.at)

    @property
    def attack(self) -> str:
        """The attack of a number that rests on one."""
        (attack,) = self.at
        return attack

    @property
    def strength(self) -> float:
        """The strength of a number that rests on one attack at one strength."""
        ((strength,),) = self.at.values()
        return strength

    @property
    def points(self) -> dict[str, float]:
        """Attack -> strength, of a number that rests on one strength of each attack."""
        return {attack: strength for attack, (strength,) in self.at.items()}

    @property
    def interval(self) -> Interval:
        """The value with its interval alone."""
        return Interval(self.value, self.low, self.high, self.confidence)


@dataclass(frozen=True)
class Numbers:
    """A table of numbers: rows that surfaces choose from, and never compute.

    Example:
        >>> rows = [Number(90, 85, 94, 0.95, CLEAN, "net", {}, 200)]
        >>> Numbers(rows).find(CLEAN).value
        90
    """

    rows: Sequence[Number] = ()

    def __iter__(self) -> Iterator[Number]:
        return iter(self.rows)

    def __add__(self, others: Iterable[Number]) -> Numbers:
        return Numbers((*self.rows, *others))

    def select(self, what: str, attack: str | None = None, model: str | None = None) -> tuple[Number, ...]:
        """Return the rows of one kind of number, of one attack and of one model where these are given."""
        return tuple(
            row for row in self.rows if row.what == what and attack in (None, *row.at) and model in (None, row.model)
        )

    def find(self, what: str, attack: str | None = None, model: str | None = None) -> Number | None:
        """Return the only row of one kind of number; None where there is none."""
        return next(iter(self.select(what, attack, model)), None)

    def find_point(self, what: str, attack: str, strength: float) -> Number | None:
        """Return the row of one kind of number at one strength of one attack; None where there is none."""
        return next((row for row in self.select(what, attack) if is_same_strength(row.strength, strength)), None)

    def blocks(self) -> list[tuple[str, ...]]:
        """Return the attacks that are known at every strength, those at the same strengths of one unit together."""
        joint = [row.attacks for row in self.select(WORST_OF_STRENGTH)]
        attacks = [row.attack for row in self.select(MEAN_OF_ATTACK)]
        return list(dict.fromkeys(next((each for each in joint if one in each), (one,)) for one in attacks))

    def mean(self, what: str, attack: str | None = None) -> float:
        """Return the mean of the rows of one kind of number, of one attack if it is given."""
        return statistics.fmean(row.value for row in self.select(what, attack))

    def weakest_attack(self, aside: Collection[str] = ()) -> Number | None:
        """Return the median size under the attack with the lowest mean over its strengths; None without any attack.

        Attacks of which not every strength was searched count only where there is no other, and so do those in
        `aside`, whose threat models differ from a reference's.
        """
        means = {mean.attack: mean.value for mean in self.select(MEAN_OF_ATTACK)}
        left = {attack: mean for attack, mean in means.items() if attack not in aside} or means
        medians = self.select(MEDIAN)
        return self.find(MEDIAN, min(left, key=left.__getitem__)) if left else next(iter(medians), None)
