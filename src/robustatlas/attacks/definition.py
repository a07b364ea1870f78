"""What an attack is: a threat model, the optimizers that search it, and the strengths at which it is reported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from robustatlas.attacks.description import LATER
from robustatlas.classifier.backward import Backward, check_backward
from robustatlas.errors import UserError
from robustatlas.objectives import MARGINS, Objective, check_objective
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import ThreatModel

if TYPE_CHECKING:
    from robustatlas.classifier import Classifier, Errors

Procedure = Literal["default", "paper"]
"""``"default"``: sound sets and strong search; ``"paper"``: each attack as its source ran it."""

Search = Literal["descent", "bisection", "every", "frontier", "minimum"]
"""``"descent"``: whole curves for about the price of one point; ``"bisection"``: MultiRobustBench's procedure;
``"every"``: each strength by itself; ``"frontier"``: the lowest margin at every strength; ``"minimum"``: the smallest
size, without a grid of strengths."""

Effort = Literal["low", "default", "high"]
"""Fewer passes, the usual ones, several times as many; what each costs is measured in the documentation (*Effort*)."""


def grid(last: float, count: int = 20) -> tuple[float, ...]:
    """``count`` equal steps up to ``last``, the form of all of MultiRobustBench's grids.

    Example:
        >>> grid(0.1, 4)
        (0.025, 0.05, 0.075, 0.1)
    """
    return tuple(round(last * k / count, 10) for k in range(1, count + 1))


Start = Literal["random", "neutral", "best", "missed"]
Judge = Literal["best", "last"]
Order = Literal["logits", "distance"]


@dataclass(frozen=True)
class Stage:
    """One optimizer with its objective, run once or several times.

    ``targets``: number of target classes, tried one after the other (0: untargeted; ``"random"``: one wrong class drawn
    per sample), in the ``order`` of their logits or of the linearised ``"distance"`` to their boundary; ``restarts``:
    number of untargeted runs from different random starts. ``start``: ``"random"``, ``"neutral"`` (the clean point), or
    ``"best"``: right after a success the run begins at that example, drawn into the set, otherwise at random (a
    minimum-size run at the smallest example, moved at random by ``kick`` times its size: basin hopping, Wales and Doye
    1997; such hops end when ``fruitless`` in a row have found nothing smaller); or ``"missed"``: likewise, but
    otherwise where the run that failed by least at this strength came nearest to an example, and the descent makes such
    a run only where that is near.
    ``judge``: ``"best"`` iterate counts, or only the ``"last"`` (historical procedures). ``backward``: the gradient it
    takes of input transformations (None: what the model says; see :mod:`robustatlas.models.defenses`).
    """

    optimizer: Optimizer[Any]
    objective: Objective
    targets: int | Literal["random"] = 0
    restarts: int = 1
    start: Start = "random"
    judge: Judge = "best"
    order: Order = "logits"
    kick: float = field(default=0.0, metadata={LATER: True})
    fruitless: int = field(default=4, metadata={LATER: True})
    backward: Backward | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        check_objective(self.objective)
        check_backward(self.backward)
        optimizer = type(self.optimizer).__name__
        if self.optimizer.needs_margin and self.objective not in MARGINS:
            raise UserError(
                f"{optimizer} needs an objective that is zero at the decision boundary, and got {self.objective!r}; "
                "use 'margin'."
            )
        if self.optimizer.steps < self.optimizer.fewest_steps:
            raise UserError(
                f"{optimizer} got steps={self.optimizer.steps}; expected at least {self.optimizer.fewest_steps}."
            )
        if not (self.targets == "random" or (isinstance(self.targets, int) and self.targets >= 0)):
            raise UserError(f"A stage got targets={self.targets!r}; expected a number of classes, 0 or 'random'.")
        if self.restarts < 1 or (self.targets and self.restarts > 1):
            raise UserError(
                f"A stage got restarts={self.restarts} with targets={self.targets!r}; expected at least one restart, "
                "and more than one only where targets=0."
            )
        for name, known in (("start", Start), ("judge", Judge), ("order", Order)):
            if getattr(self, name) not in get_args(known):
                expected = ", ".join(map(repr, get_args(known)))
                raise UserError(f"A stage got {name}={getattr(self, name)!r}; expected one of {expected}.")
        if self.kick and not (self.kick > 0 and self.start == "best" and self.optimizer.minimum_size):
            raise UserError(
                f"A stage got kick={self.kick}; expected a positive number, and only for a minimum-size attack with "
                "start='best'."
            )
        if self.fruitless < 1:
            raise UserError(f"A stage got fruitless={self.fruitless}; expected a number of hops, at least one.")

    def runs(self, classes: int) -> int:
        """How often the stage runs with this number of classes."""
        return min(self.targets, classes - 1) if isinstance(self.targets, int) and self.targets else self.restarts


def frontier(bound: Stage, ascent: Optimizer[Any]) -> tuple[Stage, ...]:
    """Stages of a frontier search: a bound, then an ascent that tries five targets, goes down and goes up."""
    sweep = Stage(ascent, "log-margin", start="best")
    return (bound, Stage(ascent, "log-margin", targets=5), sweep, sweep)


FRONTIER = frontier(Stage(FMN(30), "margin", targets=4), PGD(8, rate=1.0, schedule="cosine", momentum=0.5))
"""Those of attacks that name none of their own."""


@dataclass(frozen=True)
class Attack:
    """A named attack.

    ``stages`` are tried in order at a given strength. ``bound`` and ``closing`` serve the search by descent:
    minimum-size attacks that give the first bound of each sample, and a second kind of attack for samples whose bound
    lies just above a strength; ``polish``: minimum-size attacks that go on from the smallest example at the end of the
    descent, for sizes between strengths; ``minimum``: the bounds of the search for the smallest size, where they differ
    from ``bound`` (who replaces the bounds of an attack replaces these too, or by None). ``nested``: sets grow with
    epsilon; ``contains_clean``: the set of size 0 is the input itself; ``repairs``: samples that are misclassified
    clean are attacked and judged as well (historical procedures). ``unbounded``: sizes above the largest strength mean
    something (lp). ``descent``: the strong attack of the descent, where it differs from ``stages``.
    ``frontier``: the stages of the frontier search (see :func:`frontier`): minimum-size attacks, then one whose targets
    are shared out among the strengths, then some from strength to strength, down and up in turn; ``()``: no such
    search. ``note``: how the default differs from the historical attack. ``searches``: those that are valid for the
    attack, its default first; by themselves the ones that its sets and stages allow. ``errors``: of models that reject,
    what counts as one: ``"accepted"`` and wrong, ``"wrong"``, or ``"refused"`` or wrong. ``effort``: what the
    stages were scaled to (see :mod:`robustatlas.attacks.effort`).

    Raises:
        UserError: a search that the sets or stages do not allow.
    """

    name: str
    threat: ThreatModel
    strengths: tuple[float, ...]
    stages: tuple[Stage, ...]
    bound: tuple[Stage, ...] = ()
    descent: tuple[Stage, ...] | None = None
    closing: tuple[Stage, ...] = ()
    polish: tuple[Stage, ...] = ()
    minimum: tuple[Stage, ...] | None = None
    frontier: tuple[Stage, ...] | None = None
    unit: str = ""
    source: str = ""
    note: str = ""
    nested: bool = True
    contains_clean: bool = True
    repairs: bool = False
    unbounded: bool = False
    searches: tuple[Search, ...] = ()
    errors: Errors = "accepted"
    effort: Effort = "default"

    def __post_init__(self) -> None:
        for stage in self.all_stages:
            stage.optimizer.check(self.threat)
        allowed = self._allowed()
        if wrong := [search for search in self.searches if search not in allowed]:
            raise UserError(
                f"{self.name!r} cannot be searched by {wrong[0]!r}: {self._why()}; expected among {', '.join(allowed)}."
            )

    def bound_to(self, model: Classifier) -> Attack:
        """The attack on ``model``: its set and optimizers are told the model where they depend on it."""

        def bound(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
            return tuple(replace(stage, optimizer=stage.optimizer.bound_to(model)) for stage in stages)

        return replace(
            self,
            threat=self.threat.bound_to(model),
            stages=bound(self.stages),
            bound=bound(self.bound),
            descent=None if self.descent is None else bound(self.descent),
            closing=bound(self.closing),
            polish=bound(self.polish),
            minimum=None if self.minimum is None else bound(self.minimum),
            frontier=None if self.frontier is None else bound(self.frontier),
        )

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """Those of every search."""
        own = (*self.stages, *self.bound, *(self.descent or ()), *self.closing, *self.polish)
        return (*own, *(self.minimum or ()), *(self.frontier or ()))

    @property
    def valid_searches(self) -> tuple[Search, ...]:
        """Those that may be asked for, the default first."""
        return self.searches or self._allowed()

    def searched_by(self, search: str | None) -> Search:
        """The search of that name (None: the default), if it is valid for the attack; :class:`UserError` if not."""
        if search is None:
            return self.valid_searches[0]
        for known in self.valid_searches:
            if known == search:
                return known
        why = f": {self._why()}" if search in get_args(Search) and search not in self._allowed() else ""
        raise UserError(
            f"search={search!r} is not valid for {self.name!r}{why}; expected {' or '.join(self.valid_searches)}. "
            "Leave search out, and each attack takes its own."
        )

    def monotone(self, search: Search) -> bool:
        """Whether, under a search, a sample broken at one strength counts as broken at all larger ones."""
        return not (search == "every" and (self.judges_last or not self.nested))

    def _allowed(self) -> tuple[Search, ...]:
        if self.judges_last:
            return ("bisection", "every")
        if not (self.nested and self.contains_clean):
            return ("every",)
        return ("descent", "bisection", "every", *(("frontier",) if self.frontier_stages else ()), "minimum")

    def _why(self) -> str:
        if self.judges_last:
            return "only the last iterate of a run counts"
        return "it has no stages for it" if self.nested and self.contains_clean else "its sets are not nested"

    @property
    def minimum_stages(self) -> tuple[Stage, ...]:
        """The bounds of the search for the smallest size."""
        return self.bound if self.minimum is None else self.minimum

    @property
    def frontier_stages(self) -> tuple[Stage, ...]:
        """Those of the frontier search; without stages of its own an attack by gradients takes :data:`FRONTIER`."""
        if self.frontier is not None:
            return self.frontier
        ascends = self.threat.optimised and all(stage.optimizer.needs_gradient for stage in self.stages)
        return FRONTIER if ascends else ()

    @property
    def judges_last(self) -> bool:
        """Whether only the last iterate of a run counts (historical procedures), so that strengths do not imply each
        other."""
        return any(stage.judge == "last" for stage in self.stages)
