"""Evaluations that end when their numbers are known well enough."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import scipy  # which imports its parts where they are used: stats takes long
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import generator_of, real
from robustatlas.evaluation.evaluating import evaluated
from robustatlas.evaluation.plan import opened, positions_of, samples_of
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.workers.share import WHOLE
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.sequences import known_accuracies, mean_sequence
from robustatlas.outcomes.circumstances import now
from robustatlas.outcomes.readings import StopRecord
from robustatlas.outcomes.shared import common_strengths, rows_of
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.results.result import Result, load_result

CONFIDENCE = 0.95
_FIRST = 64
"""Samples before the first look."""
_GROWTH = 1.15
"""From look to look so many times as many samples: fewer looks cost less and end little later."""

Until = float | Literal["separated"]


@dataclass(frozen=True, eq=False)
class Known:
    """What is known when an evaluation ended.

    Attributes:
        result: of the samples that were searched, a random choice of all.
        population: number N of samples that there are.
        clean: clean accuracy of all N, in percent, with its interval.
        accuracies: attack -> robust accuracy of all N at each strength [S], likewise.
        difference: against another run, the average accuracy of this model minus that of the other; None otherwise.
        enough: whether it ended because enough is known, and not because there were no more samples.

    All intervals hold together, at every look that was taken, with 95 % probability: they are wider than those of a
    number of samples that is fixed before, and about the N samples, not about others of their kind.
    """

    result: Result
    population: int
    clean: Interval
    accuracies: Mapping[str, tuple[Interval, ...]]
    difference: Interval | None
    enough: bool

    @property
    def saved(self) -> int:
        """Samples that were not searched, of all that there are."""
        return self.population - self.result.samples

    @property
    def fixed(self) -> int:
        """Samples that would have been needed for the same half-width, had their number been fixed before looking: by
        the normal interval of a share without replacement, for all accuracies together."""
        shares = np.array([entry.value for entry in self._entries]) / 100
        z, width = scipy.stats.norm.isf((1 - CONFIDENCE) / (2 * len(shares))), max(self.half_width, 1e-9) / 100
        infinite = (z / width) ** 2 * shares * (1 - shares)
        needed = infinite / (1 + np.maximum(infinite - 1, 0) / self.population)
        return int(np.ceil(needed.max()))

    @property
    def half_width(self) -> float:
        """The largest half-width of all accuracies, in percentage points."""
        return max((entry.high - entry.low) / 2 for entry in self._entries)

    @property
    def _entries(self) -> list[Interval]:
        return [self.clean, *(entry for row in self.accuracies.values() for entry in row)]


def evaluate_until(
    model: Any,
    data: Any,
    attacks: Any = None,
    *,
    until: Until = 2.0,
    against: str | Path | Result | None = None,
    **options: Any,
) -> Known:
    """Evaluate samples in random order until every accuracy asked for is known well enough.

    Args:
        model: as of :func:`robustatlas.evaluate`.
        data: as there.
        attacks: as there.
        until: a half-width in percentage points. Clean accuracy and every robust accuracy are to be known to it, at
            95 % for all of them together. ``"separated"``: until it is known which of this model and the one of
            ``against`` has the higher average accuracy on the same samples.
        against: a run of the other model, for ``"separated"``.
        options: others of :func:`robustatlas.evaluate`; its ``samples`` are those of which to draw, its ``seed`` is
            also that of their order.

    Returns:
        the result of the samples that were searched, and what is known of all.

    Raises:
        UserError: as :func:`robustatlas.evaluate`, and for a width that is none, or a run that shares no samples.

    Source: Waudby-Smith and Ramdas 2020 (see :func:`robustatlas.metrics.share_sequence`).

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> known = evaluate_until(model, data, "linf", until=12.0, strengths={"linf": [0.1]}, progress=False)
        >>> known.enough, known.result.samples < 600, known.half_width <= 12
        (True, True, True)
    """
    return evaluated_until(model, data, Request(attacks=attacks, **options), until, against)


def evaluated_until(
    model: Any, data: Any, request: Request, until: Until, against: str | Path | Result | None = None
) -> Known:
    """:func:`evaluate_until`, of a request."""
    if until != "separated" and not 0 < real(until) < 50:
        raise UserError(
            f"until={brief(repr(until))}; expected percentage points between 0 and 50, such as 2.0, or 'separated'."
        )
    if (until == "separated") != (against is not None):
        raise UserError("until='separated' compares with another run: give both, or neither.")
    if request.part != WHOLE:
        raise UserError("until looks at all samples that are through, and part shares them out; leave one of them out.")
    data = opened(data)
    whole = samples_of(data)
    among = positions_of(whole, request.samples, request.seed, request.run)
    work = whole if among is None else whole.at(among)
    other = None if against is None else against if isinstance(against, Result) else load_result(against)
    index = work.index if other is None else np.intersect1d(work.index, other.index)
    if not len(index):
        raise UserError(f"{other.name if other else 'The data'} has none of these samples; evaluate both on the same.")
    order = generator_of(request.seed).permutation(np.sort(index))
    with TemporaryDirectory() as kept:
        request = replace(request, run=Path(kept) / "run" if request.run is None else request.run)
        count = 0
        while True:
            count = min(len(order), max(_FIRST, int(count * _GROWTH) + 1))
            positions = np.flatnonzero(np.isin(work.index, order[:count]))
            positions = positions if among is None else among.numpy()[positions]
            drawn = replace(request, samples=positions.tolist(), diagnose=False)
            result = evaluated(model, data, drawn)
            known = _known(result, order[:count], len(order), other)
            enough = known.difference.excludes(0.0) if known.difference else known.half_width <= real(until)
            if enough or count == len(order):
                if count < len(order):
                    _keep_stop(result, order[:count], len(order), until)
                return replace(known, result=_diagnosed(model, data, drawn, request.diagnose, result), enough=enough)


def _keep_stop(result: Result, order: NDArray[np.int64], population: int, until: Until) -> None:
    """Keep in the run that it ended here, and why."""
    if result.run is not None:
        how = until if isinstance(until, str) else real(until)
        result.run.keep_stop(
            StopRecord(
                attacks=result.attacks, order=tuple(order.tolist()), population=population, until=how, created=now()
            )
        )


def _diagnosed(model: Any, data: Any, drawn: Request, wanted: bool, result: Result) -> Result:
    """The result with the diagnosis of its samples, where that is wanted."""
    found = evaluated(model, data, replace(drawn, diagnose=True)) if wanted else result
    return found if found.diagnosis is not None else result  # read now: the run may be a folder that goes


def _known(result: Result, order: NDArray[np.int64], population: int, other: Result | None) -> Known:
    drawn = result.select(rows_of(result.index, order))
    clean, accuracies = known_accuracies(drawn, population, confidence=CONFIDENCE)
    difference = None if other is None else _difference(drawn, other, population)
    return Known(result, population, clean, accuracies, difference, enough=False)


def _difference(ours: OutcomeTable, other: Result, population: int) -> Interval:
    """Of the average accuracies over the attacks and strengths that both have, in percentage points."""
    theirs = other.select(rows_of(other.index, ours.index))
    grid = common_strengths([ours.judged(), theirs.judged()])
    if not grid:
        raise UserError(f"{ours.name} and {other.name} share no attack at the same strength; evaluate them alike.")
    first, second = (
        np.concatenate([table.restrict(grid).correct(attack) for attack in grid], axis=1) for table in (ours, theirs)
    )
    entries = first.shape[1]
    values = (first.sum(1) - second.sum(1) + entries) / (2 * entries)
    found = mean_sequence(values, population, 2 * entries, CONFIDENCE).last()
    return Interval(2 * found.value - 100, 2 * found.low - 100, 2 * found.high - 100, CONFIDENCE)
