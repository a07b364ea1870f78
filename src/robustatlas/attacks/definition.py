"""An attack: a threat model, the runs that search it, and the strengths it is reported at."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from robustatlas.attacks.search import SEARCHES, Search, search_named
from robustatlas.attacks.search.plan import AttackRun, Plan
from robustatlas.attacks.search.rules import Effort, MostQueries, Rule
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_or_nan
from robustatlas.outcomes.records import ATTACK_NAME
from robustatlas.outcomes.strengths import check_strengths, grid
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.imagenet_ua.sizes import is_large

if TYPE_CHECKING:
    from robustatlas.models.classifier import Classifier, Errors

__all__ = ["ALL_SEARCHES", "Attack", "AttackInfo", "AttackRun", "Effort", "Plan", "ProtocolName", "Search", "grid"]

ProtocolName = Literal["default", "paper"]
"""``"default"``: sound threat models and strong search; ``"paper"``: each attack as its source ran it."""

ALL_SEARCHES: tuple[Search, ...] = ("descent", "bisection", "every", "frontier", "minimum")
"""Searches of an attack whose runs serve all of them, the default search first."""
_LAST_ITERATE: tuple[Search, ...] = ("bisection", "every")
_NESTED: tuple[Search, ...] = ("descent", "bisection", "every", "minimum")
_NOT_NESTED: tuple[Search, ...] = ("every",)


@dataclass(frozen=True)
class AttackInfo:
    """Facts about an attack for its readers, without effect on any number.

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
        name: the name by which it is asked for.
        threat: its threat model.
        runs: the runs that search the threat model, in order. Helpers that make the usual ones stand in
            :mod:`robustatlas.attacks.runs`.
        strengths: the strengths of its report, increasing.
        about: unit, source and note.
        rules: rules that replace or join the usual ones of its searches (see ``Schedule.rules``).
        usual_rules: its searches add their usual rules; False: nothing but ``rules`` ends a run early.
        search_order: its searches, the default one first; empty: those that the threat model allows.
        effort: runs are shortened or repeated by it when a plan is made.
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
        UserError: a search that the threat model does not allow, runs that a search cannot carry out, an optimizer
            that cannot search the threat model, or a rule that no search obeys.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> from robustatlas.threats.lp import Linf
        >>> attack = Attack("mine", Linf(), (AttackRun(PGD(40), "cross-entropy", count=5),), grid(0.1))
        >>> attack.searches
        ('descent', 'bisection', 'every', 'minimum')
        >>> [run.count for run in attack.plan("every").runs]
        [5]
    """

    name: str
    threat: ThreatModel
    runs: tuple[AttackRun, ...]
    strengths: tuple[float, ...]
    about: AttackInfo = field(default=AttackInfo())
    rules: tuple[Rule, ...] = ()
    usual_rules: bool = True
    search_order: tuple[Search, ...] = ()
    effort: Effort = "default"
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
                f"name={shorten(repr(self.name))} cannot name an attack; expected letters, digits and . _ + -, at most "
                "120 and a letter or digit first."
            )
        check_strengths([real_or_nan(strength) for strength in self.strengths], self.name, self.threat.levels)
        if not isinstance(self.runs, tuple) or not all(isinstance(run, AttackRun) for run in self.runs):
            raise UserError(
                f"runs of {self.name!r} is {shorten(repr(self.runs))}; expected a tuple of robustatlas.AttackRun."
            )
        if not self.runs:
            raise UserError(f"{self.name!r} has no runs; expected at least one robustatlas.AttackRun.")
        allowed = self._allowed_searches()
        for search in self.search_order:
            if search not in allowed:
                why = self._refusal() if search in SEARCHES else "there is no such search"
                raise UserError(
                    f"{self.name!r} cannot be searched by {search!r}: {why}; expected among {', '.join(allowed)}."
                )
        for search in self.searches:
            search_named(search).check(self.plan(search))
        for run in self.runs:
            run.optimizer.check(self.threat)
        known = [search_named(search) for search in dict.fromkeys((*ALL_SEARCHES, *self.searches))]
        for rule in self.rules:
            if not any(search.can_obey(rule) for search in known):
                raise UserError(
                    f"{self.name!r} has the rule {type(rule).__name__}, which no search obeys; name its class in the "
                    "`reads` of the search that is to obey it."
                )

    def __hash__(self) -> int:
        return hash((self.name, self.strengths, self.runs))

    def plan(self, search: Search) -> Plan:
        """Return the runs and rules of a search, derived from those of the attack.

        Example:
            >>> from robustatlas.attacks.catalogue import attack_named
            >>> [run.role for run in attack_named("fmn-l2").plan("descent").runs]
            ['bound']
        """
        runs = [run.include_strengths(self.strengths) for run in self.runs]
        return search_named(search).plan(search, runs, self.rules, self.effort, usual_rules=self.usual_rules)

    def with_runs(self, change: Callable[[AttackRun], AttackRun]) -> Attack:
        """Return the attack with each run replaced by ``change(run)``."""
        return replace(self, runs=tuple(change(run) for run in self.runs))

    def for_model(self, model: Classifier) -> Attack:
        """Return the attack on ``model``, with a threat model and optimizers that know the model they need."""
        bound = self.with_runs(lambda run: replace(run, optimizer=run.optimizer.for_model(model)))
        attack = replace(bound, threat=self.threat.for_model(model))
        return attack if model.queries is None else attack.limit_queries(MostQueries(model.queries))

    def unsmoothed(self) -> Attack:
        """Return the attack on a network whose ReLUs cannot be smoothed: its runs take the network's own gradient."""
        return self.with_runs(lambda run: replace(run, backward=None) if run.backward == "smoothed" else run)

    def limit_queries(self, most: MostQueries) -> Attack:
        """Return the attack with a limit on the queries about a sample; typical draws that reach it are not made."""
        # The clean pass, one that verifies a draw, and the search with one that verifies what it found.
        affordable = len(self.strengths) * self.typical + 4 <= most.queries
        return replace(self, rules=(*self.rules, most), typical=self.typical if affordable else 0)

    def on_images(self, sides: Sequence[int]) -> Attack:
        """Return the attack that the name means on images of these ``sides`` (height and width).

        Example:
            >>> from robustatlas.attacks.catalogue import attack_named
            >>> [attack_named("ua-snow").on_images(sides).strengths[-1] for sides in ((224, 224), (32, 32))]
            [1250.0, 50.0]
        """
        return self if self.small is None or is_large(sides) else self.small

    @property
    def searches(self) -> tuple[Search, ...]:
        """Names of its searches, the default search first."""
        if self.search_order:
            return self.search_order
        if not (self.nested and self.contains_clean) or self.judges_last:
            return tuple(search for search in ALL_SEARCHES if search in self._allowed_searches())
        return _NESTED

    @property
    def judges_last(self) -> bool:
        """True if only the last iterate of a run counts (historical protocols): strengths do not imply each other."""
        return any(run.judge == "last" for run in self.runs)

    def choose_search(self, search: str | None) -> Search:
        """Return the search of that name (None: the default).

        Raises:
            UserError: the attack does not have it.
        """
        if search is None:
            return self.searches[0]
        for known in self.searches:
            if known == search:
                return known
        why = f": {self._refusal()}" if search in SEARCHES else ""
        raise UserError(
            f"search={search!r} is not valid for {self.name!r}{why}; expected {' or '.join(self.searches)}. "
            "Leave search out, and each attack takes its own."
        )

    def is_monotone(self, search: Search) -> bool:
        """Return if, under a search, a sample broken at one strength counts as broken at all larger ones."""
        return search == "bisection" or (self.nested and not (search == "every" and self.judges_last))

    def _allowed_searches(self) -> tuple[str, ...]:
        if self.judges_last and (self.nested or self.repairs):
            return _LAST_ITERATE
        return tuple(SEARCHES) if self.nested and self.contains_clean else _NOT_NESTED

    def _refusal(self) -> str:
        """Return the reason why the attack does not have a search."""
        if self.judges_last and (self.nested or self.repairs):
            return "only the last iterate of a run counts"
        return "it has no runs for it" if self.nested and self.contains_clean else "its threat model is not nested"
