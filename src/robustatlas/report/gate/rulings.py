"""Whether a requirement is kept, not kept, or open, and how many samples would decide an open one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.report.facts.numbers import CONFIDENCE
from robustatlas.report.gate.requirements import Requirement

State = Literal["pass", "fail", "open"]
MOST = 10_000_000
"""Samples beyond which nobody wants to know how many would decide."""


@dataclass(frozen=True)
class Ruling:
    """A requirement on the number that a run has for it.

    Attributes:
        state: ``"pass"`` where the whole interval keeps the bound, ``"fail"`` where none of it does, else ``"open"``.
        samples: that would decide an open one, if what was found stays; None: of no other, or more than ten million.
    """

    requirement: Requirement
    number: Interval
    state: State
    samples: int | None = None


def ruling_on(requirement: Requirement, number: Interval, samples: int) -> Ruling:
    """What is to say of a requirement on a ``number`` of so many ``samples``.

    Example:
        >>> asked, found = Requirement.parse("rotation@10>=80"), Interval(85.0, 76.5, 91.4, 0.95)
        >>> ruling = ruling_on(asked, found, samples=100)
        >>> ruling.state, ruling.samples
        ('open', 254)
    """
    if requirement.met_by(number):
        return Ruling(requirement, number, "pass")
    if requirement.broken_by(number):
        return Ruling(requirement, number, "fail")
    return Ruling(requirement, number, "open", _deciding(requirement, number, samples))


def _deciding(requirement: Requirement, number: Interval, samples: int) -> int | None:
    """The smallest number of samples with which the interval would lie on one side of the bound."""
    least, most = samples, samples
    while not _decided(requirement, number, samples, most):
        least, most = most, 2 * most
        if most > MOST:
            return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if _decided(requirement, number, samples, middle) else (middle, most)
    return most


def _decided(requirement: Requirement, number: Interval, samples: int, count: int) -> bool:
    """Whether ``count`` samples would do: a share of samples has its exact interval, of others it shrinks with the root
    of their number."""
    if requirement.counts_samples:
        low, high = proportion_bounds(number.value / 100 * count, count, CONFIDENCE)
    else:
        shrunk = (samples / count) ** 0.5
        low, high = (number.value + shrunk * (end - number.value) for end in (number.low, number.high))
    found = Interval(number.value, float(low), float(high), number.confidence)
    return requirement.met_by(found) or requirement.broken_by(found)
