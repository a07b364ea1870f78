"""Outcome of one attack, and the one rule that says at which strengths a sample is broken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import real_array
from robustatlas.common.typed_strengths import format_strength, value_as_typed
from robustatlas.outcomes.bounds import AccuracyBounds, Point
from robustatlas.outcomes.strengths import (
    check_strengths,
    listed_strengths,
    sizes_as_typed,
    snap_sizes,
    strength_position,
    strength_positions,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

LOOKS = (50, 200, 800)
"""Fresh draws after which it is asked whether a misclassification is certain; most are after the first."""


def percent(count: ArrayLike, total: int) -> Floats:
    """Return counts [...] out of a total in percent: how every accuracy and error is computed from samples.

    >>> percent([28, 200], 200).tolist()
    [14.0, 100.0]
    """
    return np.asarray(100.0 * np.asarray(count, np.float64) / total)


def broken_mask(minimal_size: Floats, sizes: ArrayLike) -> Booleans:
    """Return the mask ``[N, K]`` of the samples that are broken at each of K ``sizes``, of a nested threat model.

    ``minimal_size`` [N] are sizes as :func:`~robustatlas.outcomes.strengths.snap_sizes` records them.

    >>> broken_mask(np.array([0.1, np.inf]), [0.05, 0.1]).tolist()
    [[False, True], [False, False]]
    """
    return np.asarray(minimal_size[:, None] <= np.asarray(sizes)) & np.isfinite(minimal_size)[:, None]


def check_minimal(values: ArrayLike, what: str) -> Floats:
    """Return minimal strengths or sizes [N] >= 0 as float64; inf: never broken. ``what``: whose they are, for messages.

    Raises:
        UserError: they are not numbers, negative or NaN, or not one for each sample."""
    try:
        minimal = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"The minimal strengths or sizes of {what} are not all numbers.") from None
    if minimal.ndim != 1 or minimal.size == 0:
        raise UserError(
            f"The minimal strengths or sizes of {what} must be one number for each sample; given an array of shape "
            f"{minimal.shape}."
        )
    if np.isnan(minimal).any():
        raise UserError(
            f"{int(np.isnan(minimal).sum())} of the minimal strengths or sizes of {what} are NaN; use inf for samples "
            "that were never broken."
        )
    if (minimal < 0).any():
        raise UserError(
            f"The smallest of the minimal strengths or sizes of {what} is {minimal.min():g}; expected >= 0."
        )
    return minimal


_PER_SAMPLE, _PER_STRENGTH, _PER_SAMPLE_AND_STRENGTH = {"axes": "N"}, {"axes": "S"}, {"axes": "NS"}
"""Axes of the arrays of an outcome: samples N and strengths S. Its shapes are checked, and parts taken, along them."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The findings of one attack, for N samples and S strengths, as the files of a run hold them.

    Strengths and sizes are distances from the unchanged image, which rise with the harm: for an attack whose typed
    strengths fall, such as the quality of a JPEG file, they are 100 less the typed ones. :class:`robustatlas.Result`
    and its curves and tables give typed ones. None is not known, unless a field says otherwise.

    Attributes:
        attack: name of the attack.
        strengths: ``[S]``, increasing.
        minimal_size: ``[N]``, the size of the smallest adversarial example found; 0 where the clean input is
            misclassified, inf where none was found. A size that lies above a strength by rounding is that strength.
        found_class: ``[N]``, the class of that example, -1 where there is none.
        margins: ``[N, S]``, the lowest softmax margin found within each strength, NaN where not searched.
        fooled: ``[N, S]``, what was judged at that very strength: 1 fooled, 0 survived, -1 not searched.
        forward, backward: ``[N]``, forward and backward passes spent on the sample.
        seconds: wall-clock time of the attack.
        rejected: number of supposed examples that verification refused.
        monotone: whether a sample broken at one strength is broken at all larger ones (nested threat models).
        unit: of the strengths.
        origins: how the numbers were found, one phrase for each search that they are the smallest of.
        possible_size: ``[N]``, of randomised models the smallest size that is not certainly none; None: no doubt.
        origin_index: ``[N]``, position in ``origins`` of what found the smallest example; None: there is one origin.
        kinds: of runs, one phrase for each leg of the plans.
        kind_index: ``[N]``, position in ``kinds`` of what found the smallest example; -1 where that is not known.
        true_gradient_size: ``[N]``, the smallest size that runs by the network's own gradient came to, where others
            went back through smoothed ReLUs; None: there were none.
        mistakes, drawn: ``[N]``, of a randomised model: how many fresh draws of the smallest example were
            misclassified, of how many. 0 drawn: there is no example, or none is known.
        queries: ``[N, S]``, of a model that could only be asked: queries until the first example within each strength.
            1: the clean input is misclassified; -1: no example was seen.
        typical: ``[N, S]``, the share of draws at each strength that are classified correctly, NaN where none was
            drawn; None: the worst case alone was searched.
        frontier: whether the lowest margins were searched for; elsewhere they are what a search came across.
        without_gradient: the share of samples at which the model gave no gradient; None: none is taken, or not known.
        errors: what counts as an error, see :data:`robustatlas.models.classifier.rejection.Errors`; of ``"improbable"``
            margins are normalised cross-entropies.
        saved: ``[N]``, at most how many passes were left out because a certificate says that nothing can be found;
            None: nothing was certified before.
        searched_at: ``[S]``, whether a search judged this very strength; elsewhere only sizes were searched, and
            accuracies are upper bounds only. None: each was searched.
        as_file: ``[N]``, whether the smallest example still is one as an 8-bit file holds it: 1 yes, -1 no, 0: there is
            no example, or nobody looked.

    Raises:
        UserError: strengths do not increase, a size is negative or NaN, or arrays do not fit together.

    Example:
        >>> import robustatlas as ra
        >>> found = {"minimal_size": {"linf": [0.15, np.inf, 0.0]}, "strengths": {"linf": [0.1, 0.2]}}
        >>> outcome = ra.Result.from_arrays(labels=[0, 1, 1], clean_prediction=[0, 1, 0], **found).outcome("linf")
        >>> outcome.broken().tolist()
        [[False, True], [False, False], [True, True]]
    """

    attack: str
    strengths: Floats = field(metadata=_PER_STRENGTH)
    minimal_size: Floats = field(metadata=_PER_SAMPLE)
    found_class: Integers = field(metadata=_PER_SAMPLE)
    margins: NDArray[np.float32] = field(metadata=_PER_SAMPLE_AND_STRENGTH)
    fooled: NDArray[np.int8] = field(metadata=_PER_SAMPLE_AND_STRENGTH)
    forward: Integers = field(metadata=_PER_SAMPLE)
    backward: Integers = field(metadata=_PER_SAMPLE)
    seconds: float = 0.0
    rejected: int = 0
    monotone: bool = True
    unit: str = ""
    origins: tuple[str, ...] = ()
    origin_index: Integers | None = field(default=None, metadata=_PER_SAMPLE)
    kinds: tuple[str, ...] = ()
    kind_index: Integers | None = field(default=None, metadata=_PER_SAMPLE)
    possible_size: Floats | None = field(default=None, metadata=_PER_SAMPLE)
    true_gradient_size: Floats | None = field(default=None, metadata=_PER_SAMPLE)
    mistakes: Integers | None = field(default=None, metadata=_PER_SAMPLE)
    drawn: Integers | None = field(default=None, metadata=_PER_SAMPLE)
    queries: Integers | None = field(default=None, metadata=_PER_SAMPLE_AND_STRENGTH)
    typical: Floats | None = field(default=None, metadata=_PER_SAMPLE_AND_STRENGTH)
    frontier: bool = False
    without_gradient: float | None = None
    saved: Integers | None = field(default=None, metadata=_PER_SAMPLE)
    errors: str = "accepted"
    as_file: Integers | None = field(default=None, metadata=_PER_SAMPLE)
    searched_at: Booleans | None = field(default=None, metadata=_PER_STRENGTH)

    def __post_init__(self) -> None:
        check_strengths(self.strengths.tolist(), self.attack)
        sizes = check_minimal(self.minimal_size, self.attack)
        if not np.array_equal(sizes, snap_sizes(sizes, self.strengths)):
            raise UserError(
                f"Some sizes of {self.attack!r} lie above one of its strengths by rounding; give them as "
                "snap_sizes(sizes, strengths) records them."
            )
        lengths = {"N": len(sizes), "S": len(self.strengths)}
        for name, axes in _ARRAY_AXES.items():
            values, expected = getattr(self, name), tuple(lengths[axis] for axis in axes)
            if values is not None and values.shape != expected:
                raise UserError(f"{name} of {self.attack!r} must have shape {expected}, got {values.shape}.")

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.minimal_size)

    @property
    def is_judged(self) -> bool:
        """True if the strengths that break each sample are known."""
        return not bool(self.unjudged.any())

    @property
    def unjudged(self) -> Booleans:
        """Mask ``[N]`` of the samples of which it is not known at which strengths they are broken."""
        if self.monotone:
            return np.zeros(self.samples, np.bool_)
        return np.asarray((self.fooled < 0).any(axis=1) & (self.minimal_size > 0))

    def broken(self, at: ArrayLike | None = None) -> Booleans:
        """Return the mask ``[N, K]`` of samples that are broken at K strengths >= 0 (default: the attack's own, K = S).

        Accuracies, curves, unions, resamples, SQL and pages all follow this one rule: a sample is broken at a strength
        that is not smaller than its minimal size. An attack whose threat model is not nested judges each strength by
        itself. A sample is then broken at 0 where its clean input is misclassified, and at a strength where it was
        fooled at that very strength. At a strength that was not searched, this is only what the sizes say; see
        :meth:`accuracy_bounds`.

        Raises:
            UserError: strengths are judged one by one, and some sample was not run at every one, or the attack not at
                one that is asked for.
        """
        sizes = self.strengths if at is None else np.asarray(at, np.float64).reshape(-1)
        if self.monotone:
            places = strength_positions(sizes, self.strengths)
            return broken_mask(self.minimal_size, np.where(places < 0, sizes, self.strengths[places]))
        if not self.is_judged:
            raise UserError(
                f"{self.attack!r} judges each strength on its own, but was not run at every strength; "
                "use search 'every'."
            )
        places = strength_positions(sizes, np.append(0.0, self.strengths))
        if (strange := sizes[places < 0]).size:
            known, given = (listed_strengths(some, self.attack) for some in (self.strengths, strange[:1]))
            raise UserError(
                f"{self.attack} is judged at each strength by itself, and was run at {known}; {given} is none of these."
            )
        return np.column_stack([self.minimal_size == 0, self.fooled != 0])[:, places]

    @property
    def searched_strengths(self) -> Floats:
        """Strengths ``[K]`` that a search judged; the others stand on sizes alone."""
        return self.strengths if self.searched_at is None else self.strengths[self.searched_at]

    @property
    def unsearched(self) -> tuple[Point, ...]:
        """The attack with each strength whose accuracy is an upper bound only, as sizes alone were searched there."""
        alone = np.setdiff1d(self.strengths, self.searched_strengths)
        return tuple((self.attack, strength) for strength in sizes_as_typed(alone, self.attack).tolist())

    def accuracy_bounds(self, strength: float) -> AccuracyBounds:
        """Return which samples certainly, and possibly, withstand a strength >= 0: the one rule for every strength.

        Where the strength was searched, both are those that no search there broke. Between searched strengths of a
        nested threat model those of the next larger one are certain, and possible are those without an example within
        the strength; beyond the largest none is certain. Where strengths are judged each by itself, nothing is known
        between them: none is certain, and all are possible.

        Example:
            >>> from robustatlas.outcomes import OutcomeTable
            >>> table = OutcomeTable.from_sizes("a", [1, 1], {"linf": [0.9, np.inf]}, {"linf": [1.0]})
            >>> known = table.outcome("linf").accuracy_bounds(0.2)
            >>> known.low, known.high, known.status
            (50.0, 100.0, 'upper bound only, as linf was not searched at 0.2')
        """
        clean = self.minimal_size > 0
        if strength == 0:
            return AccuracyBounds(clean, clean)
        place, searched = strength_position(strength, self.strengths.tolist()), self.searched_strengths
        at = strength if place is None else float(self.strengths[place])
        point = ((self.attack, value_as_typed(self.attack, at)),)
        unsearched = () if strength_position(at, searched.tolist()) is not None else point
        if self.monotone:
            possible = ~broken_mask(self.minimal_size, [at])[:, 0]
            larger = searched[searched >= at][:1]
            certain = ~broken_mask(self.minimal_size, larger)[:, 0] if larger.size else np.zeros_like(clean)
            return AccuracyBounds(certain, possible, unsearched)
        if place is None:
            return AccuracyBounds(np.zeros_like(clean), np.ones_like(clean), unsearched)
        standing, unknown = self.fooled[:, place] == 0, (self.fooled[:, place] < 0) & clean
        return AccuracyBounds(standing, standing | unknown, point if unknown.any() else unsearched)

    def certain_sizes(self) -> Floats:
        """Return the size ``[N]`` up to which each sample certainly withstands a nested threat model.

        It is the largest searched strength below the sample's minimal size.

        Example:
            >>> from robustatlas.outcomes import OutcomeTable
            >>> table = OutcomeTable.from_sizes("a", [1] * 3, {"linf": [0.15, 0.3, np.inf]}, {"linf": [0.1, 0.2]})
            >>> table.outcome("linf").certain_sizes().tolist()
            [0.1, 0.2, 0.2]
        """
        grid = np.append(0.0, self.searched_strengths)
        return np.asarray(grid[np.maximum(np.searchsorted(grid, self.minimal_size) - 1, 0)])

    @cached_property
    def minimal_strength(self) -> Floats:
        """Smallest of the strengths that break each sample ``[N]``; 0: misclassified clean, inf: never broken."""
        broken = self.broken()
        first = np.where(broken.any(1), self.strengths[broken.argmax(1)], np.inf)
        return np.where(self.minimal_size == 0, 0.0, first)

    @property
    def median_size(self) -> float:
        """The size at which half of the samples that are right without a change are wrong; see `size_that_breaks`."""
        return self.size_that_breaks(0.5)

    def size_that_breaks(self, share: float) -> float:
        """Return the smallest size at which a share of the samples that are right without a change are wrong.

        Args:
            share: of these samples, in (0, 1]; 0.5 asks for the median size, which halves the clean accuracy.

        Returns:
            the size; inf if no size breaks as many, 0 if no sample is right without a change.

        Example:
            >>> from robustatlas.outcomes import OutcomeTable
            >>> table = OutcomeTable.from_sizes("a", [1] * 5, {"linf": [0.0, 0.1, 0.2, 0.3, np.inf]}, {"linf": [0.4]})
            >>> table.outcome("linf").size_that_breaks(0.5), table.outcome("linf").size_that_breaks(1.0)
            (0.2, inf)
        """
        right = self.minimal_size > 0
        needed = math.ceil(share * int(right.sum()) - 1e-9)
        if needed < 1:
            return 0.0
        if self.monotone or not self.is_judged:
            return float(np.sort(self.minimal_size[right])[needed - 1])
        reached = self.broken()[right].sum(axis=0) >= needed
        return float(self.strengths[reached.argmax()]) if reached.any() else np.inf

    def accuracies(self) -> Floats:
        """Return the robust accuracy in percent at each strength, ``[S]``."""
        return percent((~self.broken()).sum(axis=0), self.samples)

    def surviving_files(self) -> tuple[int, int] | None:
        """Return how many examples survive rounding to an 8-bit file, and of how many; None if none was checked."""
        if self.as_file is None or not (self.as_file != 0).any():
            return None
        return int((self.as_file > 0).sum()), int((self.as_file != 0).sum())

    def typical_accuracies(self) -> Floats:
        """Return the mean percentage ``[S]`` of draws that are right; NaN where not all samples were drawn.

        Raises:
            UserError: nothing was drawn.
        """
        if self.typical is None:
            raise UserError(f"{self.attack} was searched for the worst case alone; nothing says what is typical.")
        return np.asarray(100.0 * np.mean(self.typical, axis=0, dtype=np.float64))

    def select(self, positions: Integers) -> Outcome:
        """Return the outcome of the samples at some positions of these arrays."""
        return self._take("N", positions)

    def _take(self, axis: str, positions: Integers) -> Outcome:
        """Return the outcome with some positions of one axis, "N" or "S", of every array that has it."""
        arrays = {name: getattr(self, name) for name, axes in _ARRAY_AXES.items() if axis in axes}
        taken: dict[str, Any] = {
            name: values[positions] if axis == "N" else values[..., positions]  # N is the first axis, S the last one
            for name, values in arrays.items()
            if values is not None
        }
        return replace(self, **taken)

    def with_possible_examples(self) -> Outcome:
        """Return the outcome in which every example counts that may be one."""
        if self.possible_size is None:
            return self
        sizes = snap_sizes(self.possible_size, self.strengths)
        return replace(self, minimal_size=sizes, possible_size=None, mistakes=None, drawn=None)

    def counts_by_origin(self) -> dict[str, int]:
        """Return origin -> number of samples whose smallest example it found; clean errors need none.

        Example:
            >>> from robustatlas.outcomes import OutcomeTable
            >>> table = OutcomeTable.from_sizes("a", [1, 1], {"linf": [0.2, 0.0]}, {"linf": [0.1, 0.2]})
            >>> replace(table.outcome("linf"), origins=("descent, seed 0",)).counts_by_origin()
            {'descent, seed 0': 1}
        """
        found = np.isfinite(self.minimal_size) & (self.minimal_size > 0)
        index = np.zeros(self.samples, np.int64) if self.origin_index is None else self.origin_index
        return {origin: int((found & (index == k)).sum()) for k, origin in enumerate(self.origins)}

    def counts_by_run(self) -> dict[str, int]:
        """Return kind of run -> number of samples whose smallest example it found, where that is known.

        Kinds that found none are left out.
        """
        index = np.full(self.samples, -1) if self.kind_index is None else self.kind_index
        counts = dict.fromkeys(self.kinds, 0)  # several legs of a plan can be of one kind
        for k, kind in enumerate(self.kinds):
            counts[kind] += int((index == k).sum())
        return {kind: count for kind, count in counts.items() if count}

    def restrict(self, strengths: Sequence[float] | Floats) -> Outcome:
        """Return the outcome of the same samples at only some of the strengths (increasing).

        Raises:
            UserError: a strength at which the attack was not evaluated.
        """
        grid = self.strengths.tolist()
        wanted = np.atleast_1d(real_array(strengths, f"strengths of {self.attack}")).tolist()
        found = [strength_position(strength, grid) for strength in wanted]
        if None in found:
            raise UserError(
                f"{self.attack} was not evaluated at strength "
                f"{format_strength(wanted[found.index(None)], attack=self.attack)}."
            )
        return self._take("S", np.asarray(found, np.int64))


_ARRAY_AXES = {each.name: each.metadata["axes"] for each in fields(Outcome) if "axes" in each.metadata}
"""Name -> axes of each array of an outcome."""
