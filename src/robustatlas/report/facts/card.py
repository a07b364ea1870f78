"""The robustness card: one fixed-format picture of a run, as facts; every renderer only draws them."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robustatlas.common.version import __version__
from robustatlas.common.wording import MASKED, elide_middle, pluralise
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.certified import halves_proved
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.facts.strips import Strip, StripSource, scale_of, strip_of
from robustatlas.results.result import Result

MOST_STRIPS = 12
"""Attacks that one card shows; the others are counted."""

_TITLE = 36


@dataclass(frozen=True)
class ResultCard:
    """Content of a card.

    Attributes:
        place: rank range among the published defenses, or that the score is masked; empty for neither.
        score: the headline, at the right.
        score_over: the attacks of the headline, if there are several.
        others: number of attacks that the card has no room or no scale for.
    """

    title: str
    scope: str
    place: str
    clean: Interval
    score: Interval | None
    score_name: str
    score_over: str
    strips: tuple[Strip, ...]
    others: int
    axis: str
    footer: str

    @property
    def words(self) -> str:
        """The whole card in words, for those who do not see it."""
        known = f"{self.score_over or self.score_name} {_ranged(self.score)}" if self.score else ""
        score = known or "no attack was searched at every strength"
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
    most: int = MOST_STRIPS,
) -> ResultCard:
    """The card of a run. The half-wrong sizes of the ``reference`` scale its strengths, or else ``distances`` (attack
    -> smallest distance between images of different classes). Where there is neither, each strip ends at the largest
    strength of its attack. Attacks that were certified and not run have strips too."""
    measured = _measured(facts)
    scale = scale_of({one.attack: one.last for one in measured}, reference, distances)
    strips = [strip_of(one, scale) for one in measured if one.attack in scale.units][:most]
    against = facts.reference if facts.reference and not facts.reference.held.doubts else None  # no room to say them
    ratio = against.numbers.get("CR ind-avg") if against and against.complete else None
    place = against.place if against and ratio is not None else None
    first = facts.headline
    why = masked_shares(facts, first.leading.at) if first else {}
    return ResultCard(
        title=elide_middle(facts.name, _TITLE),
        scope=f"{pluralise(facts.samples, 'image')} of {facts.data}",
        place=MASKED if why else place.words(against.held.approximate) if against and place else "",
        clean=facts.clean,
        score=first.leading if first else None,
        score_name=first.abbreviated_name if first else "",
        score_over=first.explained() if first and first.is_mean else "",
        strips=tuple(strips),
        others=len({attack.attack for attack in facts.attacks} | {one.attack for one in measured}) - len(strips),
        axis=scale.words,
        footer=f"run {run_hash(result)}, robustatlas {__version__}",
    )


def _measured(facts: RunFacts) -> list[StripSource]:
    """The attacks of a run that are known at every strength, and what was certified and not run."""
    proved, run = halves_proved(facts.certified), {attack.attack for attack in facts.attacks}
    nothing = (math.inf, math.inf)
    alone = [
        StripSource(certified.row, max(certified.strengths), None, math.inf, nothing, proved[certified.row])
        for certified in facts.certified
        if certified.row in proved.keys() - run
    ]
    known = [_attacked(one, facts, proved.get(one.attack, 0.0)) for one in facts.attacks if one.curve is not None]
    return known + alone


def _attacked(attack: AttackFacts, facts: RunFacts, proved: float) -> StripSource:
    assert attack.curve is not None
    last, accuracy = float(attack.strengths[-1]), attack.curve.robust_accuracy
    why = masked_shares(facts, [attack.attack])
    return StripSource(
        attack.attack,
        last,
        accuracy,
        attack.median.value,
        (attack.median.low, attack.median.high),
        proved,
        attack.own_threat,
        bool(why),
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
        digest.update(np.ascontiguousarray(result.outcome(attack).minimal_size).tobytes())
    return digest.hexdigest()[:12]


def _ranged(number: Interval) -> str:
    return f"{number.value:.1f}% ({number.low:.1f} to {number.high:.1f})"
