"""Robustness curves: the robust error as a function of the perturbation size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_array, real_or_nan
from robustatlas.common.tabular import Grid, Tabular
from robustatlas.common.typed_strengths import axis_label, format_size, value_as_typed
from robustatlas.common.wording import pluralise
from robustatlas.metrics.intervals import check_confidence, proportion_bounds
from robustatlas.outcomes.outcome import Outcome, check_minimal, percent

BandKind = Literal["simultaneous", "pointwise"]

_SHOWN = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the samples whose sizes a display shows."""


@dataclass(frozen=True)
class Band:
    """A confidence band of a robustness curve: a step function on [0, inf).

    Attributes:
        sizes: [K] increasing, the first is 0; the bounds hold from each size up to the next.
        low, high: [K] bounds of the robust error, percent.
        confidence: of the band.
        kind: `simultaneous` (the whole curve lies within, DKW) or `pointwise` (each point does, Clopper-Pearson).

    Example:
        >>> low, high = RobustnessCurve([0.1] * 30).band(0.95).at(0.2)
        >>> bool(low < 100 <= high)
        True
    """

    sizes: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    kind: BandKind

    def at(self, size: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bound [...] of the robust error at sizes [...] >= 0.

        Raises:
            UserError: a size that is negative or NaN.
        """
        position = np.searchsorted(self.sizes, _sizes(size), side="right") - 1
        return self.low[position], self.high[position]


@dataclass(frozen=True)
class Crossing:
    """A place where one robustness curve goes from above the other to below it.

    The two curves are equal on [`start`, `end`) and differ in opposite senses before and after.

    Attributes:
        start: perturbation size at which the curve that had the smaller error loses its lead.
        end: size from which the other curve has the smaller error; equal to `start` where they jump past each other.
        better_before: 0 or 1, the curve with the smaller robust error before; 0 is the one `crossings` was called on.
        better_after: the other one.
        gap_before: largest difference of the robust errors (percentage points) since the crossing before this one.
        gap_after: largest difference up to the crossing after this one.
        significant: whether both gaps are larger than chance explains at the confidence that was asked for.

    Example:
        >>> weak_far, weak_near = RobustnessCurve([0.1] * 40 + [0.5] * 40), RobustnessCurve([0.2] * 40 + [0.3] * 40)
        >>> [type(found).__name__ for found in weak_far.crossings(weak_near)]
        ['Crossing']
    """

    start: float
    end: float
    better_before: int
    better_after: int
    gap_before: float
    gap_after: float
    significant: bool


@dataclass(frozen=True, eq=False, repr=False)
class RobustnessCurve(Tabular):
    """The robust error R(size): percentage of samples with an adversarial example no larger than the size.

    R is the right-continuous empirical distribution function of the minimal sizes; R(0) is the clean error. An attack
    may miss adversarial examples, so its R is a lower bound of the true error. Where an attack judges each strength by
    itself (not nested), R is the error at the last strength that is not larger, and may fall.

    A terminal or a notebook shows the sizes at which a tenth, a quarter, half, three quarters and nine tenths of the
    samples break. ``to_pandas``, ``to_polars`` and ``to_arrow`` give every step: size (as people type it),
    robust_error, low, high. The last three are in percent; low and high are the pointwise band at 95 %.

    Attributes:
        minimal_sizes: [N] size of the smallest adversarial example of each sample; 0 where the clean input is
            misclassified, inf where none was found.
        attack: name of the attack.
        unit: what the size measures, for labels of axes.
        judged: of an attack that judges each strength by itself: its strengths [S], and the number of samples broken
            on clean inputs and at each of them [S + 1]; None for the distribution of the minimal sizes.
        model: fingerprint or name that chooses colour and dash in figures; empty if unknown.

    Raises:
        UserError: there is no sample, or a size is negative or NaN.

    Source: Göpfert et al. 2020, "Adversarial Robustness Curves", definition 1; Risse et al. 2021.

    Example:
        >>> curve = RobustnessCurve([0.0, 0.1, 0.3, float("inf")])
        >>> curve.at([0.0, 0.1, 0.2])
        array([25., 50., 50.])
        >>> float(curve.quantile(0.5)), round(curve.area(0.4), 1)
        (0.1, 50.0)
    """

    minimal_sizes: NDArray[np.float64]
    attack: str = ""
    unit: str = ""
    judged: tuple[NDArray[np.float64], NDArray[np.int64]] | None = None
    model: str = ""

    def __post_init__(self) -> None:
        sizes = check_minimal(self.minimal_sizes, self.attack or "the curve").copy()
        sizes.setflags(write=False)
        object.__setattr__(self, "minimal_sizes", sizes)

    def _grid(self) -> Grid:
        found = self.quantile(_SHOWN)
        last = self.jumps[-1:] if np.isinf(found).any() else ()
        sizes = np.unique([0.0, *found[np.isfinite(found)], *last])
        low, high = self.band(kind="pointwise").at(sizes)
        rows = [
            (format_size(float(size), attack=self.attack), f"{error:.1f}", f"{below:.1f} to {above:.1f}")
            for size, error, below, above in zip(sizes, self.at(sizes), low, high, strict=True)
        ]
        median = float(self.quantile(0.5))
        half = "half never break" if np.isinf(median) else f"half break at {format_size(median, attack=self.attack)}"
        about = f"{self.attack or 'Robustness curve'} on {pluralise(self.samples, 'sample')}: {half}"
        return Grid(
            about,
            (axis_label(self.unit or "size", attack=self.attack), "robust error, %", "95 % interval"),
            rows,
            numbers=(0, 1, 2),
        )

    def _columns(self) -> dict[str, NDArray[Any]]:
        band = self.band(kind="pointwise")
        sizes = np.array([value_as_typed(self.attack, size) for size in band.sizes.tolist()])
        return {"size": sizes, "robust_error": self.at(band.sizes), "low": band.low, "high": band.high}

    @classmethod
    def from_outcome(cls, outcome: Outcome) -> RobustnessCurve:
        """Return the curve of an attack; at each of its strengths it is exactly 100 minus the robust accuracy."""
        if outcome.monotone:
            return cls(outcome.minimal_size, outcome.attack, outcome.unit)
        counts = outcome.broken([0.0, *outcome.strengths]).sum(axis=0)
        return cls(outcome.minimal_strength, outcome.attack, outcome.unit, (outcome.strengths, counts))

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.minimal_sizes)

    @cached_property
    def steps(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sizes [K], increasing from 0, and the number of samples broken [K] from each of them up to the next."""
        if self.judged is not None:
            return np.concatenate([[0.0], self.judged[0]]), self.judged[1]
        finite = np.sort(self.minimal_sizes[np.isfinite(self.minimal_sizes)])
        sizes = np.unique(np.concatenate([[0.0], finite]))
        return sizes, np.searchsorted(finite, sizes, side="right")

    @cached_property
    def jumps(self) -> NDArray[np.float64]:
        """The finite sizes [K] at which the curve changes, increasing; 0 among them where there are clean errors."""
        sizes, counts = self.steps
        return np.asarray(sizes[np.diff(counts, prepend=0) != 0])

    def at(self, size: ArrayLike) -> NDArray[np.float64]:
        """Return robust error at sizes [...] >= 0, in percent [...]."""
        return percent(self._broken(size), self.samples)

    def robust_accuracy(self, size: ArrayLike) -> NDArray[np.float64]:
        """Return robust accuracy at sizes [...] >= 0, in percent [...]: 100 - R(size).

        It stands on the sizes that were found: at strengths that were not searched it is an upper bound only (see
        :meth:`robustatlas.Result.accuracy_bounds`).
        """
        return percent(self.samples - self._broken(size), self.samples)

    def quantile(self, share: ArrayLike) -> NDArray[np.float64]:
        """Return smallest sizes [...] at which the shares [...] in [0, 1] of the samples are broken; inf where never.

        Raises:
            UserError: a share outside of [0, 1].
        """
        shares = real_array(share, "shares of samples")
        if not ((shares >= 0) & (shares <= 1)).all():
            raise UserError(f"Shares of samples between 0 and 1 are expected; given: {shares.tolist()}.")
        # The tolerance undoes the rounding of shares such as 3 * (1 / 3).
        rank = np.ceil(shares * self.samples - 1e-9)
        sizes, counts = self.steps
        reached = np.searchsorted(np.maximum.accumulate(counts), rank)
        return np.where(rank <= 0, 0.0, np.append(sizes, np.inf)[reached])

    def area(self, up_to: float) -> float:
        """Return mean robust error over sizes between 0 and `up_to`, in percent: the area under the curve, over
        `up_to`.

        100 - area is the mean of min(minimal size, up_to) / up_to: how far the samples stay robust on average.

        Raises:
            UserError: `up_to` is not a positive finite size.
        """
        if not 0 < real_or_nan(up_to) < np.inf:
            raise UserError(f"The area is taken up to a positive finite size; given: {shorten(up_to)}.")
        sizes, counts = self.steps
        widths = np.diff(np.minimum(np.append(sizes, np.inf), up_to))
        return float(percent(counts @ widths, self.samples) / up_to)

    def band(self, confidence: float = 0.95, kind: BandKind = "simultaneous") -> Band:
        """Return confidence band of the curve, for samples drawn independently.

        `simultaneous`: the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant; with at least the asked
        confidence the whole true curve lies within. `pointwise`: Clopper-Pearson; so does each point on its own.

        Raises:
            UserError: a confidence outside of (0, 1), or a band that there is not.

        Example:
            >>> band = RobustnessCurve([0.0, 0.1, 0.3, float("inf")]).band()
            >>> [round(float(bound), 3) for bound in band.at(0.2)]
            [0.0, 100.0]
        """
        check_confidence(confidence)
        sizes = self.steps[0]
        if kind == "simultaneous":
            error = self.at(sizes)
            half_width = dkw_half_width(self.samples, confidence)
            low, high = np.maximum(error - half_width, 0), np.minimum(error + half_width, 100)
        elif kind == "pointwise":
            low, high = proportion_bounds(self._broken(sizes), self.samples, confidence)
        else:
            raise UserError(f"There is no band {kind!r}; the kinds are {', '.join(get_args(BandKind))}.")
        return Band(sizes, low, high, confidence, kind)

    def crossings(self, other: RobustnessCurve, confidence: float = 0.95, tolerance: float = 1e-9) -> list[Crossing]:
        """Return the crossings of the curves: one model is more robust at smaller sizes, the other at larger ones.

        A crossing is significant where the simultaneous bands of the two curves are apart somewhere before it and
        somewhere after it. Each band has the confidence 1 - (1 - confidence) / 2, so that both hold together.

        Args:
            other: a curve of the same attack.
            confidence: for `Crossing.significant`.
            tolerance: sizes that differ by no more, relative to the larger one, are the same size.

        Returns:
            the crossings, by increasing size. Curves that merely touch do not cross.

        Raises:
            UserError: a confidence outside of (0, 1), or a tolerance outside of [0, 1).

        Example:
            >>> a, b = RobustnessCurve([1.0, 3.0]), RobustnessCurve([1.5, 2.0])
            >>> [(c.start, c.end, c.better_before, c.better_after) for c in a.crossings(b)]
            [(1.5, 2.0, 1, 0)]
        """
        check_confidence(confidence)
        if not 0 <= real_or_nan(tolerance) < 1:
            raise UserError(
                f"The tolerance is {shorten(tolerance)}; a relative difference of sizes in [0, 1) is expected."
            )
        if not isinstance(other, RobustnessCurve):
            raise UserError(f"Curves cross other curves; given: {shorten(repr(other))}.")
        sizes = _merged(np.concatenate([self.jumps, other.jumps]), tolerance)
        reach = sizes * (1 + tolerance)
        gap = self.at(reach) - other.at(reach)
        leads = np.flatnonzero(gap != 0)
        if leads.size == 0:
            return []
        sign = np.sign(gap[leads])
        turns = np.flatnonzero(sign[1:] != sign[:-1])
        runs = np.split(np.abs(gap[leads]), turns + 1)
        both = 1 - (1 - confidence) / 2
        chance = dkw_half_width(self.samples, both) + dkw_half_width(other.samples, both)
        return [
            Crossing(
                start=float(sizes[leads[turn] + 1]),
                end=float(sizes[leads[turn + 1]]),
                better_before=int(sign[turn] > 0),
                better_after=int(sign[turn] < 0),
                gap_before=float(before.max()),
                gap_after=float(after.max()),
                significant=bool(before.max() > chance and after.max() > chance),
            )
            for turn, before, after in zip(turns, runs[:-1], runs[1:], strict=True)
        ]

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the curve with its band; see `robustatlas.plot_curves`."""
        from robustatlas.metrics.figures import plot_curves  # here, as matplotlib takes a second

        return plot_curves([self], ax=ax, **options)

    def _broken(self, size: ArrayLike) -> NDArray[np.int64]:
        sizes, counts = self.steps
        return np.asarray(counts[np.searchsorted(sizes, _sizes(size), side="right") - 1])


def dkw_half_width(samples: int, confidence: float) -> float:
    """Return half-width, in percent, of the simultaneous band of an empirical distribution function of N samples.

    Source: Massart 1990, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality".

    Example:
        >>> round(dkw_half_width(1000, 0.95), 4)
        4.2947
    """
    return float(100 * np.sqrt(np.log(2 / (1 - confidence)) / (2 * samples)))


def envelope(curves: Sequence[RobustnessCurve]) -> RobustnessCurve:
    """Return the curve of the per-sample strongest of several attacks of one threat model, on the same samples.

    Args:
        curves: of several attacks, on the same samples in the same order.

    Returns:
        the curve of the smallest size of each sample.

    Raises:
        UserError: no curve, curves of other numbers of samples, or of threat models that are not nested.

    Example:
        >>> a, b = RobustnessCurve([0.1, 0.4]), RobustnessCurve([0.2, 0.3])
        >>> envelope([a, b]).minimal_sizes
        array([0.1, 0.3])
    """
    if not curves:
        raise UserError("An envelope is taken over at least one curve; none is given.")
    if len({curve.samples for curve in curves}) > 1:
        counts = ", ".join(str(curve.samples) for curve in curves)
        raise UserError(f"An envelope is taken over curves of the same samples; these have {counts} samples.")
    if any(curve.judged is not None for curve in curves):
        raise UserError("An envelope is taken over sizes; one of the curves is judged at each strength by itself.")
    sizes = np.minimum.reduce([curve.minimal_sizes for curve in curves])
    return RobustnessCurve(sizes, attack=curves[0].attack, unit=curves[0].unit)


def local_optimality(curve: RobustnessCurve, best: RobustnessCurve) -> float:
    """Return how close an attack is to the envelope of all attacks, in [0, 1]; 1 means as strong.

    xi = (A_none - A_attack) / (A_none - A_best). A is the area under the robust accuracy, up to the size at which the
    envelope has broken every sample that it breaks. A_none is that of an attack that finds nothing.

    Args:
        curve: of the attack.
        best: the envelope of several attacks (see `envelope`) on the same samples.

    Returns:
        xi, in [0, 1].

    Raises:
        UserError: the curves have other numbers of samples.

    Source: Cinà et al. 2025, "AttackBench: Evaluating Gradient-based Attacks for Adversarial Examples", section 3.

    Example:
        >>> weak = RobustnessCurve([0.2, 0.4])
        >>> round(local_optimality(weak, RobustnessCurve([0.1, 0.4])), 3), local_optimality(weak, weak)
        (0.667, 1.0)
    """
    if curve.samples != best.samples:
        raise UserError(
            f"The attack's curve has {curve.samples} samples and the envelope {best.samples}; give the same samples."
        )
    up_to = float(best.jumps[-1]) if best.jumps.size else 0.0
    if up_to == 0:
        return 1.0
    clean_error = float(best.at(0.0))
    lost = best.area(up_to) - clean_error
    if lost <= 0:  # the envelope breaks all at one size, where the areas begin
        return (float(curve.at(up_to)) - clean_error) / (float(best.at(up_to)) - clean_error)
    return (curve.area(up_to) - clean_error) / lost


def _sizes(given: ArrayLike) -> NDArray[np.float64]:
    sizes = real_array(given, "sizes")
    if not (sizes >= 0).all():
        raise UserError("Robustness curves are defined at sizes >= 0; a smaller one or NaN is given.")
    return sizes


def _merged(sizes: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Return distinct sizes, increasing; of those that agree up to the tolerance the largest stands for all."""
    distinct = np.unique(sizes)
    last_of_its_kind = np.append(np.diff(distinct) > tolerance * distinct[1:], True)[: distinct.size]
    return np.asarray(distinct[last_of_its_kind], dtype=np.float64)
