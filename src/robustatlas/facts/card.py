"""The robustness card: one fixed-format picture of a run, as facts; every renderer only draws them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from robustatlas.facts.numbers import CONFIDENCE
from robustatlas.facts.run import AttackFacts, RunFacts
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval
from robustatlas.references.reference import Reference
from robustatlas.result import Result
from robustatlas.version import __version__
from robustatlas.wording import counted, shortened, size, wording

CELLS = 48
"""Shades of a strip."""

REACH = {"reference": 2.0, "distance": 1.0, "strength": 1.0}
"""Where the shared axis ends, in its unit."""

ADDRESS = "pypi.org/project/robustatlas"

MOST_STRIPS = 12
"""Attacks that one card shows; the others are counted."""

_TITLE = 40


@dataclass(frozen=True)
class Strip:
    """One attack of a card. Places are shares of the axis, in [0, 1]; None lies beyond it, or is not known.

    Attributes:
        attack: name.
        label: in front of people.
        shades: robust accuracy in percent in the middle of each of `CELLS` cells; None where it was not searched.
        half: the size from which on half of the images are wrong, in the attack's own unit; inf where never.
        tick: its place.
        low, high: places of its interval.
        reference: place at which half of the images are wrong for the reference; None where there is none.
        beyond: whether they are so only farther than that, as its strengths end there.
        certified: place up to which half of the images are proved to be right; None where nothing is certified.
        own_set: whether the run searched another set than the reference's.
    """

    attack: str
    label: str
    shades: tuple[float | None, ...]
    half: float
    tick: float | None
    low: float
    high: float
    reference: float | None
    beyond: bool
    certified: float | None
    own_set: bool

    @property
    def words(self) -> str:
        """The strip in words."""
        if self.half == 0:
            said = "half wrong without any attack"
        else:
            said = f"half wrong from {size(self.half)}" if math.isfinite(self.half) else "more than half withstand it"
        at_most = "at most " if self.beyond else ""
        against = f", {at_most}{self.half_share:.2g} times the reference's" if self.half_share else ""
        proved = ", in part proved" if self.certified else ""
        return f"{self.label}: {said}{against}{proved}{', about' if self.own_set else ''}"

    @property
    def half_share(self) -> float | None:
        """Its place as a multiple of the reference's."""
        return None if self.reference is None or self.tick is None else self.tick / self.reference


@dataclass(frozen=True)
class ResultCard:
    """What a card says.

    Attributes:
        title: name of the model.
        scope: images and data set.
        place: rank range among the published defenses; empty where there is none.
        clean: clean accuracy.
        score: the number at the right: CR ind-avg, or the average accuracy where no reference gives one.
        score_name: what it is called.
        strips: one for each attack.
        others: number of attacks that the card has no room or no scale for.
        axis: what the shared axis is.
        footer: hash of the run, version and address.
    """

    title: str
    scope: str
    place: str
    clean: Interval
    score: Interval | None
    score_name: str
    strips: tuple[Strip, ...]
    others: int
    axis: str
    footer: str

    @property
    def words(self) -> str:
        """The whole card in words, for those who do not see it."""
        score = f"{self.score_name} {_ranged(self.score)}" if self.score else "no attack was searched at every strength"
        place = f"{self.place}; " if self.place else ""
        return (
            f"Robustness card of {self.title} on {self.scope}: clean accuracy {_ranged(self.clean)}; {score}; {place}"
            f"{'; '.join(strip.words for strip in self.strips)}. {self.footer}."
        )


def card_of(
    result: Result,
    facts: RunFacts,
    reference: Reference | None = None,
    distances: Mapping[str, float] | None = None,
    certified: Mapping[str, RobustnessCurve] | None = None,
) -> ResultCard:
    """The card of a run.

    Args:
        result: the run.
        facts: of the run, held against the reference.
        reference: whose half-wrong sizes scale the strengths; None for the distances between classes.
        distances: attack -> smallest distance between images of different classes: the scale where there is no
            reference.
        certified: attack -> curve of the certified sizes, where some were certified.

    Where there is neither, each strip ends at the largest strength of its attack.
    """
    known = [attack for attack in facts.attacks if attack.curve is not None]
    kind, scales, axis = _scales(known, reference, distances or {})
    shown = [attack for attack in known if attack.attack in scales][:MOST_STRIPS]
    beyond = [
        kind == "reference" and reference is not None and min(reference.accuracies.values(a.attack)) >= 50
        for a in shown
    ]
    strips = [
        _strip(a, scales[a.attack] * REACH[kind], kind, far, (certified or {}).get(a.attack))
        for a, far in zip(shown, beyond, strict=True)
    ]
    ratio = facts.reference.numbers.get("CR ind-avg") if facts.reference and facts.reference.complete else None
    place = facts.reference.place if facts.reference else None
    return ResultCard(
        title=shortened(facts.name, _TITLE),
        scope=f"{counted(facts.samples, 'image')} of {facts.data}",
        place=place.words(facts.reference.held.approximate) if facts.reference and place else "",
        clean=facts.clean,
        score=ratio or facts.average,
        score_name="CR ind-avg" if ratio else "average accuracy",
        strips=tuple(strips),
        others=len(facts.attacks) - len(strips),
        axis=axis,
        footer=f"run {run_hash(result)}, robustatlas {__version__}, {ADDRESS}",
    )


