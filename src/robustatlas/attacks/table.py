"""Plans as a table: which legs and rules each search runs at each effort, and at most how many passes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from robustatlas.attacks.definition import Attack, Effort, Search
from robustatlas.attacks.effort import at_effort
from robustatlas.attacks.passes import limited_passes
from robustatlas.attacks.search.plan import Leg
from robustatlas.attacks.search.rules import Role

EFFORTS: tuple[Effort, ...] = get_args(Effort)
_ORDER = (*get_args(Role), "rule", "")
_STEPS = ("steps", "inner_steps", "model", "call", "about")
_TOWARDS = {"logits": " towards the likeliest classes", "distance": " towards the nearest classes"}
_FROM = {"neutral": " from the clean point", "best": " from the last example"}


@dataclass(frozen=True)
class PlanRow:
    """A leg (``role``), a rule or the passes of a plan: ``what`` it is, and for each effort, in their order, how often
    and how long it runs (empty: not at all)."""

    role: str
    what: str
    cells: tuple[str, ...]


def settings(value: Any, but: Sequence[str] = (), *, always: bool = False) -> str:
    """The name of a dataclass with those of its settings that are not their defaults, or ``always`` with all.

    Example:
        >>> from robustatlas.optimizers.fmn import FMN
        >>> settings(FMN(24, gamma=0.2)), settings(FMN(24), but=["steps"])
        ('FMN(steps=24, gamma=0.2)', 'FMN')
    """
    shown = [f for f in fields(value) if f.name not in but and (always or getattr(value, f.name) != f.default)]
    other = [f"{f.name}={_short(getattr(value, f.name))}" for f in shown]
    return type(value).__name__ + (f"({', '.join(other)})" if other else "")


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return f"{value:.3g}" if isinstance(value, float) else repr(value)


def words_of(leg: Leg) -> str:
    """What a leg does, in words.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> words_of(attack_named("linf").plans["descent"].legs[0])
        'bound: FMN on the margin towards the nearest classes'
    """
    return f"{leg.role}: {_words(leg)}"


def _words(leg: Leg) -> str:
    stage = leg.stage
    towards = " towards a random class" if stage.targets == "random" else _TOWARDS.get(stage.targets or "", "")
    begun = f", moved by {stage.kick:g} times its size" if stage.kick else ""
    beside = " from the strength beside it" if leg.role == "sweep" else _FROM["best"]
    start = " from the smallest example" if stage.optimizer.minimum_size else beside
    begun = (start if stage.start == "best" else _FROM.get(stage.start, "")) + begun
    last = ", last iterate" if stage.judge == "last" else ""
    way = f", backward={stage.backward!r}" if stage.backward else ""
    way = ", through smoothed ReLUs" if stage.backward == "smoothed" else way
    return f"{settings(stage.optimizer, _STEPS)} on the {stage.objective}{towards}{begun}{last}{way}"


def rows_of(attack: Attack, search: Search, classes: int = 10, efforts: Sequence[Effort] = EFFORTS) -> list[PlanRow]:
    """The plan of a search at each of the ``efforts``; cells are runs x steps.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> for row in rows_of(attack_named("fmn-l2"), "descent"):
        ...     print(row.role, row.what, *row.cells, sep=" | ")
        bound | FMN on the margin | 1 x 60 | 1 x 100 | 1 x 100
        bound | FMN on the margin towards the likeliest classes |  |  | 2 x 200
        ...
    """
    cells: dict[tuple[str, str], list[list[str]]] = {}

    def enter(role: str, what: str, effort: int, cell: str) -> None:
        cells.setdefault((role, what), [[] for _ in efforts])[effort].append(cell)

    plans = [at_effort(attack, effort).plans[search] for effort in efforts]
    for number, plan in enumerate(plans):
        for leg in plan.legs:
            enter(leg.role, _words(leg), number, f"{leg.runs} x {leg.stage.optimizer.steps}")
    for number, plan in enumerate(plans):
        for rule in plan.rules:
            enter("rule", settings(rule, always=True), number, "yes")
        most = limited_passes(plan, search, len(attack.strengths), classes, attack.threat.chooses)
        enter("", f"passes at most ({classes} classes, {len(attack.strengths)} strengths)", number, f"{most:,}")
    ordered = sorted(cells.items(), key=lambda item: _ORDER.index(item[0][0]))
    return [PlanRow(role, what, tuple(", ".join(each) for each in columns)) for (role, what), columns in ordered]


def together(
    attack: Attack, efforts: Sequence[Effort] = EFFORTS
) -> Iterator[tuple[tuple[Search, ...], tuple[PlanRow, ...]]]:
    """The rows of all plans of an attack, those of searches that do the same together."""
    shared: dict[tuple[PlanRow, ...], tuple[Search, ...]] = {}
    for search in attack.searches:
        rows = tuple(rows_of(attack, search, efforts=efforts))
        shared[rows] = (*shared.get(rows, ()), search)
    return ((searches, rows) for rows, searches in shared.items())
