"""Outcomes in memory: one attack (:class:`Outcome`), all attacks of a run (:class:`Result`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.errors import UserError
from robustatlas.outcomes.manifest import (
    AttackSettings,
    DataSettings,
    Manifest,
    ModelSettings,
    SampleSettings,
    Settings,
    sha256_of_array,
)

if TYPE_CHECKING:
    from robustatlas.metrics.accuracies import AccuracyTable
    from robustatlas.metrics.curves import RobustnessCurve

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
AdversarialExamples = tuple[Integers, NDArray[np.float32]]

OUTCOME_COLUMNS: Mapping[str, tuple[type[np.generic], int]] = {
    "index": (np.int64, 1),
    "minimal_strength": (np.float64, 1),
    "minimal_size": (np.float64, 1),
    "found_class": (np.int64, 1),
    "forward": (np.int64, 1),
    "backward": (np.int64, 1),
    "seconds": (np.float64, 1),
    "margins": (np.float32, 2),
    "fooled": (np.int8, 2),
}
"""Columns of an outcomes table: type, and 1 for a number per sample or 2 for one per sample and strength."""

SAMPLE_COLUMNS: Mapping[str, tuple[type[np.generic], int]] = {
    "index": (np.int64, 1),
    "label": (np.int64, 1),
    "clean_prediction": (np.int64, 1),
    "clean_margin": (np.float32, 1),
}
"""Columns of a samples table."""


@dataclass(frozen=True)
class Outcome:
    """What one attack found, for N samples and S strengths.

    Attributes:
        attack: Name of the attack.
        strengths: ``[S]``, increasing.
        minimal_strength: ``[N]``, the smallest of the strengths at which an adversarial example was found; 0 where the
            clean input is misclassified, inf where none was found.
        minimal_size: ``[N]``, the size of the smallest adversarial example found; 0 and inf as above.
        found_class: ``[N]``, the class of that example, -1 where there is none.
        forward: ``[N]``, forward passes spent on the sample.
        backward: ``[N]``, backward passes spent on the sample.
        margins: ``[N, S]``, the lowest softmax margin found within each strength, NaN where not searched.
        fooled: ``[N, S]``, what was judged at that very strength: 1 fooled, 0 survived, -1 not searched.
        seconds: Wall-clock time of the attack.
        monotone: Whether a sample fooled at one strength counts as fooled at all larger ones.
    """

    attack: str
    strengths: Floats
    minimal_strength: Floats
    minimal_size: Floats
    found_class: Integers
    forward: Integers
    backward: Integers
    margins: NDArray[np.float32]
    fooled: NDArray[np.int8]
    seconds: float
    monotone: bool = True

    def __post_init__(self) -> None:
        if self.strengths.ndim != 1 or bool(np.any(np.diff(self.strengths) <= 0)):
            raise UserError(f"The strengths of {self.attack!r} must increase; got {self.strengths.tolist()}.")
        samples, grid = len(self.minimal_strength), len(self.strengths)
        for name in ("minimal_strength", "minimal_size", "found_class", "forward", "backward", "margins", "fooled"):
            expected = (samples, grid) if name in ("margins", "fooled") else (samples,)
            if getattr(self, name).shape != expected:
                raise UserError(
                    f"{name} of {self.attack!r} must have shape {expected}, got {getattr(self, name).shape}."
                )

    def accuracies(self) -> Floats:
        """Robust accuracy in percent at each strength, ``[S]``."""
        if self.monotone:
            robust = self.minimal_strength[:, None] > self.strengths
        else:
            robust = self.fooled == 0
            if bool(np.any(self.fooled[self.minimal_strength > 0] < 0)):
                raise UserError(
                    f"{self.attack!r} judges each strength on its own, but was not run at every strength; "
                    "use search 'every'."
                )
        return np.asarray(100.0 * robust.mean(axis=0), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Result:
    """The outcomes of all attacks of one run on the same N samples.

    Of a run that is not finished, a result holds the attacks that have begun and the samples that all of these have
    finished; ``missing`` says how many samples each attack of the run still lacks.

    Attributes:
        manifest: What was evaluated, and where.
        index: ``[N]``, positions of the samples in the data set.
        labels: ``[N]``.
        clean_prediction: ``[N]``, class predicted for the clean input.
        clean_margin: ``[N]``, softmax margin of the clean input.
        path: The run directory, None for a run in memory.
        missing: Attack to number of samples without an outcome; empty when complete.

    Example:
        >>> result = Result.from_arrays(
        ...     labels=[0, 1, 1], clean_prediction=[0, 1, 0],
        ...     minimal_size={"linf": [0.15, np.inf, 0.0]}, strengths={"linf": [0.1, 0.2]},
        ... )
        >>> result.minimal_strength("linf")
        array([0.2, inf, 0. ])
        >>> result.outcome("linf").accuracies().round(1)
        array([66.7, 33.3])
    """

    manifest: Manifest
    index: Integers
    labels: Integers
    clean_prediction: Integers
    clean_margin: NDArray[np.float32]
    outcomes: Mapping[str, Outcome]
    path: Path | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    _load_adversarial: Callable[[str], AdversarialExamples] | None = field(default=None, repr=False)

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks, in the order of the run."""
        return tuple(self.outcomes)

    @property
    def complete(self) -> bool:
        """Whether every attack of the run has finished every sample."""
        return not self.missing

    def outcome(self, attack: str) -> Outcome:
        """All that is known about one attack."""
        if attack not in self.outcomes:
            raise UserError(f"No outcomes of attack {attack!r} in this run; it has {', '.join(self.outcomes)}.")
        return self.outcomes[attack]

    def strengths(self, attack: str) -> Floats:
        """``[S]``, increasing."""
        return self.outcome(attack).strengths

    def minimal_strength(self, attack: str) -> Floats:
        """``[N]``: smallest of the strengths that fooled; 0 misclassified clean, inf never."""
        return self.outcome(attack).minimal_strength

    def minimal_size(self, attack: str) -> Floats:
        """``[N]``: size of the smallest adversarial example; 0 misclassified clean, inf never."""
        return self.outcome(attack).minimal_size

    def margins(self, attack: str) -> NDArray[np.float32]:
        """``[N, S]``: lowest softmax margin found within each strength, NaN where not searched."""
        return self.outcome(attack).margins

    def passes(self, attack: str) -> tuple[float, float]:
        """Mean forward and mean backward passes per sample."""
        outcome = self.outcome(attack)
        return float(outcome.forward.mean()), float(outcome.backward.mean())

    @property
    def clean_accuracy(self) -> float:
        """In percent."""
        return float(100.0 * np.mean(self.clean_prediction == self.labels))

    def accuracies(self) -> AccuracyTable:
        """Clean and robust accuracies, in percent, for each attack and strength."""
        from robustatlas.metrics.accuracies import AccuracyTable  # metrics depend on outcomes, so not at the top

        cells = {
            attack: dict(zip(outcome.strengths.tolist(), outcome.accuracies().tolist(), strict=True))
            for attack, outcome in self.outcomes.items()
        }
        return AccuracyTable(clean=self.clean_accuracy, cells=cells)

    def curve(self, attack: str) -> RobustnessCurve:
        """The robustness curve: robust error as a function of the perturbation size."""
        from robustatlas.metrics.curves import RobustnessCurve  # metrics depend on outcomes, so not at the top

        unit = self.manifest.settings.attacks[attack].unit if attack in self.manifest.settings.attacks else ""
        return RobustnessCurve(self.minimal_size(attack), attack=attack, unit=unit)

    def adversarial(self, attack: str) -> AdversarialExamples:
        """The smallest adversarial examples: positions in the data set ``[M]`` and float32 inputs ``[M, ...]``."""
        self.outcome(attack)
        if self._load_adversarial is None or not self.manifest.settings.keep_adversarial:
            raise UserError("This run did not keep its adversarial examples; evaluate with keep_adversarial=True.")
        return self._load_adversarial(attack)

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
    ) -> Result:
        """A result from numbers at hand (of another tool, or made up for a test).

        Args:
            labels: ``[N]``.
            clean_prediction: ``[N]``.
            minimal_size: Attack to ``[N]``: 0 misclassified clean, inf never fooled. The minimal strength is the first
                of the strengths that is not smaller.
            strengths: Attack to ``[S]``, increasing.
            clean_margin: ``[N]``; NaN when not given.
            margins: Attack to ``[N, S]``; NaN when not given.
            fooled: Attack to ``[N, S]``; what the minimal sizes say when not given.
            monotone: See :class:`Outcome`.
            model: Name of the model.
            data: Name of the data set.
            index: ``[N]``, positions in the data set; 0, 1, ... when not given.
        """
        classes, predictions = np.asarray(labels, np.int64), np.asarray(clean_prediction, np.int64)
        count = len(classes)
        outcomes = {}
        for attack, sizes in minimal_size.items():
            size, grid = np.asarray(sizes, np.float64), np.asarray(strengths[attack], np.float64)
            strength = np.append(grid, np.inf)[np.searchsorted(grid, size)]
            strength = np.where(size == 0, 0.0, strength)
            judged = (strength[:, None] <= grid).astype(np.int8)
            shape = (count, len(grid))
            outcomes[attack] = Outcome(
                attack=attack,
                strengths=grid,
                minimal_strength=strength,
                minimal_size=size,
                found_class=np.where(size == 0, predictions, -1),
                forward=np.zeros(count, np.int64),
                backward=np.zeros(count, np.int64),
                margins=np.asarray(margins[attack], np.float32) if margins else np.full(shape, np.nan, np.float32),
                fooled=np.asarray(fooled[attack], np.int8) if fooled else judged,
                seconds=0.0,
                monotone=monotone,
            )
        positions = np.arange(count) if index is None else np.asarray(index, np.int64)
        settings = Settings(
            model=ModelSettings(name=model),
            data=DataSettings(name=data),
            samples=SampleSettings(count=count, indices_sha256=sha256_of_array(positions)),
            attacks={
                attack: AttackSettings(strengths=tuple(outcome.strengths.tolist()), monotone=monotone)
                for attack, outcome in outcomes.items()
            },
            search="given",
        )
        return cls(
            manifest=Manifest(settings=settings),
            index=positions,
            labels=classes,
            clean_prediction=predictions,
            clean_margin=np.full(count, np.nan, np.float32)
            if clean_margin is None
            else np.asarray(clean_margin, np.float32),
            outcomes=outcomes,
        )


def check_columns(
    given: Mapping[str, NDArray[Any]],
    expected: Mapping[str, tuple[type[np.generic], int]],
    samples: int,
    strengths: int,
    place: str,
) -> dict[str, NDArray[Any]]:
    """The ``given`` columns in order and type; :class:`UserError` where they are not the ``expected`` ones."""
    if set(given) != set(expected):
        raise UserError(f"{place} must have the columns {', '.join(expected)}; got {', '.join(given)}.")
    columns = {}
    for name, (kind, dimensions) in expected.items():
        shape = (samples, strengths)[:dimensions]
        if given[name].shape != shape:
            raise UserError(f"Column {name} of {place} must have shape {shape}, got {given[name].shape}.")
        if not np.can_cast(given[name].dtype, kind, "same_kind"):
            raise UserError(f"Column {name} of {place} must hold {kind.__name__}, got {given[name].dtype}.")
        columns[name] = given[name].astype(kind, copy=False)
    return columns


def joined(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Shards, one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
