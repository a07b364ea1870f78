"""Robustness curves: the robust error as a function of the perturbation size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_array, real_or_nan
from robustatlas.common.tabular import Grid, Tabular
from robustatlas.common.typed_strengths import (
    axis_label,
    falling_scale_start,
    format_size,
    format_strength,
    range_words,
    value_as_typed,
)
from robustatlas.common.wording import pluralise
from robustatlas.metrics.intervals import check_confidence, proportion_bounds
from robustatlas.outcomes.outcome import Outcome, check_minimal, percent
from robustatlas.outcomes.strengths import read_places, read_sizes, sizes_as_typed

BandKind = Literal["simultaneous", "pointwise"]

_SHOWN = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the samples whose sizes a display shows."""


@dataclass(frozen=True)
class Band:
    """A confidence band of a robustness curve: a step function of the size.

    Attributes:
        sizes: [K] as people type them, in the order of harm, the first without a change; the bounds hold from each size
            up to the next.
        low, high: [K] bounds of the robust error, percent.
        confidence: of the band.
        kind: `simultaneous` (the whole curve lies within, DKW) or `pointwise` (each point does, Clopper-Pearson).
        attack: name of the attack, by which sizes are read.

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
    attack: str = ""

    def at(self, size: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper bound [...] of the robust error at sizes [...], as people type them.

        Raises:
            UserError: a size that no image can be changed by.
        """
        known = read_places(self.sizes, self.attack)
        position = np.searchsorted(known, _places(size, self.attack), side="right") - 1
        return self.low[position], self.high[position]


