"""What an attack is: a threat model, the plan of each search that it has, and the strengths it is reported at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from robustatlas.attacks.search import SEARCHES, Search, search_named
from robustatlas.attacks.search.plan import Leg, Plan, Stage
from robustatlas.attacks.search.rules import Effort, MostQueries
from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import real
from robustatlas.outcomes.records import ATTACK_NAME
from robustatlas.outcomes.strengths import check_strengths, grid
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.imagenet_ua.sizes import is_large

if TYPE_CHECKING:
    from robustatlas.models.classifier import Classifier, Errors

__all__ = ["Attack", "AttackInfo", "Effort", "Leg", "Plan", "ProtocolName", "Search", "Stage", "grid"]

ProtocolName = Literal["default", "paper"]
"""``"default"``: sound threat models and strong search; ``"paper"``: each attack as its source ran it."""


@dataclass(frozen=True)
class AttackInfo:
    """What a reader wants to know of an attack, of no effect on any number.

    Attributes:
        unit: of its strengths.
        source: where it was published.
        note: how the default differs from the published attack.
        calibrated: whose strengths these are, where they are not those of a source.

    Example:
        >>> AttackInfo("radius in pixels", "a paper").unit
        'radius in pixels'
    """

    unit: str = ""
    source: str = ""
    note: str = ""
    calibrated: str = ""


@dataclass(frozen=True)
class Attack:
    """A named attack.

    Attributes:
        name: by which it is asked for.
        threat: its threat model.
        plans: what each search does to a sample, the default search first; there are no others. Helpers that make the
            usual ones stand in :mod:`robustatlas.attacks.plans`.
        strengths: at which it is reported, increasing.
        about: unit, source and note.
        nested: the threat model grows with epsilon; those that do not are judged at each strength by itself, unless a
            historical protocol bisects them.
        contains_clean: at size 0 there is only the input itself.
        repairs: samples that are misclassified clean are attacked and judged as well (historical protocols).
        unbounded: sizes above the largest strength mean something (lp).
        errors: of models that reject, what counts: ``"accepted"`` and wrong, ``"wrong"``, or ``"refused"`` or wrong.
        typical: how often each sample is drawn at each strength, for what is typical beside the worst case (0: not).
        eight_bit: only inputs that an 8-bit file can hold count as found.
        small: the attack that is meant on small images, where strengths and settings differ; see :meth:`on_images`.

    Raises:
        UserError: a search that the threat model does not allow, a plan that its search cannot carry out, or an
            optimizer that cannot search the threat model.

    Example:
        >>> from robustatlas.attacks.plans import plans_of
        >>> from robustatlas.optimizers.pgd import PGD
        >>> from robustatlas.threats.lp import Linf
        >>> attack = Attack("mine", Linf(), plans_of(Stage(PGD(40), "cross-entropy"), runs=5), grid(0.1))
        >>> attack.searches
        ('descent', 'bisection', 'every', 'minimum')
    """

    name: str
    threat: ThreatModel
    plans: Mapping[Search, Plan]
    strengths: tuple[float, ...]
    about: AttackInfo = field(default=AttackInfo())
    nested: bool = True
    contains_clean: bool = True
    repairs: bool = False
    unbounded: bool = False
    errors: Errors = "accepted"
    typical: int = 0
    eight_bit: bool = False
    small: Attack | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(ATTACK_NAME, self.name):
            raise UserError(
                f"name={brief(repr(self.name))} cannot name an attack; expected letters, digits and . _ + -, at most "
                "120 and a letter or digit first."
            )
        check_strengths([real(strength) for strength in self.strengths], self.name, self.threat.levels)
        if not isinstance(self.plans, Mapping):
            raise UserError(
                f"plans of {self.name!r} is a {type(self.plans).__name__}; expected a mapping from searches to plans, "
                "as robustatlas.attacks.plans.plans_of returns it."
            )
        allowed = self._allowed()
        if not self.plans:
            raise UserError(f"{self.name!r} has no plan for any search; expected some for {', '.join(allowed)}.")
        for search, plan in self.plans.items():
            if search not in allowed:
                why = self._why() if search in SEARCHES else "there is no such search"
                raise UserError(
                    f"{self.name!r} cannot be searched by {search!r}: {why}; expected among {', '.join(allowed)}."
                )
            search_named(search).check(plan)
            for leg in plan.legs:
                leg.stage.optimizer.check(self.threat)

    def __hash__(self) -> int:
        return hash((self.name, self.strengths, tuple(self.plans.items())))

    def map(self, change: Callable[[Leg], Leg | Iterable[Leg]]) -> Attack:
        """The attack with each leg of each plan replaced by one or several."""
        return replace(self, plans={search: plan.map(change) for search, plan in self.plans.items()})

    def bound_to(self, model: Classifier) -> Attack:
        """The attack on ``model``: threat model, optimizers and plans are told what they need to know of it."""

        def bound(leg: Leg) -> Leg:
            return replace(leg, stage=replace(leg.stage, optimizer=leg.stage.optimizer.bound_to(model)))

        attack = replace(self.map(bound), threat=self.threat.bound_to(model))
        return attack if model.queries is None else attack.within(MostQueries(model.queries))

    def unsmoothed(self) -> Attack:
        """The attack on a network whose ReLUs cannot be smoothed: with runs that go back as it does by itself."""

        def plain(leg: Leg) -> Leg:
            return replace(leg, stage=replace(leg.stage, backward=None)) if leg.stage.backward == "smoothed" else leg

        return self.map(plain)

    def within(self, most: MostQueries) -> Attack:
        """The attack with at most so many queries about a sample; draws that would take them all are not made."""
        limited = {name: replace(plan, rules=(*plan.rules, most)) for name, plan in self.plans.items()}
        affordable = len(self.strengths) * self.typical + 1 < most.queries
        return replace(self, plans=limited, typical=self.typical if affordable else 0)

    def on_images(self, sides: Sequence[int]) -> Attack:
        """The attack that the name means on images of these ``sides`` (height and width).

        Example:
            >>> from robustatlas.attacks.catalogue import attack_named
            >>> [attack_named("ua-snow").on_images(sides).strengths[-1] for sides in ((224, 224), (32, 32))]
            [1250.0, 50.0]
        """
        return self if self.small is None or is_large(sides) else self.small

    @property
    def searches(self) -> tuple[Search, ...]:
        """Those that may be asked for, the default first."""
        return tuple(self.plans)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Those of all plans, each once."""
        return tuple(dict.fromkeys(leg.stage for plan in self.plans.values() for leg in plan.legs))

    @property
    def judges_last(self) -> bool:
        """Only the last iterate of a run counts (historical protocols), so strengths do not imply each other."""
        return any(plan.judges_last for plan in self.plans.values())

    def searched_by(self, search: str | None) -> Search:
        """The search of that name (None: the default).

        Raises:
            UserError: the attack does not have it.
        """
        if search is None:
            return self.searches[0]
        for known in self.searches:
            if known == search:
                return known
        why = f": {self._why()}" if search in SEARCHES else ""
        raise UserError(
            f"search={search!r} is not valid for {self.name!r}{why}; expected {' or '.join(self.searches)}. "
            "Leave search out, and each attack takes its own."
        )

    def monotone(self, search: Search) -> bool:
        """Whether, under a search, a sample broken at one strength counts as broken at all larger ones."""
        return search == "bisection" or (self.nested and not (search == "every" and self.judges_last))

    def _allowed(self) -> tuple[str, ...]:
        if self.judges_last and (self.nested or self.repairs):
            return ("bisection", "every")
        return tuple(SEARCHES) if self.nested and self.contains_clean else ("every",)

    def _why(self) -> str:
        if self.judges_last and (self.nested or self.repairs):
            return "only the last iterate of a run counts"
        return "it has no plan for it" if self.nested and self.contains_clean else "its threat model is not nested"
