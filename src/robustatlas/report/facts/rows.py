"""Rows of the leaderboard: the published defenses of a reference, and runs with what their owners say of the models."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from robustatlas.common.documents import read_json, validate
from robustatlas.common.errors import UserError
from robustatlas.common.wording import MASKED, add_mark, format_counts, list_names, masked_reason
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.references.shipped import available_fields, load_field
from robustatlas.metrics.trainings import mean_over_trainings
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.bounds import upper_bound_status
from robustatlas.outcomes.comparable import (
    Subject,
    attack_differences,
    common_points,
    different_data,
    find_rows,
    refusal_to_compare,
)
from robustatlas.outcomes.outcome import Integers
from robustatlas.report.facts.attack import best_known
from robustatlas.report.numbers.against import Held, hold_against
from robustatlas.report.numbers.definitions import CONFIDENCE, worst_case_points
from robustatlas.report.numbers.headline import Headline, choose_headline, headline_of
from robustatlas.report.numbers.number import Number, Numbers, Status
from robustatlas.report.numbers.of_run import numbers_against, numbers_of_run, row_of
from robustatlas.report.numbers.shared import subject_of
from robustatlas.report.numbers.statistics import model_statistics
from robustatlas.report.numbers.steadiness import stability
from robustatlas.report.numbers.units import calibrations_of
from robustatlas.results.result import Result

PUBLISHED_SAMPLES = {"multirobustbench-cifar10": 10_000}
"""Test images behind each accuracy of the published defenses of a reference; a field says so itself."""

HYPERVOLUME_ATTACK = "linf"
"""The attack whose margins give the hypervolume of a row."""

RATIO, STABILITY = "CR ", "SC floor "
"""First words of the names of ratios, whose kind follows, and of stability constants, whose floor follows."""

FEW = 0.1
"""A row with less than this share of the images of the row that has most is marked."""


class About(BaseModel):
    """Facts on a model that its run does not know; ``trained_on``: attack -> strength, as people type it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    url: str = ""
    architecture: str = ""
    extra_data: bool | None = None
    trained_on: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    notes: str = ""

    @property
    def tells_training(self) -> bool:
        """True if it says what the model was trained on, be it clean images only."""
        return "trained_on" in self.model_fields_set


_ABOUT = TypeAdapter(dict[str, About])
_CARD = TypeAdapter(About)


def read_about(about: str | Path | Mapping[str, Any] | None) -> dict[str, About]:
    """Return model name -> facts that a run does not know, given as such or as the path of a JSON file.

    >>> read_about({"mine": {"trained_on": {"linf": 0.03}}})["mine"].trained_on
    {'linf': 0.03}
    """
    if isinstance(about, str | Path):
        return validate(_ABOUT, read_json(about), str(about))
    return validate(_ABOUT, dict(about or {}), "what is said about the models")


def read_card(path: str | Path) -> dict[str, Any]:
    """Return what a JSON file says of one model, as `Result.describe` takes it; checked. Raises :class:`UserError`: it
    cannot be read, or says something that a card does not hold."""
    return validate(_CARD, read_json(path), str(path)).model_dump(mode="json", exclude_unset=True)


def model_facts(result: Result, given: Mapping[str, About]) -> About:
    """Return what is known of the model of a run: what is given now under its name, else what the run keeps."""
    for name in (result.name, result.recorded_name):
        if name in given:
            return given[name]
    return validate(_CARD, dict(result.about), f"the card of {result.name}")


