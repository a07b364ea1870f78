"""What an attack is: a threat model, the optimizers that search it, and the strengths at which it is reported."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from robustatlas.optimizers.base import Optimizer
from robustatlas.threats.base import ThreatModel

Procedure = Literal["default", "paper"]
"""``"default"``: sound sets and strong search; ``"paper"``: each attack as its source ran it."""


def grid(last: float, count: int = 20) -> tuple[float, ...]:
    """``count`` equal steps up to ``last``, the form of all of MultiRobustBench's grids.

    Example:
        >>> grid(0.1, 4)
        (0.025, 0.05, 0.075, 0.1)
    """
    return tuple(round(last * k / count, 10) for k in range(1, count + 1))


@dataclass(frozen=True)
class Stage:
    """One optimizer with its objective, run once or several times.

    ``targets``: number of target classes, tried one after the other (0: untargeted; ``"random"``: one wrong class drawn
    per sample), in the ``order`` of their logits or of the linearised ``"distance"`` to their boundary; ``restarts``:
    number of untargeted runs from different random starts. ``start``: ``"random"``, ``"neutral"`` (the clean point), or
    ``"best"``: right after a success the run begins at that example, drawn into the set, otherwise at random.
    ``judge``: ``"best"`` iterate counts, or only the ``"last"`` (historical procedures).
    """

    optimizer: Optimizer[Any]
    objective: str
    targets: int | Literal["random"] = 0
    restarts: int = 1
    start: Literal["random", "neutral", "best"] = "random"
    judge: Literal["best", "last"] = "best"
    order: Literal["logits", "distance"] = "logits"

    def runs(self, classes: int) -> int:
        """How often the stage runs with this number of classes."""
        return min(self.targets, classes - 1) if isinstance(self.targets, int) and self.targets else self.restarts


@dataclass(frozen=True)
class Attack:
    """A named attack.

    ``stages`` are tried in order at a given strength. ``bound`` and ``closing`` serve the search by descent:
    minimum-size attacks that give the first bound of each sample, and a second kind of attack for samples whose bound
    lies just above a strength. ``nested``: sets grow with epsilon; ``contains_clean``: the set of size 0 is the input
    itself; ``repairs``: samples that are misclassified clean are attacked and judged as well (historical procedures).
    ``unbounded``: sizes above the largest strength mean something (lp). ``descent``: the strong attack of the descent,
    where it differs from ``stages``. ``note``: how the default differs from the historical attack.
    """

    name: str
    threat: ThreatModel
    strengths: tuple[float, ...]
    stages: tuple[Stage, ...]
    bound: tuple[Stage, ...] = ()
    descent: tuple[Stage, ...] | None = None
    closing: tuple[Stage, ...] = ()
    unit: str = ""
    source: str = ""
    note: str = ""
    nested: bool = True
    contains_clean: bool = True
    repairs: bool = False
    unbounded: bool = False

    @property
    def judges_last(self) -> bool:
        """Whether only the last iterate of a run counts (historical procedures), so that strengths do not imply each
        other."""
        return any(stage.judge == "last" for stage in self.stages)


def describe(value: Any) -> Any:
    """An attack with everything in it as plain dicts, lists, strings and numbers: what the manifest of a run records
    and compares."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__} | {f.name: describe(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)
