"""Standings of several models: who is more robust, against what, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.wording import join_words, masked_reason
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.of_several import SharedNumbers
from robustatlas.report.numbers.pairs import MOST_COMPARED
from robustatlas.report.numbers.statistics import mean_label


@dataclass(frozen=True)
class Contest:
    """One line of a comparison.

    Attributes:
        label: "Clean images", the label of an attack, "All attacks", or an attack at its strength.
        attack: name of the attack whose mean it is; empty for others.
        strengths: number of strengths that a mean goes over; 0 of a number at one point.
        values: the number of each model.
        ahead: pairs of a model that is ahead and one that is behind it, by their positions.
        masked: positions of the models that do not compete, as their numbers are upper bounds only.
        best: positions of the two models with the highest values among those that compete; fewer where fewer do.
        difference: of these two in points, paired by image; None of more models than `MOST_COMPARED`.
        p_value: of no difference between them, corrected for all pairs; None likewise.
    """

    label: str
    attack: str
    strengths: int
    values: tuple[Number, ...]
    ahead: tuple[tuple[int, int], ...]
    masked: tuple[int, ...] = ()
    best: tuple[int, ...] = ()
    difference: Interval | None = None
    p_value: float | None = None

    @property
    def leaders(self) -> tuple[int, ...]:
        """The model that is ahead of every other one that competes; empty where there is none."""
        competing = [model for model in range(len(self.values)) if model not in self.masked]
        return tuple(
            model
            for model in competing
            if len(competing) > 1 and all((model, other) in self.ahead for other in competing if other != model)
        )

    @property
    def is_told_apart(self) -> bool:
        """True if some model is ahead of another one."""
        return bool(self.ahead)

    def order(self, names: Collection[str]) -> str:
        """Return who is ahead of whom; one name if that is so of all others, and nothing where nobody is."""
        called = list(names)
        if self.leaders:
            return called[self.leaders[0]]
        behind: dict[int, list[str]] = {}
        for first, second in self.ahead:
            behind.setdefault(first, []).append(called[second])
        return ", ".join(f"{called[model]} of {join_words(others)}" for model, others in behind.items())


@dataclass(frozen=True)
class Standings:
    """Models on the images and strengths that all of them have.

    Attributes:
        names: of the models, as people read them.
        samples: number of images.
        headlines: one line for each headline attack.
        why: reason for the headline, in words that follow it.
        is_mean: True if the headline is the mean over each attack's strengths.
        clean: the line of the clean images.
        attacks: the mean over the strengths of each attack.
        together: the mean over all attacks and strengths; None for a single attack.
        masked: name of a model that is masked under some of these attacks -> why.
    """

    names: tuple[str, ...]
    samples: int
    headlines: tuple[Contest, ...]
    why: str
    is_mean: bool
    clean: Contest
    attacks: tuple[Contest, ...]
    together: Contest | None
    masked: Mapping[str, str] = field(default_factory=dict)

    @property
    def contests(self) -> tuple[Contest, ...]:
        """The lines of a table: the headline at its strengths, clean, every attack, all of them."""
        points = () if self.is_mean else self.headlines
        return tuple(one for one in (*points, self.clean, *self.attacks, self.together) if one)

    @property
    def robust_leader(self) -> int | None:
        """The model that is ahead of every other one under every headline attack; None where there is none."""
        leaders = {contest.leaders for contest in self.headlines}
        (first, *others) = leaders
        return first[0] if first and not others else None


def standings_of(several: SharedNumbers) -> Standings:
    """Return who is ahead in each number; accuracies that are masked are compared with none."""
    attacks = tuple(
        _contest(
            several,
            mean_label(attack) if len(several.shared.grid) > 1 else kinds.MEAN,
            attack_label(attack).label,
            attack,
        )
        for attack in several.shared.grid
    )
    points = tuple(_contest(several, label, label) for label in several.headline_labels if several.headline.at)
    labels = several.shared.labels
    reasons = ((label, masked_shares(one.table)) for label, one in zip(labels, several.models, strict=True))
    return Standings(
        names=labels,
        samples=several.shared.samples,
        headlines=points or attacks,
        why=several.headline.why,
        is_mean=not points,
        clean=_contest(several, kinds.CLEAN, "Clean images"),
        attacks=attacks,
        together=_contest(several, kinds.MEAN, "All attacks") if len(attacks) > 1 else None,
        masked={label: masked_reason(why) for label, why in reasons if why},
    )


def _contest(several: SharedNumbers, key: str, label: str, attack: str = "") -> Contest:
    values = tuple(one.numbers[key] for one in several.models)
    barred = tuple(model for model, one in enumerate(several.models) if key in one.barred)
    leads = [(pair, pair.leader(key)) for pair in several.pairs]
    ahead = tuple((lead, pair.second if lead == pair.first else pair.first) for pair, lead in leads if lead is not None)
    competing = [model for model in range(len(values)) if model not in barred]
    best = tuple(sorted(competing, key=lambda model: -values[model].value)[:2])
    pair = next((one for one in several.pairs if {one.first, one.second} == {*best}), None)
    at_point = values[0].what in (kinds.ROBUST, kinds.CLEAN)
    strengths = 0 if at_point else sum(map(len, values[0].at.values()))
    found = Contest(label, attack, strengths, values, ahead, barred, best)
    if pair is None or len(values) > MOST_COMPARED:
        return found
    gap, sign = pair.differences[key], 1 if pair.first == best[0] else -1
    low, high = sorted([sign * gap.low, sign * gap.high])
    difference = Interval(sign * gap.value, low, high, gap.confidence)
    return Contest(label, attack, strengths, values, ahead, barred, best, difference, pair.p_values[key])