@dataclass(frozen=True)
class Row:
    """One row of the board.

    Attributes:
        name: of the defense; unique on a board.
        accuracies: in percent, at the points that the row and the board share.
        about: facts on the model that its run does not know.
        samples: number of test images behind the accuracies; None where unknown, and then no interval is shown.
        numbers: the rows of the table of numbers on this model: of its run, against the reference, and its stability
            constants; empty if only the accuracies are known. A number that needs every ranked entry is absent where
            one is missing.
        own_names: names of the numbers that the registry has of a model alone, such as UA2.
        notes: sentences on the row.
        own_run: True for a run, False for a published defense.
        own_threat: attacks whose threat model is not that of the reference, so that what is said beside it holds about.
        doubts: what makes the reference worth little for the row, one sentence each.
        headline: the numbers that come first; None where they are not known.
        invalid: attack -> share of the samples at which its gradient is missing or misleads: see
            :func:`robustatlas.outcomes.accuracies.masked_shares`.
        unranked: why the row has no place, in a sentence; empty where it may have one.
        petaflops: cost of the training in 10^15 floating point operations; None where unknown.
        trainings: rows of the trainings with several seeds whose means the row holds; empty for a single training.
        is_suspect: True if some numbers are invalid, or the diagnosis of the run speaks against them.
    """

    name: str
    accuracies: AccuracyTable
    about: About = field(default_factory=About)
    samples: int | None = None
    numbers: Numbers = field(default_factory=Numbers)
    own_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    own_run: bool = False
    own_threat: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    headline: Headline | None = None
    invalid: Mapping[str, float] = field(default_factory=dict)
    unranked: str = ""
    petaflops: float | None = None
    trainings: tuple[Row, ...] = ()
    is_suspect: bool = False

    @property
    def label(self) -> str:
        """Name of the defense as people read it, with a mark if its run is suspect."""
        return add_mark(self.name, self.is_suspect)

    def drop_attacks(self, differences: Mapping[str, str]) -> Row:
        """Return the row without attacks that other rows have with different threat models, and what rests on them.

        Args:
            differences: attack -> how its threat models differ.
        """
        lost = [attack for attack in differences if attack in self.accuracies.entries]
        if not lost:
            return self
        kept = {a: [*grid] for a, grid in self.accuracies.distance_entries.items() if a not in lost}
        return replace(
            self,
            accuracies=self.accuracies.restrict_distances(kept),
            notes=(*self.notes, *(refusal_to_compare(attack, differences[attack]) for attack in lost)),
            numbers=Numbers(tuple(number for number in self.numbers if not {*lost} & {*number.at})),
        )

    def bounds(self, accuracies: Sequence[float]) -> tuple[list[float], list[float]] | None:
        """Return exact lower and upper bounds of accuracies in percent; None if the number of images is unknown."""
        if not self.samples:
            return None
        low, high = proportion_bounds([round(a * self.samples / 100) for a in accuracies], self.samples, CONFIDENCE)
        return low.tolist(), high.tolist()


def sparse_rows(rows: Sequence[Row]) -> list[bool]:
    """Return for each row if it rests on much fewer images than another one, so that its place says little."""
    most = max((row.samples or 0 for row in rows), default=0)
    return [row.samples is not None and row.samples < FEW * most for row in rows]


def published_rows(reference: Reference) -> list[Row]:
    """Return the rows of the defenses that come with a reference."""
    samples = PUBLISHED_SAMPLES.get(reference.name)
    if reference.name in available_fields():
        samples = load_field(reference.name).images
    return [
        Row(
            name=defense.name,
            accuracies=defense.accuracies,
            about=About(
                title=defense.title,
                url=defense.paper_url,
                architecture=defense.architecture,
                extra_data=defense.extra_data,
                trained_on=dict(defense.trained_on),
            ),
            samples=samples,
            notes=tuple(defense.notes),
            petaflops=defense.train_petaflops,
        )
        for defense in reference.defenses
    ]


def run_row(result: Result, reference: Reference, about: About | None = None) -> Row:
    """Return the row of a run, at the points that it shares with a reference.

    Args:
        result: the run. An attack that judges each strength on its own is missing unless every strength was searched,
            and so are strengths that were not searched.
        reference: accuracies that the board compares with.
        about: facts on the model that the run does not know.
    """
    facts, sizes_only = about or About(), upper_bound_status(result.unsearched)
    result = result.select_searched()
    held = hold_against(result, reference, result.records.values(), result.identity)
    judged = result.select_judged()
    numbers = _row_numbers(result, judged, held, facts)
    partly = [attack for attack in result.attacks if attack not in judged.attacks]
    compared = {attack: judged.distances(attack) for attack in judged.attacks if attack not in held.unlike}
    notes = [
        facts.notes,
        f"unfinished run, samples not yet evaluated: {format_counts(result.missing)}" if result.missing else "",
        *([f"{MASKED}. {masked_reason(result.invalid)}"] if result.invalid else []),
        *result.warnings,
        f"left out: {sizes_only}" if sizes_only else "",
        *_sentences_on_finders(result),
        *calibrations_of(result.records.values()),
        f"missing, as not every strength was searched: {', '.join(partly)}" if partly else "",
        *held.caveats(),
    ]
    return Row(
        name=result.name,
        is_suspect=result.is_suspect,
        accuracies=judged.restrict_distances(compared).accuracies(),
        about=facts.model_copy(update={"title": ""}) if facts.title == result.name else facts,
        samples=result.samples,
        numbers=numbers,
        own_names=tuple(model_statistics(judged)),
        notes=tuple(filter(None, notes)),
        own_run=True,
        own_threat=held.own_threat,
        doubts=held.doubts,
        headline=headline_of(numbers, choose_headline([judged])),
        invalid=result.invalid,
        unranked=" ".join(filter(None, [held.other_data, *result.unproven.values()])),
    )


