"""Per-sample outcomes of one model in the form that intervals and comparisons need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError
from robustatlas.metrics.accuracies import STRENGTH_TOLERANCE, AccuracyTable, check_strengths, same_strength
from robustatlas.metrics.checks import check_minimal
from robustatlas.metrics.curves import RobustnessCurve

if TYPE_CHECKING:
    from robustatlas.outcomes import Result


@dataclass(frozen=True, eq=False)
class SampleOutcomes:
    """Which samples of a data set a model gets right, clean and under every (attack, strength).

    Attributes:
        name: of the model, for tables and error messages.
        index: [N] positions of the samples in the data set, distinct.
        labels: [N].
        clean: [N] whether the clean input is classified correctly.
        strengths: attack -> [S] increasing.
        correct: attack -> [N, S] whether the sample is still classified correctly at the strength.
        minimal_sizes: attack -> [N] size of the smallest adversarial example; 0 misclassified clean, inf none found.

    Example:
        >>> outcomes = SampleOutcomes.from_sizes("a", [1, 1], {"linf": [0.2, float("inf")]}, {"linf": [0.1, 0.2]})
        >>> outcomes.accuracies().values("linf")
        array([100.,  50.])
    """

    name: str
    index: NDArray[np.int64]
    labels: NDArray[np.int64]
    clean: NDArray[np.bool_]
    strengths: Mapping[str, NDArray[np.float64]]
    correct: Mapping[str, NDArray[np.bool_]]
    minimal_sizes: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        if not self.samples:
            raise UserError(f"{self.name} has no samples; at least one is expected")
        if len(np.unique(self.index)) != len(self.index):
            raise UserError(f"the samples of {self.name} are not distinct; give each sample once")
        for what, values in (("label", self.labels), ("clean outcome", self.clean)):
            if values.shape != (self.samples,):
                raise UserError(
                    f"one {what} for each of the {self.samples} samples of {self.name} is expected; given "
                    f"{values.shape}"
                )
        for attack, correct in self.correct.items():
            if attack not in self.strengths or attack not in self.minimal_sizes:
                raise UserError(f"the strengths or the minimal sizes of {attack!r} of {self.name} are missing")
            check_strengths(self.strengths[attack].tolist(), attack)
            check_minimal(self.minimal_sizes[attack], f"{self.name} under {attack}")
            if correct.shape != (self.samples, len(self.strengths[attack])):
                raise UserError(
                    f"correct[{attack!r}] of {self.name} must have the shape [samples, strengths] = "
                    f"{(self.samples, len(self.strengths[attack]))}; given: {correct.shape}"
                )

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.index)

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks."""
        return tuple(self.correct)

    def accuracies(self) -> AccuracyTable:
        """The accuracies in percent."""
        cells = {
            attack: dict(zip(self.strengths[attack].tolist(), (100.0 * correct.mean(axis=0)).tolist(), strict=True))
            for attack, correct in self.correct.items()
        }
        return AccuracyTable(100.0 * float(self.clean.mean()), cells)

    def curve(self, attack: str) -> RobustnessCurve:
        """The robustness curve under an attack."""
        if attack not in self.minimal_sizes:
            raise UserError(
                f"{self.name} was not evaluated with {attack!r}; it has {', '.join(self.attacks) or 'none'}"
            )
        return RobustnessCurve(self.minimal_sizes[attack], attack=attack)

    def select(self, positions: NDArray[np.int64]) -> SampleOutcomes:
        """The samples at some positions of these arrays."""
        return SampleOutcomes(
            self.name,
            self.index[positions],
            self.labels[positions],
            self.clean[positions],
            self.strengths,
            {attack: correct[positions] for attack, correct in self.correct.items()},
            {attack: sizes[positions] for attack, sizes in self.minimal_sizes.items()},
        )

    def restrict(self, strengths: Mapping[str, Sequence[float] | NDArray[np.float64]]) -> SampleOutcomes:
        """The same samples with only the attacks and strengths that are named.

        Args:
            strengths: attack -> strengths to keep of it, increasing.

        Raises:
            UserError: for an attack or a strength that was not evaluated.
        """
        positions = {attack: self._positions(attack, kept) for attack, kept in strengths.items()}
        return SampleOutcomes(
            self.name,
            self.index,
            self.labels,
            self.clean,
            {attack: self.strengths[attack][found] for attack, found in positions.items()},
            {attack: self.correct[attack][:, found] for attack, found in positions.items()},
            {attack: self.minimal_sizes[attack] for attack in positions},
        )

    def _positions(self, attack: str, strengths: Sequence[float] | NDArray[np.float64]) -> list[int]:
        grid = self.strengths.get(attack, np.array([])).tolist()
        found = [next((i for i, known in enumerate(grid) if same_strength(known, s)), -1) for s in strengths]
        if -1 in found:
            raise UserError(f"{self.name} was not evaluated with {attack} at strength {strengths[found.index(-1)]:g}")
        return found

    @classmethod
    def from_result(cls, result: Result, name: str = "") -> SampleOutcomes:
        """The outcomes of a run, named after its model unless another name is given."""
        correct = {}
        for attack in result.attacks:
            outcome = result.outcome(attack)
            broken = outcome.minimal_strength[:, None] <= outcome.strengths
            correct[attack] = ~broken if outcome.monotone else outcome.fooled == 0
        return cls(
            name=name or result.manifest.settings.model.name,
            index=result.index,
            labels=result.labels,
            clean=result.clean_prediction == result.labels,
            strengths={attack: result.strengths(attack) for attack in result.attacks},
            correct=correct,
            minimal_sizes={attack: result.minimal_size(attack) for attack in result.attacks},
        )

    @classmethod
    def from_sizes(
        cls,
        name: str,
        labels: Sequence[int] | NDArray[np.int64],
        minimal_sizes: Mapping[str, Sequence[float] | NDArray[np.float64]],
        strengths: Mapping[str, Sequence[float] | NDArray[np.float64]],
    ) -> SampleOutcomes:
        """Outcomes of samples 0, 1, ... that follow from the minimal sizes alone.

        Args:
            name: of the model.
            labels: [N].
            minimal_sizes: attack -> [N] as in the attributes.
            strengths: attack -> [S] increasing.
        """
        if not minimal_sizes:
            raise UserError(f"the set of attacks of {name} is empty; give the minimal sizes of at least one attack")
        missing = [attack for attack in minimal_sizes if attack not in strengths]
        if missing:
            raise UserError(f"there are no strengths of {', '.join(missing)}; give those at which {name} is judged")
        sizes = {attack: check_minimal(values, f"{name} under {attack}") for attack, values in minimal_sizes.items()}
        grids = {attack: np.asarray(strengths[attack], dtype=np.float64) for attack in sizes}
        classes = np.asarray(labels, dtype=np.int64)
        for attack, values in sizes.items():
            if values.shape != classes.shape:
                raise UserError(
                    f"{name} has {classes.size} labels and {values.size} minimal sizes under {attack}; give the same "
                    "samples to all"
                )
        first = next(iter(sizes))
        clean = np.asarray(sizes[first] > 0)
        for attack, values in sizes.items():
            if not np.array_equal(values > 0, clean):
                sample = int(np.flatnonzero((values > 0) != clean)[0])
                raise UserError(
                    f"sample {sample} of {name} is misclassified clean (size 0) under only one of {first} and {attack}"
                )
        correct = {a: sizes[a][:, None] > grids[a] * (1 + STRENGTH_TOLERANCE) for a in sizes}
        return cls(name, np.arange(len(classes)), classes, clean, grids, correct, sizes)


