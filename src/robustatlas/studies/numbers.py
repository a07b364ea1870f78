"""Numbers by their names, such as ``linf@8/255``, ``CR ind-avg`` or ``UAR elastic``, and tables of them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import markdown_text, spreadsheet_cell
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import list_names
from robustatlas.metrics.bootstrap import AccuracyStatistics
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references import Reference
from robustatlas.metrics.trainings import mean_over_trainings
from robustatlas.outcomes.bounds import describe_unsearched
from robustatlas.outcomes.comparable import check_distinct_trainings
from robustatlas.outcomes.strengths import listed_strengths, read_strength, strength_position
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers import statistics
from robustatlas.report.numbers.against import Held, hold_against
from robustatlas.report.numbers.definitions import CONFIDENCE, worst_case_points
from robustatlas.report.numbers.number import Number, Numbers, Status
from robustatlas.report.numbers.of_run import numbers_against, numbers_of_run, row_of
from robustatlas.report.numbers.shared import subject_of
from robustatlas.report.numbers.steadiness import Steadiness, stability
from robustatlas.report.numbers.texts import number_text, value_text
from robustatlas.results.result import Result

KINDS = (
    "clean, average, average ATTACK, ATTACK@STRENGTH, AH ATTACK, std AH ATTACK, CR ind-avg, CR ind-worst, CR exp, "
    "CR max, mUAR, UAR ATTACK, CR ATTACK, CR ind-worst ATTACK, SC, SC floor 1"
)

NO_PAIR = "no pair"
"""Reason for a missing stability constant: no two points, one seen in training, are of about the same difficulty."""

_ROWS = {"clean": kinds.CLEAN, "average": kinds.MEAN}
"""Name in a study -> name in the table of numbers, of the numbers over all attacks."""
_ROWS_OF_ATTACK = {"average": kinds.MEAN_OF_ATTACK, "AH": kinds.HYPERVOLUME, "CR": "CR", "UAR": "UAR"}
"""Name in a study, before that of the attack -> name in the table of numbers, of the numbers under one attack."""


class NotComputableError(UserError):
    """A number that cannot be computed; its text says why, as the cell of a table."""


@dataclass(frozen=True, eq=False)
class RunNumbers:
    """The table of numbers of one run, whose parts are computed when they are first asked for.

    Attributes:
        result: the run.
    """

    result: Result
    _ratios: dict[int, tuple[Reference, Held, Numbers]] = field(default_factory=dict, repr=False)

    @cached_property
    def complete_table(self) -> Result:
        """The run with the attacks that were searched at every strength."""
        return self.result.select_judged()

    @cached_property
    def row_table(self) -> Numbers:
        """The numbers that need no reference."""
        return numbers_of_run(self.result, worst_case_points(self.complete_table))

    def numbers_of_reference(self, reference: Reference) -> tuple[Held, Numbers]:
        """Return the run held against a reference, and the numbers that this gives."""
        if id(reference) not in self._ratios:  # the reference is kept beside its numbers, so that its id stays its own
            held = hold_against(
                self.complete_table, reference, self.result.records.values(), self.result.identity
            ).require()
            self._ratios[id(reference)] = reference, held, numbers_against(self.result, held)
        _, held, numbers = self._ratios[id(reference)]
        return held, numbers


@dataclass(frozen=True, eq=False)
class StudyNumber:
    """A number of a model as a cell of a table.

    Attributes:
        trainings: the number of each training of the model, mostly rows of the table of numbers.
        digits: digits after the point.
        limits: smallest and largest value that the number can have.
        why: reason for a number that cannot be computed, in a few words; then its mean is NaN.

    Example:
        >>> result = Result.from_arrays([0, 1], [0, 0], {"linf": [0.15, 0.0]}, {"linf": [0.1, 0.2]})
        >>> study_number("linf@0.1", [RunNumbers(result)], None, {}).text
        '50.0 (1.3 to 98.7)'
    """

    trainings: Sequence[Interval]
    digits: int = 1
    limits: tuple[float, float] = (0.0, math.inf)
    why: str = ""

    @classmethod
    def unavailable(cls, why: str, trainings: int) -> StudyNumber:
        """Return what stands in place of a number of ``trainings`` trainings that cannot be computed.

        Example:
            >>> StudyNumber.unavailable("no pair", 2).text
            'no pair'
        """
        return cls([_point_interval(math.nan)] * trainings, why=why)

    @classmethod
    def published(cls, value: float, digits: int = 1) -> StudyNumber:
        """Return a number that a paper prints.

        Example:
            >>> StudyNumber.published(94.0, 0).text
            '94'
        """
        nothing = math.nan
        row = Number(value, nothing, nothing, CONFIDENCE, "published", "", {}, 0, Status.PUBLISHED, "as the paper says")
        return cls([row], digits)

    @property
    def values(self) -> NDArray[np.float64]:
        """[R], the number of each training."""
        return np.array([one.value for one in self.trainings])

    @property
    def mean(self) -> float:
        """Mean over the trainings."""
        return float(self.values.mean())

    @property
    def std(self) -> float | None:
        """Standard deviation over the trainings, divided by R - 1; None for a single one."""
        return float(self.values.std(ddof=1)) if len(self.trainings) > 1 else None

    @property
    def is_published(self) -> bool:
        """True for a number that a paper prints."""
        return any(isinstance(one, Number) and one.status is Status.PUBLISHED for one in self.trainings)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Status and reason of the rows whose status is another than the usual one, such as upper bounds."""
        rows = [one for one in self.trainings if isinstance(one, Number)]
        doubted = [row for row in rows if row.status not in (Status.OK, Status.PUBLISHED)]
        return tuple(dict.fromkeys(", ".join(filter(None, [row.status.value, row.why])) for row in doubted))

    @property
    def is_upper_bound(self) -> bool:
        """True if the number of some training is an upper bound only."""
        return any(isinstance(one, Number) and one.status is Status.UPPER_BOUND for one in self.trainings)

    @property
    def interval(self) -> Interval:
        """The mean with its interval: over the choice of trainings (Student's t), or of one training over that of
        images; its ends are possible values."""
        if len(self.trainings) == 1:
            return self.trainings[0]
        return clip_interval(mean_over_trainings(self.values, CONFIDENCE), self.limits)

    @property
    def band(self) -> tuple[float, float, float]:
        """The mean, and one deviation over the trainings to each side as far as such values are possible."""
        spread = self.std or 0.0
        around = clip_interval(Interval(self.mean, self.mean - spread, self.mean + spread, CONFIDENCE), self.limits)
        return around.value, around.low, around.high

    @property
    def has_interval(self) -> bool:
        """True if an interval is known."""
        return not self.why and not math.isnan(self.interval.low)

    @property
    def text(self) -> str:
        """The mean with its interval as text, or the reason why it cannot be computed."""
        return self.why or number_text(_interval_values(self.interval), self.digits)

    @property
    def value_text(self) -> str:
        """The mean as text without its interval, or the reason why it cannot be computed."""
        return self.why or value_text(self.interval, self.digits)


