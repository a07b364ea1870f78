"""Plans as a table: the runs and rules of each search at each effort, and the most passes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from robustatlas.attacks.definition import Attack, Effort, Search
from robustatlas.attacks.effort import scale_effort
from robustatlas.attacks.passes import limited_passes
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.attacks.search.rules import Role

EFFORTS: tuple[Effort, ...] = get_args(Effort)
_ORDER = (*get_args(Role), "rule", "")
_STEPS = ("steps", "inner_steps", "strengths", "model", "call", "about")
_TOWARDS = {"logits": " towards the likeliest classes", "distance": " towards the nearest classes"}
_FROM = {"neutral": " from the clean point", "best": " from the last example"}


@dataclass(frozen=True)
class PlanRow:
    """One line of a table: a run (``role``), a rule or the passes of a plan.

    ``what`` describes it. ``cells`` say for each effort, in their order, how often and how long it runs (empty: not).
    """

    role: str
    what: str
    cells: tuple[str, ...]


def settings(value: Any, but: Sequence[str] = (), *, always: bool = False) -> str:
    """Return the name of a dataclass with those of its settings that are not their defaults, or ``always`` with all.

    Example:
        >>> from robustatlas.optimizers.fmn import FMN
        >>> settings(FMN(24, gamma=0.2)), settings(FMN(24), but=["steps"])
        ('FMN(steps=24, gamma=0.2)', 'FMN')
    """
    shown = [f for f in fields(value) if f.name not in but and (always or getattr(value, f.name) != f.default)]
    other = [f"{f.name}={_shorten(getattr(value, f.name))}" for f in shown]
    return type(value).__name__ + (f"({', '.join(other)})" if other else "")


def _shorten(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shorten, value))})"
    return f"{value:.3g}" if isinstance(value, float) else repr(value)


def run_in_words(run: AttackRun) -> str:
    """Return the role of a run and what it does, in words.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> run_in_words(attack_named("linf").plan("descent").first("bound"))
        'bound: FMN on the margin towards the nearest classes'
    """
    return f"{run.role}: {_words(run)}"


def _words(run: AttackRun, *, always: bool = False) -> str:
    towards = " towards a random class" if run.targets == "random" else _TOWARDS.get(run.targets or "", "")
    last = ", last iterate" if run.judge == "last" else ""
    gradient = f", backward={run.backward!r}" if run.backward else ""
    gradient = ", through smoothed ReLUs" if run.backward == "smoothed" else gradient
    shown = settings(run.optimizer, _STEPS, always=always)
    return f"{shown} on the {run.objective}{towards}{_start_in_words(run)}{last}{gradient}"


def _start_in_words(run: AttackRun) -> str:
    kick = f", moved by {run.kick:g} times its size" if run.kick else ""
    if run.start != "best":
        return _FROM.get(run.start, "") + kick
    if run.optimizer.minimum_size:
        return " from the smallest example" + kick
    return " from the strength beside it" if run.role == "sweep" else _FROM["best"]


def plan_rows(attack: Attack, search: Search, classes: int = 10, efforts: Sequence[Effort] = EFFORTS) -> list[PlanRow]:
    """Return the plan of a search at each of the ``efforts``; cells are runs x steps.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> for row in plan_rows(attack_named("fmn-l2"), "descent"):
        ...     print(row.role, *row.cells, sep=" | ")
        bound | 1 x 60 | 1 x 100 | 1 x 100
        bound |  |  | 2 x 200
        ...
    """
    cells: dict[tuple[str, str], list[list[str]]] = {}

    def enter(role: str, what: str, effort: int, cell: str) -> None:
        cells.setdefault((role, what), [[] for _ in efforts])[effort].append(cell)

    plans = [scale_effort(attack, effort).plan(search) for effort in efforts]
    for number, plan in enumerate(plans):
        for run in plan.runs:
            enter(run.role, _words(run, always=True), number, f"{run.count} x {run.optimizer.steps}")
    for number, plan in enumerate(plans):
        for rule in plan.rules:
            enter("rule", settings(rule, always=True), number, "yes")
        most = limited_passes(plan, search, len(attack.strengths), classes, attack.threat.chooses)
        enter("", f"passes at most ({classes} classes, {len(attack.strengths)} strengths)", number, f"{most:,}")
    ordered = sorted(cells.items(), key=lambda item: _ORDER.index(item[0][0]))
    return [PlanRow(role, what, tuple(", ".join(each) for each in columns)) for (role, what), columns in ordered]


def grouped_rows(
    attack: Attack, efforts: Sequence[Effort] = EFFORTS
) -> Iterator[tuple[tuple[Search, ...], tuple[PlanRow, ...]]]:
    """Yield the rows of all plans of an attack, once for all searches that do the same."""
    shared: dict[tuple[PlanRow, ...], tuple[Search, ...]] = {}
    for search in attack.searches:
        rows = tuple(plan_rows(attack, search, efforts=efforts))
        shared[rows] = (*shared.get(rows, ()), search)
    return ((searches, rows) for rows, searches in shared.items())
