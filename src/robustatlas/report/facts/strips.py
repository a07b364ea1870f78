"""Strips of the robustness card: one attack each, on an axis that all attacks share."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import format_size, range_words
from robustatlas.common.wording import label_masked
from robustatlas.metrics.references.reference import Reference

CELLS = 48
"""Shades of a strip."""

REACH = {"reference": 2.0, "distance": 1.0, "strength": 1.0}
"""End of the shared axis, in its unit."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StripSource:
    """Numbers of an attack that a strip shows; fields that are not listed are those of :class:`Strip`.

    Attributes:
        accuracy: function of sizes to robust accuracy in percent; None if nothing was searched.
        halved: median size.
        ends: low and high end of its interval.
    """

    attack: str
    last: float
    accuracy: Callable[[Floats], Floats] | None
    halved: float
    ends: tuple[float, float]
    proved: float = 0.0
    own_threat: bool = False
    masked: bool = False


@dataclass(frozen=True)
class Strip:
    """One attack of a card. Places are shares of the axis, in [0, 1]; None lies beyond it, or is not known.

    Attributes:
        shades: robust accuracy in percent in the middle of each of `CELLS` cells; None where it was not searched.
        halved: the size from which on no more than half of the clean accuracy is left, in the attack's own unit; inf
            where more is left at every size.
        tick: its place.
        reference: place at which half of the reference's clean accuracy is left; None where there is none.
        beyond: whether that is only farther, as its strengths end there.
        certified: place up to which half of the clean accuracy is proved; None where that is not so at any size.
        own_threat: whether the run searched another threat model than the reference's.
        proved: the size of `certified`, in the attack's own unit; 0 where there is none.
        masked: whether shades and sizes are upper bounds only.
        last: largest strength, in the attack's own unit.
    """

    attack: str
    label: str
    shades: tuple[float | None, ...]
    halved: float
    tick: float | None
    low: float
    high: float
    reference: float | None
    beyond: bool
    certified: float | None
    own_threat: bool
    proved: float = 0.0
    masked: bool = False
    last: float = 0.0

    @property
    def searched(self) -> bool:
        """True if there is more than a certified part."""
        return any(shade is not None for shade in self.shades)

    @property
    def words(self) -> str:
        """The strip in words."""
        reach = (
            f"{range_words(self.attack)} {format_size(self.proved, attack=self.attack)}"
            if math.isfinite(self.proved)
            else "at every size"
        )
        if not self.searched:
            return f"{self.label}: half proved {reach}, not attacked"
        said = (
            f"halved from {format_size(self.halved, attack=self.attack)}"
            if math.isfinite(self.halved)
            else "more than half withstands it"
        )
        at_most, share = "at most " if self.beyond else "", self.share
        against = "" if share is None else f", {at_most}{share:.2g} times the reference's"
        proved = f", half proved {reach}" if self.certified is not None else ""
        return label_masked(f"{self.label}: {said}{against}{proved}{', about' if self.own_threat else ''}", self.masked)

    @property
    def share(self) -> float | None:
        """Its place as a multiple of the reference's."""
        return None if self.reference is None or self.tick is None else self.tick / self.reference


@dataclass(frozen=True)
class Scale:
    """The axis that the strips of a card share. ``kind``: "reference", "distance" or "strength". ``units``: attack ->
    the size that is its unit. ``beyond``: attacks under which the reference keeps more than half of its clean accuracy
    at all its strengths."""

    kind: str
    units: Mapping[str, float]
    words: str
    beyond: frozenset[str] = frozenset()


def scale_of(
    known: Mapping[str, float], reference: Reference | None, distances: Mapping[str, float] | None = None
) -> Scale:
    """The axis for some attacks (name -> largest strength). It is made from the first of three that is known: where
    half of the reference's clean accuracy is left (it has some of the attacks), the distances between classes (all
    attacks have one), the largest strengths."""
    told = {} if reference is None else reference.accuracies.distance_entries
    entries = {attack: told.get(attack, {}) for attack in known}
    if reference is not None and any(entries.values()):
        halved = {a: halved_at(list(grid), list(grid.values()), reference.clean) for a, grid in entries.items() if grid}
        units = {attack: max(entries[attack]) if at is None else at for attack, at in halved.items()}
        words = "unit: the strength that halves the reference's clean accuracy (◇; ◇›: farther)"
        return Scale("reference", units, words, frozenset(attack for attack, at in halved.items() if at is None))
    if distances and known and all(attack in distances for attack in known):
        units = {attack: distances[attack] for attack in known}
        return Scale("distance", units, "unit: the smallest distance between images of different classes")
    return Scale("strength", dict(known), "unit: the last strength of each attack")


def strip_of(source: StripSource, scale: Scale) -> Strip:
    """The strip of an attack."""
    end = scale.units[source.attack] * REACH[scale.kind]
    middles = end * (np.arange(CELLS) + 0.5) / CELLS
    searched = (middles <= source.last * (1 + 1e-9)).tolist()
    shades: Sequence[float | None] = [None] * CELLS
    if source.accuracy is not None:
        accuracies = source.accuracy(middles).tolist()
        shades = [value if there else None for value, there in zip(accuracies, searched, strict=True)]
    low, high = source.ends
    return Strip(
        attack=source.attack,
        label=attack_label(source.attack).label,
        shades=tuple(shades),
        halved=source.halved,
        tick=source.halved / end if source.halved <= end else None,
        low=min(low / end, 1.0),
        high=min(high / end, 1.0),
        reference=1 / REACH[scale.kind] if scale.kind == "reference" else None,
        beyond=source.attack in scale.beyond,
        certified=min(source.proved / end, 1.0) if source.proved > 0 else None,
        own_threat=source.own_threat,
        proved=source.proved,
        masked=source.masked,
        last=source.last,
    )


def halved_at(strengths: Sequence[float], accuracies: Sequence[float], clean: float) -> float | None:
    """The strength at which accuracies fall through half of the clean one (of 100 % where it is not known), on straight
    lines between them; None where they do not.
    """
    sizes, values = [0.0, *strengths], [clean if math.isfinite(clean) else 100.0, *accuracies]
    half = values[0] / 2
    for (left, above), (right, below) in pairwise(zip(sizes, values, strict=True)):
        if above >= half > below:
            return left + (right - left) * (above - half) / (above - below)
    return None
