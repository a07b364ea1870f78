"""Both sides of a robustness curve: attacked from above, certified from below."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength, range_words, text_as_typed
from robustatlas.metrics.curves import Band, BandKind, RobustnessCurve, read_end

CLOSED = 1.01
"""Upper over lower side of a sample below which it is closed."""


@dataclass(frozen=True)
class TwoSidedAccuracy:
    """The robust accuracy at one size, between two numbers in percent.

    Attributes:
        size: of the perturbations, as people type it.
        least: the certified accuracy.
        most: the accuracy that attacks left.
        attack: name of the attack.

    Example:
        >>> print(TwoSidedAccuracy(2 / 255, least=41.2, most=43.0, attack="linf"))
        at least 41.2 %, at most 43.0 % robust at 2/255
    """

    size: float
    least: float
    most: float
    attack: str = ""

    def __str__(self) -> str:
        at = text_as_typed(self.size)
        return f"at least {self.least:.1f} %, at most {self.most:.1f} % robust at {at}"


@dataclass(frozen=True, eq=False)
class TwoSided:
    """Both sides of a robustness curve: certified and empirical.

    Attributes:
        certified: the curve of the certified sizes, an upper bound of the robust error.
        empirical: the curve of the sizes that attacks found, a lower bound of it.
        largest: most harmful strength at which the attack was run, as people type it; beyond it nothing was looked for.

    Raises:
        UserError: the curves are of different numbers of samples, or cross.

    Example:
        >>> both = TwoSided(RobustnessCurve([0.1, 0.0995]), RobustnessCurve([0.3, 0.1]), largest=0.5)
        >>> both.share_closed, round(both.area, 1)
        (50.0, 20.0)
    """

    certified: RobustnessCurve
    empirical: RobustnessCurve
    largest: float

    def __post_init__(self) -> None:
        if self.certified.samples != self.empirical.samples:
            raise UserError(
                f"The sides are of {self.certified.samples} and {self.empirical.samples} samples; give the same to "
                "both."
            )
        lower, upper = self._distances
        if (crossed := np.flatnonzero(lower > upper)).size:
            row, attack = int(crossed[0]), self.empirical.attack
            example, least = (format_strength(float(side[row]), 6, attack=attack) for side in (upper, lower))
            raise UserError(
                f"Sample {row} has an example of size {example} and is certified {range_words(attack)} {least}: one of "
                "the two is wrong; please report it."
            )

    @property
    def lower(self) -> NDArray[np.float64]:
        """Certified sizes ``[N]``, as people type them."""
        return self.certified.minimal_sizes

    @property
    def upper(self) -> NDArray[np.float64]:
        """Sizes found ``[N]``, as people type them."""
        return self.empirical.minimal_sizes

    @property
    def _distances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.certified.distance_curve.minimal_sizes, self.empirical.distance_curve.minimal_sizes

    @property
    def _end(self) -> float:
        return read_end(self.largest, self.empirical.attack, "largest")

    @cached_property
    def closed(self) -> NDArray[np.bool_]:
        """Mask ``[N]`` of samples whose sides meet: upper / lower < 1.01.

        They also meet if the clean input is misclassified, or if nothing can exist up to the largest strength and
        nothing was found.
        """
        (lower, upper), end = self._distances, self._end
        with np.errstate(invalid="ignore"):
            met = (upper == 0) | ((lower > 0) & (upper < CLOSED * lower))
        return np.asarray(met | ((upper > end) & (lower * CLOSED > end)))

    @property
    def share_closed(self) -> float:
        """Share of the samples that are closed, in percent."""
        return 100.0 * float(self.closed.mean())

    @property
    def area(self) -> float:
        """The area between both curves up to the largest strength, in percent of the whole: what remains in doubt."""
        return self.certified.area(self.largest) - self.empirical.area(self.largest)

    @property
    def width(self) -> float:
        """The median of upper / lower over samples that are neither misclassified clean nor without a certified size;
        NaN where there is none. A side beyond the largest strength counts as that."""
        lower, upper = self._distances
        known = (upper > 0) & (lower > 0)
        if not known.any():
            return float("nan")
        upper, lower = (np.minimum(side[known], self._end) for side in (upper, lower))
        return float(np.median(upper / lower))

    def at(self, size: float) -> TwoSidedAccuracy:
        """Return the robust accuracy at a size, from both sides.

        Args:
            size: as people type it.

        Returns:
            both numbers, which print as a sentence.
        """
        return TwoSidedAccuracy(
            size, 100 - float(self.certified.at(size)), 100 - float(self.empirical.at(size)), self.empirical.attack
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw both sides, and the doubt between them shaded: :func:`robustatlas.metrics.figures.plot_two_sided`."""
        from robustatlas.metrics.figures import plot_two_sided  # here, as matplotlib takes a second

        return plot_two_sided(self, ax, **options)

    def bands(self, confidence: float = 0.95, kind: BandKind = "simultaneous") -> tuple[Band, Band]:
        """Return confidence bands of the certified and of the empirical curve.

        Args:
            confidence: of each.
            kind: as of :meth:`RobustnessCurve.band`.

        Returns:
            both; the true curve of the whole population lies between the lower edge of the second and the upper edge of
            the first.
        """
        return self.certified.band(confidence, kind), self.empirical.band(confidence, kind)
