"""The table: for every sample and attack what was found, of one model on one data set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_array
from robustatlas.common.typed_strengths import falling_scale_start
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.bounds import AccuracyBounds, Point
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.outcomes.outcome import Booleans, Floats, Integers, Outcome, check_minimal, percent
from robustatlas.outcomes.strengths import (
    read_places,
    read_sizes,
    read_strength,
    read_strengths,
    sizes_as_typed,
    snap_sizes,
)


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """Outcomes of N samples of a model: clean predictions, and the outcome of each attack.

    Attributes:
        name: of the model, for tables and error messages.
        data: name of the data set.
        index: ``[N]``, positions of the samples in the data set, distinct.
        labels: ``[N]``.
        clean_prediction: ``[N]``, class predicted for the clean input.
        clean_margin: ``[N]``, softmax margin of the clean input; NaN where not known.
        outcomes: attack -> :class:`Outcome` of the same samples.
        clean_rejected: ``[N]``, whether the model refuses to answer for the clean input; None: it never may.
        certified_sizes: attack -> :class:`CertifiedSizes` of the same samples, where some were certified.

    Raises:
        UserError: there is no sample, a sample is given twice, or arrays do not fit together.

    Example:
        >>> table = OutcomeTable.from_arrays(
        ...     labels=[0, 1, 1], clean_prediction=[0, 1, 0],
        ...     minimal_size={"linf": [0.15, np.inf, 0.0]}, strengths={"linf": [0.1, 0.2]},
        ... )
        >>> table.minimal_strength("linf")
        array([0.2, inf, 0. ])
        >>> table.accuracies().values("linf").round(1)
        array([66.7, 33.3])
    """

    name: str
    data: str
    index: Integers
    labels: Integers
    clean_prediction: Integers
    clean_margin: NDArray[np.float32]
    outcomes: Mapping[str, Outcome]
    clean_rejected: Booleans | None = None
    certified_sizes: Mapping[str, CertifiedSizes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.index):
            raise UserError(f"{self.name} has no samples; at least one is expected.")
        if len(np.unique(self.index)) != len(self.index):
            raise UserError(f"The samples of {self.name} are not distinct; give each sample once.")
        columns: dict[str, NDArray[Any]] = {
            "labels": self.labels,
            "clean predictions": self.clean_prediction,
            "clean margins": self.clean_margin,
        }
        for what, values in columns.items():
            if values.shape != self.index.shape:
                raise UserError(
                    f"The {what} of {self.name} have shape {values.shape}; one for each of its {self.samples} samples "
                    "is expected."
                )
        for attack, outcome in self.outcomes.items():
            if outcome.samples != self.samples:
                raise UserError(
                    f"{self.name} has {self.samples} samples and outcomes of {outcome.samples} under {attack}; give "
                    "the same samples to all."
                )

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.index)

    @property
    def classes_held(self) -> int:
        """Number of classes that the samples are of."""
        return len(np.unique(self.labels))

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks."""
        return tuple(self.outcomes)

    @property
    def clean(self) -> Booleans:
        """``[N]``: whether the clean input is classified correctly, or rejected by a model that may."""
        right = np.asarray(self.clean_prediction == self.labels)
        return right if self.clean_rejected is None else right | self.clean_rejected

    @property
    def clean_accuracy(self) -> float:
        """In percent."""
        return float(percent(self.clean.sum(), self.samples))

    def outcome(self, attack: str) -> Outcome:
        """Return the outcome of one attack.

        Raises:
            UserError: the model was not evaluated with that attack.
        """
        if not isinstance(attack, str) or attack not in self.outcomes:
            raise UserError(
                f"{self.name} was not evaluated with {attack!r}; it has {', '.join(self.outcomes) or 'none'}."
            )
        return self.outcomes[attack]

    def strengths(self, attack: str) -> Floats:
        """Return the strengths ``[S]`` of an attack as people type them, in the order of harm.

        >>> table = OutcomeTable.from_sizes("a", [1], {"resolution": [30]}, {"resolution": [80, 20]})
        >>> table.strengths("resolution"), table.minimal_strength("resolution"), table.minimal_size("resolution")
        (array([80., 20.]), array([20.]), array([30.]))
        """
        return sizes_as_typed(self.distances(attack), attack)

    def distances(self, attack: str) -> Floats:
        """Return the strengths ``[S]`` of an attack as distances from the unchanged image, increasing."""
        return self.outcome(attack).strengths

    def minimal_strength(self, attack: str) -> Floats:
        """Return the least harmful of the strengths that broke each sample ``[N]``, as people type it.

        It is 0 where the clean input is misclassified and inf where no strength broke the sample. Where typed strengths
        fall (a quality of 90, 50, 10), these are 100 and -inf.
        """
        return sizes_as_typed(self.outcome(attack).minimal_strength, attack)

    def minimal_size(self, attack: str) -> Floats:
        """Return the size of the smallest adversarial example of each sample ``[N]``, as people type it.

        It is 0 where the clean input is misclassified and inf where none was found. Where typed strengths fall, the
        size is the quality from which on the sample is misclassified, and these are 100 and -inf.
        """
        return sizes_as_typed(self.outcome(attack).minimal_size, attack)

    def correct(self, attack: str) -> Booleans:
        """Return the mask ``[N, S]`` of samples that withstand the attack at each of its strengths."""
        return ~self.outcome(attack).broken()

    def margins(self, attack: str) -> NDArray[np.float32]:
        """Return the lowest softmax margin ``[N, S]`` found within each strength; NaN where not searched."""
        return self.outcome(attack).margins

    def passes(self, attack: str) -> tuple[float, float]:
        """Return the mean forward and mean backward passes per sample."""
        outcome = self.outcome(attack)
        return float(outcome.forward.mean()), float(outcome.backward.mean())

    def accuracies(self) -> AccuracyTable:
        """Return clean and robust accuracies, in percent, for each attack and strength."""
        entries = {
            attack: dict(zip(outcome.strengths.tolist(), outcome.accuracies().tolist(), strict=True))
            for attack, outcome in self.outcomes.items()
        }
        return AccuracyTable.from_distances(self.clean_accuracy, entries, self.invalid, self.unsearched)

    @property
    def invalid(self) -> dict[str, float]:
        """Attack -> share of the samples at which the model gave it no gradient, where there are such.

        Its robust accuracies are too high.
        """
        shares = {attack: outcome.without_gradient for attack, outcome in self.outcomes.items()}
        return {attack: share for attack, share in shares.items() if share}

    def accuracy_bounds(self, strengths: Mapping[str, float]) -> AccuracyBounds:
        """Return which samples certainly, and possibly, withstand clean inputs and every attack at the strength named
        for it, as people type it; see :meth:`attack_bounds`.

        Raises:
            UserError: no mapping of strengths, a strength that no image can be changed by, or an attack that was not
                evaluated.

        Example:
            >>> table = OutcomeTable.from_sizes("a", [1, 1], {"linf": [0.9, np.inf]}, {"linf": [1.0]})
            >>> table.accuracy_bounds({"linf": 0.2}).low, float(table.survivors({"linf": 0.2}).mean())
            (50.0, 1.0)
        """
        return self.bounds_at_distances(self._read(strengths))

    def attack_bounds(self, attack: str, strength: float) -> AccuracyBounds:
        """Return which samples certainly, and possibly, withstand one attack at a strength, as people type it.

        At a strength that was not searched, a sample that is certified beyond it is certain too. At one that was
        searched, both are the samples that no search there broke.
        """
        (distance,) = self._read({attack: strength}).values()
        return self.attack_bounds_at_distance(attack, distance)

    def bounds_at_distances(self, distances: Mapping[str, float]) -> AccuracyBounds:
        """Return what :meth:`accuracy_bounds` returns, for strengths that are given as distances."""
        found = AccuracyBounds(self.clean, self.clean)
        for attack, distance in distances.items():
            found = found.combine(self.attack_bounds_at_distance(attack, distance))
        return found

    def attack_bounds_at_distance(self, attack: str, distance: float) -> AccuracyBounds:
        """Return what :meth:`attack_bounds` returns, for a strength that is given as a distance."""
        known, proved = self.outcome(attack).accuracy_bounds(distance), self.certified_sizes.get(attack)
        if proved is None or known.searched:
            return known
        return replace(known, certain=known.certain | (known.possible & (proved.sizes > distance)))

    def survivors(self, strengths: Mapping[str, float]) -> Booleans:
        """Return which samples ``[N]`` have no example, clean or under any attack within the strength named for it, as
        people type it. At a strength that was not searched their share is an upper bound only; see
        :meth:`accuracy_bounds`.

        Raises:
            UserError: no mapping of strengths, a strength that no image can be changed by, an attack that was not
                evaluated, or one that is judged at each strength by itself and was not at this one.
        """
        return self.survivors_at_distances(self._read(strengths))

    def survivors_at_distances(self, distances: Mapping[str, float]) -> Booleans:
        """Return what :meth:`survivors` returns, for strengths that are given as distances."""
        standing = self.clean
        for attack, distance in distances.items():
            standing = standing & ~self.outcome(attack).broken([distance])[:, 0]
        return standing

    def _read(self, strengths: Mapping[str, float]) -> dict[str, float]:
        """Return the distances of strengths that people type."""
        if not isinstance(strengths, Mapping):
            raise UserError(
                f"{shorten(repr(strengths))} is given; expected a strength for each attack, such as {{'linf': 0.03}}."
            )
        found = read_strengths(strengths)
        for attack, distance in found.items():
            if not distance >= 0:
                top = falling_scale_start(attack)
                expected = "a number from 0 on" if top is None else f"a number of at most {top:g}"
                raise UserError(f"The strength of {attack} is {shorten(repr(strengths[attack]))}; expected {expected}.")
        return found

    @property
    def unsearched(self) -> tuple[Point, ...]:
        """The attacks and strengths whose accuracies are upper bounds only, as sizes were searched there and strengths
        were not."""
        return tuple(point for outcome in self.outcomes.values() for point in outcome.unsearched)

    def select_searched(self) -> Self:
        """Return the table with only the strengths that were searched; attacks without any are left out."""
        grids = {attack: outcome.searched_strengths for attack, outcome in self.outcomes.items()}
        if not self.unsearched:
            return self
        return self.restrict_distances({attack: grid for attack, grid in grids.items() if grid.size})

    def select(self, positions: Integers) -> Self:
        """Return the table of the samples at some positions of these arrays."""
        return replace(
            self,
            index=self.index[positions],
            labels=self.labels[positions],
            clean_prediction=self.clean_prediction[positions],
            clean_margin=self.clean_margin[positions],
            clean_rejected=None if self.clean_rejected is None else self.clean_rejected[positions],
            outcomes={attack: outcome.select(positions) for attack, outcome in self.outcomes.items()},
            certified_sizes={row: sizes.select(positions) for row, sizes in self.certified_sizes.items()},
        )

    def certified_size(self, attack: str) -> Floats:
        """Return the size of each sample ``[N]`` up to which nothing can be found, as people type it.

        It is 0 where the clean input is misclassified or nothing is certain, and inf where there is no example at all.

        Raises:
            UserError: nothing was certified under that attack.
        """
        if attack not in self.certified_sizes:
            there = f"certified are {', '.join(self.certified_sizes)}" if self.certified_sizes else "nothing is yet"
            raise UserError(f"Nothing is certified of {self.name} under {attack!r}; {there}: see ra.certify.")
        return sizes_as_typed(self.certified_sizes[attack].sizes, attack)

    def with_possible_examples(self) -> Self | None:
        """Return the table with every possible example counted; None where there is no doubt (no randomised model)."""
        known = [outcome for outcome in self.outcomes.values() if outcome.possible_size is not None]
        if not known:
            return None
        wrong = np.any([outcome.possible_size == 0 for outcome in known], axis=0)
        return replace(
            self,
            clean_prediction=np.where(wrong, -1, self.clean_prediction),
            outcomes={attack: outcome.with_possible_examples() for attack, outcome in self.outcomes.items()},
        )

    def select_judged(self) -> Self:
        """Return the table with only the attacks that say at every strength which samples are broken."""
        return replace(self, outcomes={a: outcome for a, outcome in self.outcomes.items() if outcome.is_judged})

    def restrict(self, strengths: Mapping[str, Sequence[float] | Floats]) -> Self:
        """Return the table with only the attacks and strengths that are named.

        Args:
            strengths: attack -> strengths to keep of it, as people type them, in the order of harm.

        Raises:
            UserError: for an attack or a strength that was not evaluated.
        """
        return self.restrict_distances({attack: read_places(kept, attack) for attack, kept in strengths.items()})

    def restrict_distances(self, distances: Mapping[str, Sequence[float] | Floats]) -> Self:
        """Return what :meth:`restrict` returns, for strengths that are given as distances, increasing."""
        return replace(self, outcomes={a: self.outcome(a).restrict(kept) for a, kept in distances.items()})

    @classmethod
    def from_arrays(
        cls,
        labels: ArrayLike,
        clean_prediction: ArrayLike,
        minimal_size: Mapping[str, ArrayLike],
        strengths: Mapping[str, ArrayLike],
        clean_margin: ArrayLike | None = None,
        margins: Mapping[str, ArrayLike] | None = None,
        fooled: Mapping[str, ArrayLike] | None = None,
        monotone: bool = True,
        model: str = "arrays",
        data: str = "arrays",
        index: ArrayLike | None = None,
    ) -> Self:
        """Return a table of numbers at hand (of another tool, or made up for a test).

        Args:
            labels: ``[N]``.
            clean_prediction: ``[N]``.
            minimal_size: attack to ``[N]``, as people type sizes; 0 misclassified clean, inf never fooled. Where typed
                strengths fall, 100 and -inf say so too.
            strengths: attack to ``[S]``, as people type them, in the order of harm (resolution 80, 50, 20).
            clean_margin: ``[N]``; NaN when not given.
            margins: attack to ``[N, S]``; NaN when not given.
            fooled: attack to ``[N, S]``; what the minimal sizes say when not given.
            monotone: see :class:`Outcome`.
            model: name of the model.
            data: name of the data set.
            index: ``[N]``, positions in the data set; 0, 1, ... when not given.

        Raises:
            UserError: an attack without strengths, or arrays that do not fit together.
        """
        classes = real_array(labels, "labels").astype(np.int64)
        predictions = real_array(clean_prediction, "clean predictions").astype(np.int64)
        outcomes = {}
        if not isinstance(minimal_size, Mapping) or not isinstance(strengths, Mapping):
            raise UserError("The minimal sizes and the strengths are expected by attack, such as {'linf': [0.1, 0.2]}.")
        for attack, sizes in minimal_size.items():
            if attack not in strengths:
                raise UserError(f"There are no strengths of {attack}; give those at which {model} is judged.")
            size = check_minimal(read_sizes(sizes, attack), f"{model} under {attack}")
            given = np.atleast_1d(real_array(strengths[attack], f"the strengths of {attack}"))
            grid = np.array([read_strength(each, attack) for each in given.tolist()])
            shape, none = (len(size), len(grid)), np.zeros(len(size), np.int64)
            outcome = Outcome(
                attack=attack,
                strengths=grid,
                minimal_size=snap_sizes(size, grid),
                found_class=np.where(size == 0, predictions, -1) if predictions.shape == size.shape else none - 1,
                margins=np.asarray(margins[attack], np.float32) if margins else np.full(shape, np.nan, np.float32),
                fooled=np.asarray(fooled[attack], np.int8) if fooled else np.full(shape, -1, np.int8),
                forward=none,
                backward=none,
            )
            judged = outcome.fooled if fooled else outcome.broken().astype(np.int8)
            outcomes[attack] = replace(outcome, fooled=judged, monotone=monotone)
        return cls(
            name=model,
            data=data,
            index=np.arange(len(classes)) if index is None else np.asarray(index, np.int64),
            labels=classes,
            clean_prediction=predictions,
            clean_margin=np.full(len(classes), np.nan, np.float32)
            if clean_margin is None
            else np.asarray(clean_margin, np.float32),
            outcomes=outcomes,
        )

    @classmethod
    def from_sizes(
        cls,
        name: str,
        labels: ArrayLike,
        minimal_sizes: Mapping[str, ArrayLike],
        strengths: Mapping[str, ArrayLike],
    ) -> Self:
        """Return the table that minimal sizes alone make: a size of 0 says that the clean input is misclassified.

        Args:
            name: of the model.
            labels: ``[N]``.
            minimal_sizes: attack -> ``[N]``.
            strengths: attack -> ``[S]``, as people type them, in the order of harm.

        Raises:
            UserError: no attack, arrays that do not fit together, or samples that are misclassified clean under one
                attack only.

        Example:
            >>> table = OutcomeTable.from_sizes("a", [1, 1], {"linf": [0.2, float("inf")]}, {"linf": [0.1, 0.2]})
            >>> table.accuracies().values("linf")
            array([100.,  50.])
        """
        if not minimal_sizes:
            raise UserError(f"The set of attacks of {name} is empty; give the minimal sizes of at least one attack.")
        sizes = {
            attack: check_minimal(read_sizes(values, attack), f"{name} under {attack}")
            for attack, values in minimal_sizes.items()
        }
        classes = np.asarray(labels, dtype=np.int64)
        first, clean = next((attack, values > 0) for attack, values in sizes.items())
        for attack, values in sizes.items():
            if values.shape != classes.shape:
                raise UserError(
                    f"{name} has {classes.size} labels and {values.size} minimal sizes under {attack}; give the same "
                    "samples to all."
                )
            if not np.array_equal(values > 0, clean):
                sample = int(np.flatnonzero((values > 0) != clean)[0])
                raise UserError(
                    f"Sample {sample} of {name} is misclassified clean (size 0) under only one of {first} and {attack}."
                )
        return cls.from_arrays(classes, np.where(clean, classes, classes + 1), minimal_sizes, strengths, model=name)