@dataclass(frozen=True)
class Crossing:
    """A place where one robustness curve goes from above the other to below it.

    The two curves are equal from `start` to before `end` and differ in opposite senses before and after.

    Attributes:
        start: perturbation size, as people type it, at which the curve that had the smaller error loses its lead.
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


@dataclass(frozen=True, eq=False)
class StrengthCounts:
    """Number of samples broken at each strength of an attack that judges each by itself.

    Attributes:
        strengths: [S] as people type them, in the order of harm.
        broken: [S + 1], on clean inputs and at each strength.
    """

    strengths: NDArray[np.float64]
    broken: NDArray[np.int64]


class RobustnessCurve(Tabular):
    """The robust error R(size): percentage of samples with an adversarial example no larger than the size.

    R is the right-continuous empirical distribution function of the minimal sizes; R(0) is the clean error. An attack
    may miss adversarial examples, so its R is a lower bound of the true error. Where an attack judges each strength by
    itself (not nested), R is the error at the last strength that is not larger, and may fall.

    A terminal or a notebook shows the sizes at which a tenth, a quarter, half, three quarters and nine tenths of the
    samples break. ``to_pandas``, ``to_polars`` and ``to_arrow`` give every step: size (as people type it),
    robust_error, low, high. The last three are in percent; low and high are the pointwise band at 95 %.

    Attributes:
        minimal_sizes: [N] size of the smallest adversarial example of each sample, as people type it; 0 where the clean
            input is misclassified, inf where none was found. Where typed strengths fall (a quality of 90, 50, 10),
            these are 100 and -inf, and 0 and inf are read as they are.
        attack: name of the attack, by which sizes are read and written in all methods.
        unit: what the size measures, for labels of axes.
        strength_counts: of an attack that judges each strength by itself; None for the distribution of the minimal
            sizes.
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
        >>> curve = RobustnessCurve([100, 80, 30, -float("inf")], attack="resolution")
        >>> curve.at([100, 80, 50]), float(curve.quantile(0.75))
        (array([25., 50., 50.]), 30.0)
    """

    def __init__(
        self,
        minimal_sizes: ArrayLike,
        attack: str = "",
        unit: str = "",
        strength_counts: StrengthCounts | None = None,
        model: str = "",
    ) -> None:
        self._distances: Final = check_minimal(read_sizes(minimal_sizes, attack), attack or "the curve").copy()
        self.minimal_sizes: Final = sizes_as_typed(self._distances, attack)
        self.minimal_sizes.setflags(write=False)
        self.attack: Final = attack
        self.unit: Final = unit
        self.strength_counts: Final = strength_counts
        self.model: Final = model

    @cached_property
    def distance_curve(self) -> RobustnessCurve:
        """The curve over the distance from the unchanged image, which rises with the harm under every attack.

        It has no attack, so that its methods take and return distances.
        """
        if falling_scale_start(self.attack) is None:
            return self
        counts = self.strength_counts
        if counts is not None:
            counts = replace(counts, strengths=read_places(counts.strengths, self.attack))
        return RobustnessCurve(self._distances, unit=self.unit, strength_counts=counts, model=self.model)

    def _grid(self) -> Grid:
        rising = self.distance_curve
        found = rising.quantile(_SHOWN)
        last = rising.jumps[-1:] if np.isinf(found).any() else ()
        sizes = np.unique([0.0, *found[np.isfinite(found)], *last])
        low, high = rising.band(kind="pointwise").at(sizes)
        rows = [
            (format_size(float(size), attack=self.attack), f"{error:.1f}", f"{below:.1f} to {above:.1f}")
            for size, error, below, above in zip(sizes, rising.at(sizes), low, high, strict=True)
        ]
        median = float(rising.quantile(0.5))
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
        return {"size": band.sizes, "robust_error": self.at(band.sizes), "low": band.low, "high": band.high}

    @classmethod
    def from_outcome(cls, outcome: Outcome, model: str = "") -> RobustnessCurve:
        """Return the curve of what an attack found: at each of its strengths 100 minus the robust accuracy, exactly."""
        attack, unit = outcome.attack, outcome.unit
        if outcome.monotone:
            return cls(sizes_as_typed(outcome.minimal_size, attack), attack, unit, model=model)
        broken = outcome.broken([0.0, *outcome.strengths]).sum(axis=0)
        counts = StrengthCounts(sizes_as_typed(outcome.strengths, attack), broken)
        return cls(sizes_as_typed(outcome.minimal_strength, attack), attack, unit, counts, model)

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return len(self.minimal_sizes)

    @cached_property
    def steps(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sizes [K] in the order of harm, the first without a change, and the number of samples broken [K] from each of
        them up to the next."""
        sizes, counts = self._steps
        return sizes_as_typed(sizes, self.attack), counts

    @cached_property
    def _steps(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        if (counts := self.strength_counts) is not None:
            return np.concatenate([[0.0], read_places(counts.strengths, self.attack)]), counts.broken
        finite = np.sort(self._distances[np.isfinite(self._distances)])
        sizes = np.unique(np.concatenate([[0.0], finite]))
        return sizes, np.searchsorted(finite, sizes, side="right")

    @cached_property
    def jumps(self) -> NDArray[np.float64]:
        """Finite sizes [K] at which the curve changes, in the order of harm; that without a change is among them where
        there are clean errors."""
        sizes, counts = self.steps
        return np.asarray(sizes[np.diff(counts, prepend=0) != 0])

    def at(self, size: ArrayLike) -> NDArray[np.float64]:
        """Return the robust error in percent [...] at sizes [...], as people type them."""
        return percent(self._broken(size), self.samples)

    def robust_accuracy(self, size: ArrayLike) -> NDArray[np.float64]:
        """Return the robust accuracy in percent [...] at sizes [...], as people type them: 100 - R(size).

        It stands on the sizes that were found: at strengths that were not searched it is an upper bound only (see
        :meth:`robustatlas.Result.accuracy_bounds`).
        """
        return percent(self.samples - self._broken(size), self.samples)

    def quantile(self, share: ArrayLike) -> NDArray[np.float64]:
        """Return the least harmful sizes [...] at which the shares [...] in [0, 1] of the samples are broken, as people
        type them; inf where never, -inf where typed strengths fall.

        Raises:
            UserError: a share outside of [0, 1].
        """
        shares = real_array(share, "shares of samples")
        if not ((shares >= 0) & (shares <= 1)).all():
            raise UserError(f"Shares of samples between 0 and 1 are expected; given: {shares.tolist()}.")
        # The tolerance undoes the rounding of shares such as 3 * (1 / 3).
        rank = np.ceil(shares * self.samples - 1e-9)
        sizes, counts = self._steps
        reached = np.searchsorted(np.maximum.accumulate(counts), rank)
        return sizes_as_typed(np.where(rank <= 0, 0.0, np.append(sizes, np.inf)[reached]), self.attack)

    def area(self, up_to: float) -> float:
        """Return the mean robust error in percent over the sizes between no change and `up_to`, as people type it.

        It is the area under the curve, over the width. 100 - area is the mean of min(minimal size, up_to) / up_to: how
        far the samples stay robust on average.

        Raises:
            UserError: `up_to` changes nothing, or is not finite.
        """
        end = read_end(up_to, self.attack, "up_to")
        sizes, counts = self._steps
        widths = np.diff(np.minimum(np.append(sizes, np.inf), end))
        return float(percent(counts @ widths, self.samples) / end)

    def band(self, confidence: float = 0.95, kind: BandKind = "simultaneous") -> Band:
        """Return a confidence band of the curve, for samples drawn independently.

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
        sizes, broken = self._steps
        if kind == "simultaneous":
            error = percent(broken, self.samples)
            half_width = dkw_half_width(self.samples, confidence)
            low, high = np.maximum(error - half_width, 0), np.minimum(error + half_width, 100)
        elif kind == "pointwise":
            low, high = proportion_bounds(broken, self.samples, confidence)
        else:
            raise UserError(f"There is no band {kind!r}; the kinds are {', '.join(get_args(BandKind))}.")
        return Band(sizes_as_typed(sizes, self.attack), low, high, confidence, kind, self.attack)

    def crossings(self, other: RobustnessCurve, confidence: float = 0.95, tolerance: float = 1e-9) -> list[Crossing]:
        """Return where the curves cross: one model is more robust under less harm, the other under more.

        A crossing is significant where the simultaneous bands of the two curves are apart somewhere before it and
        somewhere after it. Each band has the confidence 1 - (1 - confidence) / 2, so that both hold together.

        Args:
            other: a curve of the same attack.
            confidence: for `Crossing.significant`.
            tolerance: sizes that differ by no more, relative to the larger one, are the same size.

        Returns:
            the crossings, in the order of harm. Curves that merely touch do not cross.

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
        ours, theirs = self.distance_curve, other.distance_curve
        sizes = _distinct_sizes(np.concatenate([ours.jumps, theirs.jumps]), tolerance)
        reach = sizes * (1 + tolerance)
        gap = ours.at(reach) - theirs.at(reach)
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
                start=value_as_typed(self.attack, float(sizes[leads[turn] + 1])),
                end=value_as_typed(self.attack, float(sizes[leads[turn + 1]])),
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
        sizes, counts = self._steps
        return np.asarray(counts[np.searchsorted(sizes, _places(size, self.attack), side="right") - 1])


def dkw_half_width(samples: int, confidence: float) -> float:
    """Return the half-width, in percent, of the simultaneous band of an empirical distribution function of N samples.

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
    if any(curve.strength_counts is not None for curve in curves):
        raise UserError("An envelope is taken over sizes; one of the curves is judged at each strength by itself.")
    attack = curves[0].attack
    sizes = np.minimum.reduce([curve.distance_curve.minimal_sizes for curve in curves])
    return RobustnessCurve(sizes_as_typed(sizes, attack), attack=attack, unit=curves[0].unit)


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
    curve, best = curve.distance_curve, best.distance_curve
    up_to = float(best.jumps[-1]) if best.jumps.size else 0.0
    if up_to == 0:
        return 1.0
    clean_error = float(best.at(0.0))
    lost = best.area(up_to) - clean_error
    if lost <= 0:  # the envelope breaks all at one size, where the areas begin
        return (float(curve.at(up_to)) - clean_error) / (float(best.at(up_to)) - clean_error)
    return (curve.area(up_to) - clean_error) / lost


def read_end(given: float, attack: str, name: str) -> float:
    """Return the distance of the size, as people type it, at which something about a curve ends.

    Raises :class:`UserError` where it changes nothing or is not finite; `name` is that of the argument.
    """
    end, top = float(read_places(real_or_nan(given), attack)), falling_scale_start(attack)
    if not 0 < end < np.inf:
        expected = "a positive finite size" if top is None else f"a size of {attack} below {top:g}"
        raise UserError(f"{name} is {shorten(given)}; {expected} is expected.")
    return end


def _places(given: ArrayLike, attack: str) -> NDArray[np.float64]:
    """Return the distances of sizes that people type."""
    places, top = read_places(given, attack), falling_scale_start(attack)
    if not (places >= 0).all():
        limit = "sizes >= 0; a smaller one" if top is None else f"sizes of at most {top:g}; a larger one"
        raise UserError(f"Robustness curves are defined at {limit} or NaN is given.")
    return places


def _distinct_sizes(sizes: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Return distinct sizes, increasing; of those that agree up to the tolerance the largest stands for all."""
    distinct = np.unique(sizes)
    last_of_its_kind = np.append(np.diff(distinct) > tolerance * distinct[1:], True)[: distinct.size]
    return np.asarray(distinct[last_of_its_kind], dtype=np.float64)


_POINTS = 100
"""Number of sizes at which the curve is sampled; they are the candidates for the change."""
_MIN_POINTS = 5
"""Smallest number of these sizes for each of the two lines."""


@dataclass(frozen=True)
class SlopeChange:
    """Meeting point of the best two lines through a robustness curve.

    Attributes:
        size: where they meet, as people type it.
        low, high: interval of it, over samples drawn; `low` is the less harmful end.
        before, after: robust error in percent for a unit of size, under less harm and under more.
        significant: whether the interval of ``after - before`` excludes 0.

    Example:
        >>> SlopeChange(0.1, 0.09, 0.11, before=200.0, after=900.0, significant=True).after
        900.0
    """

    size: float
    low: float
    high: float
    before: float
    after: float
    significant: bool


def change_of_slope(
    curve: RobustnessCurve, up_to: float, confidence: float = 0.95, replicates: int = 200, seed: int = 0
) -> SlopeChange:
    """Return where a robustness curve changes its slope most, between no change and ``up_to``.

    The continuous function of two straight pieces that is nearest to the curve in least squares, its intervals by
    drawing samples anew. Curves of networks that were trained against one strength rise faster beyond it.

    Args:
        curve: of minimal sizes.
        up_to: most harmful size that is looked at, as people type it.
        confidence: of the intervals, in (0, 1).
        replicates: number of resamples.
        seed: of the draws.

    Returns:
        the change.

    Raises:
        UserError: ``up_to`` changes nothing or is not finite, the curve does not rise before it, or the threat model is
            not nested.

    Source: Risse et al. 2021, Figure 3 shows such changes; the fit is ours.

    Example:
        >>> sizes = np.concatenate([np.linspace(0.0, 0.5, 50), np.linspace(0.5, 0.6, 50)])
        >>> found = change_of_slope(RobustnessCurve(sizes), up_to=0.6)
        >>> round(found.size, 2), found.significant, found.after > 5 * found.before
        (0.5, True, True)
    """
    if curve.strength_counts is not None:
        raise UserError("The curve is judged at each strength by itself, so it has no slope; give a nested attack's.")
    check_confidence(confidence)
    end = read_end(up_to, curve.attack, "up_to")
    if replicates < 2:
        raise UserError(f"The number of replicates is {shorten(replicates)}; at least 2 are expected, 200 are usual.")
    grid = np.linspace(0, end, _POINTS)
    candidates = grid[_MIN_POINTS:-_MIN_POINTS]
    bases = np.stack([np.stack([np.ones_like(grid), grid, np.maximum(grid - knot, 0)], 1) for knot in candidates])
    inverses = np.linalg.pinv(bases)
    wrong = np.float32(100) * (curve.distance_curve.minimal_sizes[:, None] <= grid)
    knot, before, bend = _fit_knots(wrong.mean(0, np.float64, keepdims=True), bases, inverses, candidates)
    if not before[0] + bend[0] and not before[0]:
        raise UserError(
            f"The curve does not rise {range_words(curve.attack)} {format_strength(end, attack=curve.attack)}; look "
            "farther."
        )
    generator, samples = np.random.default_rng(seed), len(wrong)
    drawn = (generator.integers(samples, size=samples) for _ in range(replicates))
    errors = np.stack([wrong[positions].mean(0, np.float64) for positions in drawn])
    knots, _, bends = _fit_knots(errors, bases, inverses, candidates)
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    low, high = (float(value) for value in np.percentile(knots, tails))
    least, most = np.percentile(bends, tails)
    return SlopeChange(
        size=value_as_typed(curve.attack, float(knot[0])),
        low=value_as_typed(curve.attack, low),
        high=value_as_typed(curve.attack, high),
        before=float(before[0]),
        after=float(before[0] + bend[0]),
        significant=bool(least > 0 or most < 0),
    )


def _fit_knots(
    errors: NDArray[np.float64],
    bases: NDArray[np.float64],
    inverses: NDArray[np.float64],
    candidates: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return for each row of errors [R, G] the best knot, the slope before it, and by how much it rises there."""
    weights = np.einsum("kpg,rg->rkp", inverses, errors)
    left = ((np.einsum("kgp,rkp->rkg", bases, weights) - errors[:, None]) ** 2).sum(2)
    best = left.argmin(1)
    rows = np.arange(len(errors))
    return candidates[best], weights[rows, best, 1], weights[rows, best, 2]
