"""Several runs beside each other: what they share, and the numbers in which they are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.wording import add_mark, list_names
from robustatlas.outcomes.comparable import (
    Subject,
    attack_differences,
    common_points,
    different_data,
    different_points,
    find_rows,
    refusal_to_compare,
    shared_index,
)
from robustatlas.outcomes.outcome import Integers
from robustatlas.results.result import Result


def distinct_names(results: Iterable[Result]) -> list[str]:
    """Return the names of the models; equal ones have the names of the run directories, or numbers."""
    return _distinct_names([(result.name, result.path) for result in results])


def _distinct_names(models: Sequence[tuple[str, Path | None]]) -> list[str]:
    count = Counter(name for name, _ in models)
    names: dict[str, None] = {}
    for position, (plain, path) in enumerate(models, start=1):
        name = f"{plain} ({path.name if path else position})" if count[plain] > 1 else plain
        names[f"{name} #{position}" if name in names else name] = None
    return [*names]


@dataclass(frozen=True)
class Shared:
    """The samples, attacks and strengths that runs share, and what is left out and why.

    Attributes:
        names: of the runs, distinct.
        results: the runs; :class:`robustatlas.results.result.Results` are read one by one.
        index: positions of the shared samples in the data set, increasing.
        grid: attack -> the shared strengths.
        suspect: True for each run whose numbers cannot be trusted.
        left_out: names of attacks and points that not all runs have.
        unlike: attack that several runs have, with different threat models -> how these differ.
        unfinished: a sentence for each run that lacks samples it was asked for.
    """

    names: tuple[str, ...]
    results: Sequence[Result]
    index: Integers
    grid: Mapping[str, list[float]]
    suspect: tuple[bool, ...]
    left_out: tuple[str, ...] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as people read them, with a mark at those that cannot be trusted."""
        return tuple(map(add_mark, self.names, self.suspect))

    @property
    def notes(self) -> list[str]:
        """Sentences on what is left out and why, and on what is missing; every surface that compares says them."""
        lines = [f"Left out, not evaluated alike: {list_names(self.left_out)}."] if self.left_out else []
        return [*lines, *map(refusal_to_compare, self.unlike, self.unlike.values()), *self.unfinished]

    @property
    def samples(self) -> int:
        """Number of shared samples."""
        return len(self.index)

    def table(self, run: int) -> Result:
        """Return one run on the shared samples, under the shared attacks and strengths."""
        return self.run_on_samples(run).select_judged().restrict_distances(self.grid)

    @property
    def is_everything(self) -> bool:
        """True if the runs share everything that each of them has, so that nothing stands apart."""
        return not self.left_out and not self.unlike and all(result.samples == self.samples for result in self.results)

    def run_on_samples(self, run: int) -> Result:
        """Return one run on the shared samples, under everything that it has."""
        result = replace(self.results[run], name=self.names[run])
        return result.select(find_rows(result.index, self.index))


@dataclass(frozen=True)
class _Brief:
    """Summary of a run that is kept while the others are looked at; ``unjudged``: attack -> positions of the samples of
    which it does not say at which strengths they are broken."""

    model: tuple[str, Path | None]
    is_suspect: bool
    subject: Subject
    index: Integers
    labels: Integers
    strengths: Mapping[str, list[float]]
    unjudged: Mapping[str, Integers]

    @classmethod
    def from_result(cls, result: Result) -> _Brief:
        return cls(
            model=(result.name, result.path),
            is_suspect=result.is_suspect,
            subject=subject_of(result, result.name),
            index=result.index,
            labels=result.labels,
            strengths={attack: outcome.strengths.tolist() for attack, outcome in result.outcomes.items()},
            unjudged={attack: result.index[outcome.unjudged] for attack, outcome in result.outcomes.items()},
        )

    def judged_strengths(self, index: Integers) -> dict[str, list[float]]:
        """Attack -> its strengths, of the attacks that say it of all samples ``index``."""
        return {a: grid for a, grid in self.strengths.items() if not np.isin(index, self.unjudged[a]).any()}


def subject_of(result: Result, name: str) -> Subject:
    """Return what a run called `name` is about, and by which attacks."""
    return Subject.from_run(name, result.data, result.identity, result.records.values(), result.missing)


def shared_of_runs(results: Sequence[Result], names: Sequence[str] | None = None) -> Shared:
    """Return the samples, attacks and strengths that all runs have, and what is left out and why.

    Attacks are the same if their threat models are, with all parameters; data are the same if their images and labels
    are.

    Args:
        results: the runs.
        names: of the runs, distinct; None: those of their models.

    Raises:
        UserError: the runs are about different images or labels, or share no samples or no attack at the same strength.
    """
    briefs = [_Brief.from_result(result) for result in results]
    names = _distinct_names([brief.model for brief in briefs]) if names is None else names
    subjects = [replace(brief.subject, name=name) for brief, name in zip(briefs, names, strict=True)]
    if differ := different_data(subjects):
        raise UserError(differ)
    index = shared_index(names, [(brief.index, brief.labels) for brief in briefs])
    unlike = attack_differences(subjects)
    common = common_points(brief.judged_strengths(index) for brief in briefs)
    grid = {attack: strengths for attack, strengths in common.items() if attack not in unlike}
    if not grid:
        why = "".join(f" {refusal_to_compare(attack, how)}" for attack, how in unlike.items())
        raise UserError(
            f"{list_names(names)} share no attack at the same strength; evaluate them alike to compare.{why}"
        )
    everything = dict.fromkeys(attack for brief in briefs for attack in brief.strengths)
    left_out = [attack for attack in everything if attack not in grid and attack not in unlike]
    for brief in briefs:
        left_out += different_points(brief.strengths, grid, [a for a in brief.strengths if a in grid])[1]
    unfinished = tuple(said for subject in subjects if (said := subject.unfinished_note))
    suspect = tuple(brief.is_suspect for brief in briefs)
    return Shared(tuple(names), results, index, grid, suspect, tuple(dict.fromkeys(left_out)), unlike, unfinished)


def shared_if_any(results: Sequence[Result], names: Sequence[str]) -> Shared | None:
    """Return what several runs share; None of one, and where they share no images or no strengths."""
    return shared_or_why(results, names)[0]


def shared_or_why(results: Sequence[Result], names: Sequence[str]) -> tuple[Shared | None, list[str]]:
    """Return what several runs share and :attr:`Shared.notes`; of runs that share nothing None and the reason."""
    if len(results) < 2:
        return None, []
    try:
        shared = shared_of_runs(results, names)
    except UserError as error:
        return None, [str(error)]
    return shared, shared.notes