def _row_numbers(result: Result, judged: Result, held: Held, about: About) -> Numbers:
    """Return the table of numbers of a run, not of its parts; the worst case is over the ranked attacks of all rows."""
    ranked = held.ranked if held.complete else {}
    worst_at = worst_case_points(judged.restrict_distances(ranked)) if len(ranked) > 1 else {}
    numbers = Numbers(tuple(one for one in numbers_of_run(result, worst_at) if one.model == result.name))
    if not held.complete:
        return numbers
    numbers += numbers_against(result, held)
    if not about.tells_training:
        return numbers
    at = {attack: tuple(strengths) for attack, strengths in ranked.items()}
    _, constants = stability(judged, held, about.trained_on)
    return numbers + [row_of(result, found, f"{STABILITY}{floor:g}", at) for floor, found in constants.items()]


_SEED = re.compile(r"(?P<recipe>.+?)[-_ ]seed[-_ ]?\d+")
"""A name that tells the seed of the training, as `make_board.py` and studies give it."""


def join_trainings(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each recipe: runs whose names differ in the seed alone are trainings of one recipe.

    Runs that are described differently, or that rest on other numbers of images, are not joined.

    Args:
        rows: of single trainings.

    Returns:
        the rows, in the order of their first trainings; a recipe with one training keeps its row.
    """
    recipes: dict[str, list[Row]] = {}
    for row in rows:
        recipes.setdefault(_recipe_name(row), []).append(row)
    joined = {name: trainings for name, trainings in recipes.items() if name and _are_trainings(trainings)}
    found: list[Row] = []
    for row in rows:
        name = _recipe_name(row)
        if name not in joined:
            found.append(row)
        elif row is joined[name][0]:
            found.append(_row_of_trainings(name, joined[name]))
    return found


def _are_trainings(rows: Sequence[Row]) -> bool:
    """Return True if the rows can be trainings of one recipe: several, with equal facts and numbers of images."""
    names, first = {row.name for row in rows}, _recipe_facts(rows[0])
    return len(names) == len(rows) > 1 and all(_recipe_facts(row) == first for row in rows)


def _recipe_facts(row: Row) -> tuple[int | None, dict[str, Any]]:
    """Return what trainings of one recipe share beside their name."""
    return row.samples, row.about.model_dump(exclude={"title", "notes"}, exclude_unset=True)


def _recipe_name(row: Row) -> str:
    """Return the name of a run without the seed of its training; empty if it tells none."""
    found = _SEED.fullmatch(row.name) if row.own_run else None
    return found["recipe"] if found else ""


def _row_of_trainings(name: str, rows: Sequence[Row]) -> Row:
    """Return the row of the means over trainings, at the points and of the numbers that every training has."""
    first = rows[0]
    entries = {
        attack: {
            at: float(np.mean([row.accuracies.accuracy_at_distance(attack, at) for row in rows]))
            for at in grid
            if all(attack in row.accuracies.entries and at in row.accuracies.distance_entries[attack] for row in rows)
        }
        for attack, grid in first.accuracies.distance_entries.items()
    }
    clean = float(np.mean([row.accuracies.clean for row in rows]))
    return Row(
        name=name,
        is_suspect=any(row.is_suspect for row in rows),
        accuracies=AccuracyTable.from_distances(clean, {attack: grid for attack, grid in entries.items() if grid}),
        about=first.about,
        samples=first.samples,
        numbers=Numbers(tuple(_means_over_trainings(name, rows))),
        own_names=first.own_names,
        notes=tuple(note for note in first.notes if all(note in row.notes for row in rows)),
        own_run=True,
        own_threat=tuple(dict.fromkeys(attack for row in rows for attack in row.own_threat)),
        doubts=tuple(dict.fromkeys(doubt for row in rows for doubt in row.doubts)),
        invalid={
            attack: max(row.invalid.get(attack, 0.0) for row in rows)
            for attack in dict.fromkeys(attack for row in rows for attack in row.invalid)
        },
        unranked=next((row.unranked for row in rows if row.unranked), ""),
        trainings=tuple(rows),
    )


def _means_over_trainings(name: str, rows: Sequence[Row]) -> Iterator[Number]:
    """Yield each number that all trainings have as its mean, with the interval over the choice of trainings."""
    tables = [{(number.what, *number.at.items()): number for number in row.numbers} for row in rows]
    for key, number in tables[0].items():
        each = [table[key] for table in tables if key in table and math.isfinite(table[key].value)]
        if len(each) == len(rows):
            doubtful = next((one for one in each if one.status is not Status.OK), number)
            over = training_interval([one.value for one in each])
            yield replace(doubtful, **vars(over), model=name, decided_by={})


def training_interval(values: Sequence[float], most: float = math.inf) -> Interval:
    """Return the mean over trainings with Student's interval, cut at 0 and at the largest value that is possible.

    Args:
        values: a number of each training, which is at least 0.
        most: the largest possible value.

    >>> print(training_interval([1.0, 2.0, 6.0]))
    3.00 [0.00, 9.57]
    """
    over = mean_over_trainings(values, CONFIDENCE)
    return replace(over, low=max(0.0, over.low), high=min(over.high, most))


@dataclass(frozen=True)
class Ground:
    """Ground on which runs are ranked without a reference: what they share.

    Attributes:
        reference: always right, so that ratios to it are the accuracies: it ranks the points of all runs, and lists
            those that only some of them have.
        index: positions of the images that all runs have.
    """

    reference: Reference
    index: Integers

    @classmethod
    def from_results(cls, results: Iterable[Result]) -> Ground:
        """Return what some runs share, looked at one by one.

        Raises:
            UserError: there is no run, or the runs are about different data, or share no samples or no attack.
        """
        grids: list[dict[str, list[float]]] = []
        subjects: list[Subject] = []
        index = np.zeros(0, np.int64)
        for result in results:
            judged = result.select_judged().select_searched()
            grids.append({attack: judged.distances(attack).tolist() for attack in judged.attacks})
            index = np.intersect1d(index, result.index) if subjects else result.index
            subjects.append(subject_of(result, result.name))
        if differ := different_data(subjects):
            raise UserError(differ)
        if grids and not len(index):
            raise UserError(
                f"{list_names([subject.name for subject in subjects])} share no samples; evaluate the same samples."
            )
        unlike = attack_differences(subjects)
        alike = [{attack: grid for attack, grid in found.items() if attack not in unlike} for found in grids]
        return cls(_always_right(alike), index)

    def restrict(self, result: Result) -> Result:
        """Return a run on the images that all of them have."""
        return result if len(self.index) == result.samples else result.select(find_rows(result.index, self.index))


def _always_right(grids: Sequence[Mapping[str, Sequence[float]]]) -> Reference:
    if not grids:
        raise UserError("There is nothing to show: no run is given, and no reference with published defenses.")
    shared = common_points(grids)
    if not shared:
        raise UserError("The runs have no attack at the same strength in common, so there is nothing to rank them by.")
    others = {attack: grid for found in grids for attack, grid in found.items() if attack not in shared}
    entries = {attack: dict.fromkeys(grid, 100.0) for attack, grid in {**shared, **others}.items()}
    return Reference("none", "", AccuracyTable.from_distances(100.0, entries), ranked=tuple(shared))


def _sentences_on_finders(result: Result) -> list[str]:
    """Return a sentence for each attack some of whose smallest examples were handed over."""
    known = {attack: best_known(result, attack) for attack in result.attacks}
    return [found.sentence(attack) for attack, found in known.items() if found is not None and found.names]
