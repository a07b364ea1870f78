"""Rows of the leaderboard: the published defenses of a reference, and runs with what their owners say of the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from robustatlas.common.documents import read_json, validate
from robustatlas.common.errors import UserError
from robustatlas.common.wording import MASKED, UPPER_BOUND, add_mark, format_counts, list_names, masked_reason
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.references.shipped import available_fields, load_field
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
from robustatlas.report.numbers.number import MEDIAN, WORST, Number, Numbers
from robustatlas.report.numbers.of_run import numbers_against, numbers_of_run
from robustatlas.report.numbers.shared import subject_of
from robustatlas.report.numbers.statistics import hypervolume_of, own_statistics
from robustatlas.report.numbers.steadiness import stability
from robustatlas.report.numbers.units import calibrations_of
from robustatlas.results.result import Result

PUBLISHED_SAMPLES = {"multirobustbench-cifar10": 10_000}
"""Test images behind each accuracy of the published defenses of a reference; a field says so itself."""

HYPERVOLUME_ATTACK = "linf"
"""The attack whose margins give the hypervolume of a row."""

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
    """Model name -> what a run does not know of its model, given as such or as the path of a JSON file.

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
        samples: number of test images behind the accuracies; None where unknown, and then no interval is shown.
        hypervolume: adversarial hypervolume in [0, 1]; None where unknown.
        hypervolume_is: "upper bound" where it was not searched for.
        petaflops: cost of the training in 10^15 floating point operations; None where unknown.
        ratios: kind of competitiveness ratio -> its value and interval over all ranked entries, as on every other page;
            empty where an entry is missing, and for rows of which only the accuracies are known.
        medians: attack -> median size; empty with accuracies alone.
        own_threat: attacks whose threat model is not that of the reference, so that what is said beside it holds about.
        doubts: what makes the reference worth little for the row, one sentence each.
        constants: floor -> the stability constant with its interval, likewise.
        worst: accuracy in percent in the worst case over all ranked attacks. None for a single attack, where an entry
            is missing, and with accuracies alone.
        own: name -> what a run gives by itself beside accuracies, such as UA2, in percent.
        certified: attack -> accuracies in percent that are certain at the strengths of the board, where its threat
            model was certified: what robust accuracy is at least.
        headline: the numbers that come first; None where they are not known.
        invalid: attack -> share of the samples at which its gradient is missing or misleads: see
            :func:`robustatlas.outcomes.accuracies.masked_shares`.
        unranked: why the row has no place, in a sentence; empty where it may have one.
        is_suspect: True if some numbers are invalid, or the diagnosis of the run speaks against them.
    """

    name: str
    accuracies: AccuracyTable
    about: About = field(default_factory=About)
    samples: int | None = None
    hypervolume: float | None = None
    hypervolume_is: str = ""
    notes: str = ""
    own_run: bool = False
    petaflops: float | None = None
    ratios: Mapping[str, Interval] = field(default_factory=dict)
    constants: Mapping[float, Interval] = field(default_factory=dict)
    medians: Mapping[str, Number] = field(default_factory=dict)
    own_threat: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    worst: float | None = None
    own: Mapping[str, float] = field(default_factory=dict)
    certified: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    invalid: Mapping[str, float] = field(default_factory=dict)
    headline: Headline | None = None
    unranked: str = ""
    is_suspect: bool = False

    @property
    def label(self) -> str:
        """Name of the defense as people read it, with a mark if its run is suspect."""
        return add_mark(self.name, self.is_suspect)

    def drop_attacks(self, unlike: Mapping[str, str]) -> Row:
        """Return the row without the attacks that other rows have with different threat models; attack -> how these
        differ. What rests on such an attack is gone, and a note says why."""
        lost = [attack for attack in unlike if attack in self.accuracies.entries]
        if not lost:
            return self
        kept = {a: [*grid] for a, grid in self.accuracies.distance_entries.items() if a not in lost}
        said = " ".join(refusal_to_compare(attack, unlike[attack]) for attack in lost)
        return replace(
            self,
            accuracies=self.accuracies.restrict_distances(kept),
            notes="; ".join(filter(None, [self.notes, said])),
            ratios={},
            constants={},
            worst=None,
            medians={attack: median for attack, median in self.medians.items() if attack not in lost},
            certified={attack: entries for attack, entries in self.certified.items() if attack not in lost},
        )

    def bounds(self, accuracies: Sequence[float]) -> tuple[list[float], list[float]] | None:
        """Exact lower and upper bounds of accuracies in percent; None where the number of images is unknown."""
        if not self.samples:
            return None
        low, high = proportion_bounds([round(a * self.samples / 100) for a in accuracies], self.samples, CONFIDENCE)
        return low.tolist(), high.tolist()


def sparse_rows(rows: Sequence[Row]) -> list[bool]:
    """Return for each row if it rests on much fewer images than another one, so that its place says little."""
    most = max((row.samples or 0 for row in rows), default=0)
    return [row.samples is not None and row.samples < FEW * most for row in rows]


def published_rows(reference: Reference) -> list[Row]:
    """The defenses that come with a reference."""
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
            notes="; ".join(defense.notes),
            petaflops=defense.train_petaflops,
        )
        for defense in reference.defenses
    ]


def run_row(result: Result, reference: Reference, about: About | None = None) -> Row:
    """The row of a run, at the points that it shares with a reference. ``result``: the run; an attack that judges each
    strength on its own is missing unless every strength was searched, and so are strengths that were not searched."""
    given, sizes_only = about or About(), upper_bound_status(result.unsearched)
    result = result.select_searched()
    held = hold_against(result, reference, result.records.values(), result.identity)
    volume = hypervolume_of(result, HYPERVOLUME_ATTACK)
    judged = result.select_judged()
    table = numbers_of_run(result, worst_case_points(judged))
    against = numbers_against(result, held) if held.complete else Numbers()
    partly = [attack for attack in result.attacks if attack not in judged.attacks]
    compared = {attack: judged.distances(attack) for attack in judged.attacks if attack not in held.unlike}
    notes = [
        given.notes,
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
        about=given.model_copy(update={"title": ""}) if given.title == result.name else given,
        samples=result.samples,
        hypervolume=volume.mean if volume else None,
        hypervolume_is=UPPER_BOUND if volume and not result.outcome(HYPERVOLUME_ATTACK).frontier else "",
        notes="; ".join(note for note in notes if note),
        own_run=True,
        ratios={one.what.removeprefix("CR "): one for one in against if one.what.startswith("CR ")},
        medians={median.attack: median for median in table.select(MEDIAN) if median.attack in judged.attacks},
        own_threat=held.own_threat,
        doubts=held.doubts,
        constants=stability(judged, held, given.trained_on)[1] if held.complete and given.tells_training else {},
        worst=_worst_case(judged, held),
        own={name: table.select(name)[0].value for name in own_statistics(judged)},
        certified=_certified(result, reference),
        invalid=result.invalid,
        headline=headline_of(table, choose_headline([judged])),
        unranked=" ".join(filter(None, [held.other_data, *result.unproven.values()])),
    )


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


def _certified(result: Result, reference: Reference) -> dict[str, dict[float, float]]:
    """Return certified accuracies of the model itself; a certified size covers every strength below it."""
    held = {row: sizes for row, sizes in result.certified_sizes.items() if not sizes.of}
    shared = {row: reference.accuracies.distances(row).tolist() for row in held if row in reference.accuracies.attacks}
    return {row: dict(zip(grid, held[row].accuracies(grid).tolist(), strict=True)) for row, grid in shared.items()}


def _sentences_on_finders(result: Result) -> list[str]:
    """A sentence for each attack of whose smallest examples some were handed over."""
    known = {attack: best_known(result, attack) for attack in result.attacks}
    return [found.sentence(attack) for attack, found in known.items() if found is not None and found.names]


def _worst_case(judged: Result, held: Held) -> float | None:
    if len(held.ranked) < 2 or not held.complete:
        return None
    shared = judged.restrict_distances(held.ranked)
    worst = numbers_of_run(shared, worst_case_points(shared)).find(WORST)
    return None if worst is None else worst.value