def _interval_values(number: Interval) -> Interval:
    """Return a number without what it is a number of: a table says its status by a mark."""
    return Interval(number.value, number.low, number.high, number.confidence)


def study_number(
    name: str, runs: Sequence[RunNumbers], reference: Reference | None, trained_on: Mapping[str, float]
) -> StudyNumber:
    """Return a number over the trainings of a model.

    Args:
        name: see :data:`KINDS`.
        runs: the run of each training, on the same images.
        reference: of the numbers that need one.
        trained_on: attack -> strength, as people type it, for SC.

    Raises:
        UserError: there is no such number, the runs or the reference lack what it needs, or two runs are of one
            training.
    """
    check_distinct_trainings([subject_of(one.result, f"{one.result.name} ({n})") for n, one in enumerate(runs, 1)])
    try:
        found = [_number_of_training(name, run, reference, trained_on) for run in runs]
    except NotComputableError as error:
        return StudyNumber.unavailable(str(error), len(runs))
    return StudyNumber(found, number_digits(name), number_limits(name))


def number_limits(name: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a number: shares end at 100, hypervolumes at 1, ratios nowhere."""
    share = name in ("clean", "average") or "@" in name or name.startswith("average ")
    return 0.0, 100.0 if share else 1.0 if name.startswith("AH ") else math.inf


def clip_interval(interval: Interval, limits: tuple[float, float]) -> Interval:
    """Return an interval without what lies outside of the limits.

    Example:
        >>> print(clip_interval(Interval(97.0, 92.0, 102.0, 0.95), (0.0, 100.0)))
        97.00 [92.00, 100.00]
    """
    return replace(interval, low=max(interval.low, limits[0]), high=min(interval.high, limits[1]))


def number_digits(name: str) -> int:
    """Return the number of digits after the point: hypervolumes lie in [0, 1], all others are percentages."""
    return 4 if name.startswith(("AH ", "std AH ")) else 1


def is_percentage(name: str) -> bool:
    """Return True if a number is in percent: all but stability constants and hypervolumes."""
    return not name.startswith(("SC", "AH ", "std AH "))


def number_label(name: str) -> str:
    """Return the heading of a number in a table.

    Example:
        >>> [number_label(name) for name in ("linf@8/255", "resolution@80", "UAR jpeg-linf", "clean")]
        ['L∞ 8/255', 'Resolution 80', 'UAR JPEG L∞', 'clean']
    """
    attack, at, strength = name.partition("@")
    if at:
        return f"{attack_label(attack).label} {format_strength(read_strength(strength, attack), attack=attack)}"
    *before, last = name.split(" ")
    return " ".join([*before, attack_label(last).label]) if before else name


def _number_of_training(
    name: str, run: RunNumbers, reference: Reference | None, trained_on: Mapping[str, float]
) -> Interval:
    """Return one number of one training, see :func:`study_number`."""
    _check_searched(name, run.complete_table)
    attack, at, strength = name.partition("@")
    if at:
        return _accuracy_at_strength(run, attack, strength)
    kind, _, last = name.rpartition(" ")
    if kind in ("AH", "std AH"):
        volume = run_hypervolume(run.result, last)
        if kind == "std AH":
            return _point_interval(float(volume.per_sample.std()))
    row = run.row_table.find(_ROWS[name]) if name in _ROWS else None
    row = row or (run.row_table.find(_ROWS_OF_ATTACK[kind], last) if kind in ("AH", "average") else None)
    if row is not None:
        return row
    if reference is None:
        raise UserError(f"{name!r} is not a number, or needs a reference; there are {KINDS}.")
    return _ratio(name, run, reference, trained_on)


def _check_searched(name: str, judged: Result) -> None:
    """Raise where a number rests on strengths at which sizes alone were searched."""
    kind, _, last = name.rpartition(" ")
    named = {name.partition("@")[0], last} & {*judged.attacks} or {*judged.attacks}
    alone = tuple(point for point in judged.unsearched if point[0] in named)
    if alone and name != "clean" and kind not in ("AH", "std AH"):
        raise UserError(f"{name!r} of {judged.name}: {describe_unsearched(alone)}; give its evaluation another search.")


def run_hypervolume(run: Result, attack: str) -> AdversarialHypervolume:
    """Return the hypervolume of a run under an attack.

    Raises:
        UserError: it has no margins for one.
    """
    found = statistics.hypervolume_of(run, attack)
    if found is None:
        raise UserError(f"{run.name} has no margins of {attack} at equal steps; evaluate by the search frontier.")
    return found


def _point_interval(value: float) -> Interval:
    return Interval(value, math.nan, math.nan, CONFIDENCE)


def _accuracy_at_strength(run: RunNumbers, attack: str, strength: str) -> Number:
    name, judged = run.complete_table.name, run.complete_table
    if attack not in judged.attacks:
        raise UserError(f"{name} was not evaluated with {attack}; it has {', '.join(judged.attacks)}.")
    grid = judged.distances(attack).tolist()
    place = strength_position(read_strength(strength, attack), grid)
    if place is None:
        known = listed_strengths(grid, attack)
        raise UserError(f"{name} was not evaluated with {attack} at {strength}; its strengths are {known}.")
    return run.row_table.select(kinds.ROBUST, attack)[place]


def _ratio(name: str, run: RunNumbers, reference: Reference, trained_on: Mapping[str, float]) -> Interval:
    """Return a number that a reference gives."""
    held, rows = run.numbers_of_reference(reference)
    kind, _, last = name.rpartition(" ")
    if name == "SC" or kind == "SC floor":
        return _stability(held, run, trained_on, float(last) if kind else 0.0)
    row = rows.find(name) or (rows.find(_ROWS_OF_ATTACK[kind], last) if kind in ("CR", "UAR") else None)
    if row is not None:
        return row
    if last in held.shared and kind == "CR ind-worst":
        return _worst_ratio(held, run, last)
    why = f"; {held.unlike[last]}" if last in held.unlike else ""
    raise UserError(
        f"{name!r} is not a number of {run.complete_table.name} against {held.reference.name}{why}; there are {KINDS}."
    )


def _stability(held: Held, run: RunNumbers, trained_on: Mapping[str, float], floor: float) -> Interval:
    if floor not in Steadiness().floors:
        floors = list_names(f"{known:g}" for known in Steadiness().floors)
        raise UserError(f"The stability constant has the floors {floors}; given: {floor:g}.")
    known = stability(run.complete_table, held, trained_on)[1]
    if floor not in known:
        raise NotComputableError(NO_PAIR)
    return row_of(run.result, known[floor], "SC", {attack: tuple(grid) for attack, grid in held.ranked.items()})


def _worst_ratio(held: Held, run: RunNumbers, attack: str) -> Number:
    """Return the smallest competitiveness ratio under one attack."""
    at, name = {attack: held.shared[attack]}, "CR ind-worst"

    def measures(table: OutcomeTable, held: Held) -> dict[str, statistics.Measure]:
        ours = AccuracyStatistics(table.restrict_distances(at))
        smallest = ours.competitiveness(held.table(at), "ind-worst", [attack])
        return {name: statistics.Measure(name, {attack: tuple(at[attack])}, smallest)}

    found = statistics.intervals_against(run.complete_table, held, measures)[name]
    return row_of(run.result, found, name, {attack: tuple(at[attack])})


Cell = str | int | float | StudyNumber


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        title: what it is.
        columns: headings; the first is of the names of the rows.
        rows: of cells.
        notes: what a reader has to know, one sentence each.
        digits: of plain numbers after the point.

    Example:
        >>> print(Sheet("small", ("model", "clean"), [("linf", 91.23)]).markdown())
        | model | clean |
        |---|---|
        | linf | 91.2 |
        <BLANKLINE>
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()
    digits: int = 1

    def texts(self) -> list[list[str]]:
        """Return the cells as texts."""
        return [[self._text(cell) for cell in row] for row in self.rows]

    def _text(self, cell: Cell) -> str:
        if isinstance(cell, StudyNumber):
            return cell.text + (" *" if cell.doubts else "")
        if isinstance(cell, float):
            return "none" if math.isnan(cell) else f"{cell:.{self.digits}f}"
        return str(cell)

    @property
    def published_share(self) -> float:
        """Share of the rows with a number that a paper prints, in [0, 1]."""
        with_one = [any(isinstance(cell, StudyNumber) and cell.is_published for cell in row) for row in self.rows]
        return float(np.mean(with_one)) if with_one else 0.0

    @property
    def is_beside_paper(self) -> bool:
        """True if some cell is a number that a paper prints."""
        return self.published_share > 0

    @property
    def legend(self) -> tuple[str, ...]:
        """Sentences on the intervals and marks in the cells."""
        numbers = [(str(row[0]), cell) for row in self.rows for cell in row if isinstance(cell, StudyNumber)]
        doubts = dict.fromkeys(doubt for _, number in numbers for doubt in number.doubts)
        return (*_interval_sentences(numbers), *(f"*: {doubt}." for doubt in doubts), *self.notes)

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.columns, ["---"] * len(self.columns)]
        rows = [[_lines_in_markdown(text) for text in row] for row in (self.columns, *self.texts())]
        head, *body = (f"| {' | '.join(row)} |" for row in rows)
        return "\n".join([head, f"|{'|'.join(lines[1])}|", *body]) + "\n"

    def csv(self) -> str:
        """Return the table as CSV; mean, deviation and the interval of each number have columns of their own."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        whole = [any(_is_measured(row[column]) for row in self.rows) for column in range(len(self.columns))]
        writer.writerow([text for head, parts in zip(self.columns, whole, strict=True) for text in _heads(head, parts)])
        for row in self.rows:
            writer.writerow([value for cell, parts in zip(row, whole, strict=True) for value in _values(cell, parts)])
        return out.getvalue()


def _interval_sentences(numbers: Sequence[tuple[str, StudyNumber]]) -> list[str]:
    """Return the sentence that says what the intervals of a table are over; each number has the name of its row."""
    with_interval = [(name, number) for name, number in numbers if number.has_interval]
    alone = list(dict.fromkeys(name for name, number in with_interval if len(number.trainings) == 1))
    several = len(alone) < len({name for name, _ in with_interval})
    if not with_interval:
        return []
    if not several:
        return ["In brackets: 95 % interval over the choice of images."]
    images = f"; of {list_names(alone)}, trained once, over that of images" if alone else ""
    return [f"Means over trainings; in brackets: 95 % interval over the choice of trainings{images}."]


_PARTS = ("std over trainings", "trainings low", "trainings high", "images low", "images high", "trainings")


def _is_measured(cell: Cell) -> bool:
    return isinstance(cell, StudyNumber) and not cell.is_published


def _heads(head: str, parts: bool) -> list[str]:
    return [head, *(f"{head}, {part}" for part in _PARTS)] if parts else [head]


def _values(cell: Cell, parts: bool) -> list[str]:
    empty = [""] * (len(_PARTS) * parts)
    if not isinstance(cell, StudyNumber):
        return [_csv_text(cell), *empty]
    if cell.why:
        return [_csv_text(cell.why), *empty]
    if not parts:
        return [_csv_text(cell.mean)]
    ends, nothing = (cell.interval.low, cell.interval.high), (math.nan, math.nan)
    over = (*nothing, *ends) if cell.std is None else (*ends, *nothing)
    numbers = [cell.mean, math.nan if cell.std is None else cell.std, *over]
    return [*("" if math.isnan(number) else _csv_text(number) for number in numbers), str(len(cell.trainings))]


def _csv_text(cell: Cell) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(spreadsheet_cell(cell))


def _lines_in_markdown(text: str) -> str:
    return "<br>".join(map(markdown_text, text.split("\n")))