def run_hash(result: Result) -> str:
    """Twelve digits that are those of the run's model, data, attacks, samples and outcomes."""
    identity = result.identity
    told = {
        "model": [result.name, identity.model.weights_sha256 if identity else None],
        "data": [result.data, identity.data.images_sha256 if identity else None],
        "attacks": sorted(result.records) or sorted(result.attacks),
    }
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(np.ascontiguousarray(result.index).tobytes())
    for attack in sorted(result.attacks):
        digest.update(np.ascontiguousarray(result.minimal_size(attack)).tobytes())
    return digest.hexdigest()[:12]


def half_wrong(strengths: Sequence[float], accuracies: Sequence[float], clean: float) -> float | None:
    """The strength at which accuracies fall through 50 %, on straight lines between them; None where they do not.

    Example:
        >>> half_wrong([0.1, 0.2], [60.0, 40.0], 90.0)
        0.15...
    """
    sizes, values = [0.0, *strengths], [clean if math.isfinite(clean) else 100.0, *accuracies]
    for (left, above), (right, below) in pairwise(zip(sizes, values, strict=True)):
        if above >= 50 > below:
            return left + (right - left) * (above - 50) / (above - below)
    return None


def _reference_halves(known: Sequence[AttackFacts], reference: Reference) -> dict[str, float]:
    """Attack -> where half is wrong for the reference; its largest strength where that lies farther."""
    cells = {attack.attack: reference.accuracies.cells.get(attack.attack, {}) for attack in known}
    return {
        attack: half_wrong(list(cell), list(cell.values()), reference.clean) or max(cell)
        for attack, cell in cells.items()
        if cell
    }


def _scales(
    known: Sequence[AttackFacts], reference: Reference | None, distances: Mapping[str, float]
) -> tuple[str, dict[str, float], str]:
    """The kind of the axis, attack -> the size that is its unit, and the axis in words."""
    if reference is not None and (found := _reference_halves(known, reference)):
        return "reference", found, "unit: the strength from which on half is wrong for the reference (◇; ◇›: farther)"
    if known and all(attack.attack in distances for attack in known):
        return (
            "distance",
            {a.attack: distances[a.attack] for a in known},
            "unit: the smallest distance between images of different classes",
        )
    largest = {attack.attack: float(attack.strengths[-1]) for attack in known}
    return "strength", largest, "unit: the largest strength of each attack"


def _strip(attack: AttackFacts, end: float, kind: str, beyond: bool, certified: RobustnessCurve | None) -> Strip:
    assert attack.curve is not None
    middles = end * (np.arange(CELLS) + 0.5) / CELLS
    accuracies = attack.curve.robust_accuracy(middles).tolist()
    searched = (middles <= attack.strengths[-1] * (1 + 1e-9)).tolist()
    band = attack.curve.band(CONFIDENCE, kind="pointwise")
    half = attack.quartiles[1]
    proved = float(certified.quantile(0.5)) if certified is not None else 0.0
    return Strip(
        attack=attack.attack,
        label=wording(attack.attack).label,
        shades=tuple(value if there else None for value, there in zip(accuracies, searched, strict=True)),
        half=half,
        tick=half / end if half <= end else None,
        low=_place(band.sizes[band.high >= 50], end),
        high=_place(band.sizes[band.low >= 50], end),
        reference=1 / REACH[kind] if kind == "reference" else None,
        beyond=beyond,
        certified=min(proved / end, 1.0) if proved > 0 else None,
        own_set=attack.own_set,
    )


def _place(sizes: NDArray[np.float64], end: float) -> float:
    """Of the first of some sizes on the axis; 1 where there is none on it."""
    return min(float(sizes[0]) / end, 1.0) if len(sizes) else 1.0


def _ranged(number: Interval) -> str:
    return f"{number.value:.1f}% ({number.low:.1f} to {number.high:.1f})"
