"""Outcome of one attack, and the one rule that says at which strengths a sample is broken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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


def percent(count: ArrayLike, total: int) -> Floats:
    """Counts [...] out of a total in percent: the one way in which accuracies and errors are computed from samples.

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
    """Minimal strengths or sizes [N] >= 0 as float64; inf: never broken. ``what``: whose they are, for messages."""
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
        true_size: ``[N]``, where some runs went back through smoothed ReLUs, the smallest size that the others came to;
            None: there were none.
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
    strengths: Floats
    minimal_size: Floats
    found_class: Integers
    margins: NDArray[np.float32]
    fooled: NDArray[np.int8]
    forward: Integers
    backward: Integers
    seconds: float = 0.0
    rejected: int = 0
    monotone: bool = True
    unit: str = ""
    origins: tuple[str, ...] = ()
    origin_index: Integers | None = None
    kinds: tuple[str, ...] = ()
    kind_index: Integers | None = None
    possible_size: Floats | None = None
    true_size: Floats | None = None
    mistakes: Integers | None = None
    drawn: Integers | None = None
    queries: Integers | None = None
    typical: Floats | None = None
    frontier: bool = False
    without_gradient: float | None = None
    saved: Integers | None = None
    errors: str = "accepted"
    as_file: Integers | None = None
    searched_at: Booleans | None = None

    def __post_init__(self) -> None:
        check_strengths(self.strengths.tolist(), self.attack)
        object.__setattr__(
            self, "minimal_size", snap_sizes(check_minimal(self.minimal_size, self.attack), self.strengths)
        )
        samples, grid = len(self.minimal_size), len(self.strengths)
        for name in ("found_class", "forward", "backward", "margins", "fooled"):
            expected = (samples, grid) if name in ("margins", "fooled") else (samples,)
            if getattr(self, name).shape != expected:
                raise UserError(
                    f"{name} of {self.attack!r} must have shape {expected}, got {getattr(self, name).shape}."
                )

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
        """``[N]``: of which samples it is not known at which strengths they are broken."""
        if self.monotone:
            return np.zeros(self.samples, np.bool_)
        return np.asarray((self.fooled < 0).any(axis=1) & (self.minimal_size > 0))

    def broken(self, at: ArrayLike | None = None) -> Booleans:
        """``[N, K]``: whether each sample is broken at each of K strengths >= 0 (default: the attack's own, K = S).

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
        return np.column_stack([self.minimal_size == 0, self.fooled != 0])[:, self._positions_of_judged(sizes)]

    @property
    def searched_strengths(self) -> Floats:
        """``[K]``: the strengths that a search judged; the others stand on sizes alone."""
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
        """``[N]``: up to which size each sample certainly withstands: the largest searched strength below its size; of
        a nested threat model.

        Example:
            >>> from robustatlas.outcomes import OutcomeTable
            >>> table = OutcomeTable.from_sizes("a", [1] * 3, {"linf": [0.15, 0.3, np.inf]}, {"linf": [0.1, 0.2]})
            >>> table.outcome("linf").certain_sizes().tolist()
            [0.1, 0.2, 0.2]
        """
        grid = np.append(0.0, self.searched_strengths)
        return np.asarray(grid[np.maximum(np.searchsorted(grid, self.minimal_size) - 1, 0)])

    def _positions_of_judged(self, sizes: Floats) -> Integers:
        """``[K]``: positions of ``sizes`` among 0 and the strengths."""
        places = strength_positions(sizes, np.append(0.0, self.strengths))
        if (strange := sizes[places < 0]).size:
            known, given = (listed_strengths(some, self.attack) for some in (self.strengths, strange[:1]))
            raise UserError(
                f"{self.attack} is judged at each strength by itself, and was run at {known}; {given} is none of these."
            )
        return places

    @cached_property
    def minimal_strength(self) -> Floats:
        """``[N]``: smallest of the strengths at which the sample is broken; 0 misclassified clean, inf never."""
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
        """Robust accuracy in percent at each strength, ``[S]``."""
        return percent((~self.broken()).sum(axis=0), self.samples)

    def surviving_files(self) -> tuple[int, int] | None:
        """Return how many examples survive rounding to an 8-bit file, and of how many; None if none was checked."""
        if self.as_file is None or not (self.as_file != 0).any():
            return None
        return int((self.as_file > 0).sum()), int((self.as_file != 0).sum())

    def typical_accuracies(self) -> Floats:
        """Mean share of the draws that are classified correctly, in percent, ``[S]``; NaN where not all samples were
        drawn.

        Raises:
            UserError: nothing was drawn.
        """
        if self.typical is None:
            raise UserError(f"{self.attack} was searched for the worst case alone; nothing says what is typical.")
        return np.asarray(100.0 * np.mean(self.typical, axis=0, dtype=np.float64))

    def select(self, positions: Integers) -> Outcome:
        """The samples at some positions of these arrays."""
        rows = ["minimal_size", "found_class", "margins", "fooled", "forward", "backward", "origin_index", "kind_index"]
        rows += ["possible_size", "mistakes", "drawn", "queries", "typical", "saved", "as_file", "true_size"]
        held = {name: values for name in rows if (values := getattr(self, name)) is not None}
        return replace(self, **{name: values[positions] for name, values in held.items()})

    def with_possible_examples(self) -> Outcome:
        """The same with every example counted that may be one."""
        if self.possible_size is None:
            return self
        return replace(self, minimal_size=self.possible_size, possible_size=None, mistakes=None, drawn=None)

    def counts_by_origin(self) -> dict[str, int]:
        """Origin -> number of samples whose smallest example it found; clean errors need none.

        Example:
            >>> from robustatlas.outcomes import OutcomeTable
            >>> table = OutcomeTable.from_sizes("a", [1, 1], {"linf": [0.2, 0.0]}, {"linf": [0.1, 0.2]})
            >>> replace(table.outcome("linf"), origins=("descent, seed 0",)).counts_by_origin()
            {'descent, seed 0': 1}
        """
        found = np.isfinite(self.minimal_size) & (self.minimal_size > 0)
        of = np.zeros(self.samples, np.int64) if self.origin_index is None else self.origin_index
        return {origin: int((found & (of == k)).sum()) for k, origin in enumerate(self.origins)}

    def counts_by_run(self) -> dict[str, int]:
        """Kind of run -> number of samples whose smallest example it found, where that is known; kinds that found none
        are left out.
        """
        of = np.full(self.samples, -1) if self.kind_index is None else self.kind_index
        counts = dict.fromkeys(self.kinds, 0)
        for k, kind in enumerate(self.kinds):
            counts[kind] += int((of == k).sum())
        return {kind: count for kind, count in counts.items() if count}

    def restrict(self, strengths: Sequence[float] | Floats) -> Outcome:
        """The same samples at only some of the strengths (increasing).

        Raises:
            UserError: a strength at which the attack was not evaluated.
        """
        grid, wanted = (
            self.strengths.tolist(),
            np.atleast_1d(real_array(strengths, f"strengths of {self.attack}")).tolist(),
        )
        found = [strength_position(strength, grid) for strength in wanted]
        if None in found:
            raise UserError(
                f"{self.attack} was not evaluated at strength "
                f"{format_strength(wanted[found.index(None)], attack=self.attack)}."
            )
        kept = np.asarray(found, np.int64)
        return replace(
            self,
            strengths=self.strengths[kept],
            margins=self.margins[:, kept],
            fooled=self.fooled[:, kept],
            queries=None if self.queries is None else self.queries[:, kept],
            typical=None if self.typical is None else self.typical[:, kept],
            searched_at=None if self.searched_at is None else self.searched_at[kept],
        )


LOOKS = (50, 200, 800)
"""Fresh draws after which it is asked whether a misclassification is certain; most are after the first."""