def common_strengths(outcomes: Sequence[SampleOutcomes]) -> dict[str, list[float]]:
    """Attack -> the strengths at which all models were evaluated; attacks without any are left out.

    Example:
        >>> a = SampleOutcomes.from_sizes("a", [1], {"linf": [0.2], "l2": [1.0]}, {"linf": [0.1, 0.2], "l2": [1.0]})
        >>> b = SampleOutcomes.from_sizes("b", [1], {"linf": [0.2]}, {"linf": [0.2, 0.3]})
        >>> common_strengths([a, b])
        {'linf': [0.2]}
    """
    _check_any(outcomes)
    common = {}
    for attack, strengths in outcomes[0].strengths.items():
        others = [model.strengths.get(attack, np.array([])) for model in outcomes[1:]]
        kept = [
            s for s in strengths.tolist() if all(any(same_strength(s, known) for known in other) for other in others)
        ]
        if kept:
            common[attack] = kept
    return common


def _check_any(outcomes: Sequence[SampleOutcomes]) -> None:
    if not outcomes:
        raise UserError("no model is given; give the outcomes of at least one")


def check_paired(first: SampleOutcomes, second: SampleOutcomes) -> None:
    """Raise where two models' outcomes are not of the same samples in the same order."""
    if not (np.array_equal(first.index, second.index) and np.array_equal(first.labels, second.labels)):
        raise UserError(
            f"{first.name} ({first.samples} samples) and {second.name} ({second.samples} samples) were not evaluated "
            "on the same samples in the same order; take the ones they share with shared_samples"
        )


def shared_samples(outcomes: Sequence[SampleOutcomes]) -> list[SampleOutcomes]:
    """The outcomes of several models on the samples that all of them were evaluated on, in the same order.

    Raises:
        UserError: where they share no samples, or a shared sample has different labels.

    Example:
        >>> a = SampleOutcomes.from_sizes("a", [1, 2, 3], {"linf": [0.1, 0.2, 0.3]}, {"linf": [0.1]})
        >>> b = a.select(np.array([2, 1]))
        >>> [model.index.tolist() for model in shared_samples([a, b])]
        [[1, 2], [1, 2]]
    """
    _check_any(outcomes)
    common = outcomes[0].index
    for model in outcomes[1:]:
        common = np.intersect1d(common, model.index)
    if common.size == 0:
        raise UserError(f"{', '.join(model.name for model in outcomes)} share no samples; evaluate the same samples")
    common = np.sort(common)
    chosen = []
    for model in outcomes:
        order = np.argsort(model.index)
        chosen.append(model.select(order[np.searchsorted(model.index, common, sorter=order)]))
        if not np.array_equal(chosen[0].labels, chosen[-1].labels):
            raise UserError(
                f"{outcomes[0].name} and {model.name} have different labels at the same positions of the data set; "
                "they were evaluated on different data"
            )
    return chosen
