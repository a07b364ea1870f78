"""Step curves of the robust error: what the overview and the details of a page draw, from the stored sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.figures.curves import step_sizes
from robustatlas.report.numbers.definitions import CONFIDENCE

MOST_STEPS = 200
"""Changes of a curve that a page draws; a longer curve keeps this many of them, and every strength of the run."""

REACH = 1.03
"""End of an axis of strengths, as a multiple of the largest strength: the step at the last strength can be seen."""


@dataclass(frozen=True)
class StepCurve:
    """Robust error in percent; each value holds from its size up to the next one.

    Attributes:
        sizes: [K] increasing, from 0 to the last strength.
        error: [K] at each size.
        low, high: [K] ends of the interval of each point by itself, as tables give them.
    """

    sizes: NDArray[np.float64]
    error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def from_curve(cls, curve: RobustnessCurve, strengths: NDArray[np.float64], end: float) -> StepCurve:
        """Return the steps of a curve up to the strength `end`, all its `strengths` among them."""
        sizes = step_sizes(curve, end, kept=strengths, most=MOST_STEPS)
        low, high = curve.band(CONFIDENCE, kind="pointwise").at(sizes)
        return cls(sizes, curve.at(sizes), low, high)

    def error_at(self, size: float) -> float:
        """Return the error that is drawn at a size."""
        return float(self.error[np.searchsorted(self.sizes, size, side="right") - 1])
