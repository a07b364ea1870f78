"""Texts of numbers for people: the value with its interval and its status, in one form everywhere."""

import math

from robustatlas.common.wording import size, strength, wording
from robustatlas.metrics.intervals import Interval
from robustatlas.report.numbers.number import Number, Status


def number_text(number: Interval, digits: int = 1, unit: str = "", sign: bool = False) -> str:
    """Return a number with its interval, and its status if that is not the usual one.

    >>> number_text(Interval(58.2, 54.1, 62.1, 0.95)), number_text(Interval(61.25, 58.0, 64.4, 0.95), unit="%")
    ('58.2 (54.1 to 62.1)', '61.2% (58.0 to 64.4)')
    >>> blind = Number(61.2, 58.0, 64.4, 0.95, "robust accuracy", "net", {"linf": (0.1,)}, 600, Status.UPPER_BOUND)
    >>> number_text(blind, unit="%")
    '61.2% (58.0 to 64.4; upper bound only)'
    """
    said = "; ".join(filter(None, [range_text(number, digits, sign), status_text(number)]))
    return value_text(number, digits, unit, sign) + (f" ({said})" if said else "")


def value_text(number: Interval, digits: int = 1, unit: str = "", sign: bool = False) -> str:
    """Return the value of a number without its interval.

    >>> value_text(Interval(2.0, 1.0, 3.0, 0.95), sign=True)
    '+2.0'
    """
    return f"{_rounded(number.value, digits, sign)}{unit}"


def range_text(number: Interval, digits: int = 1, sign: bool = False) -> str:
    """Return the interval of a number without its value; empty for a number that has none.

    >>> range_text(Interval(58.2, 54.1, 62.1, 0.95))
    '54.1 to 62.1'
    """
    if math.isnan(number.low):
        return ""
    return f"{_rounded(number.low, digits, sign)} to {_rounded(number.high, digits, sign)}"


def status_text(number: Interval) -> str:
    """Return the word for the status of a number; empty for the usual status, and for an interval without one."""
    return number.status.value if isinstance(number, Number) and number.status is not Status.OK else ""


def _rounded(value: float, digits: int, sign: bool) -> str:
    return f"{value:{'+' if sign else ''}z.{digits}f}"


def size_text(attack: str, value: float) -> str:
    """Return a size of an attack: with three digits, and as a part of 255 only if it is exactly one.

    >>> size_text("linf", 6 / 255), size_text("linf", 0.0806), size_text("l2", math.inf)
    ('L∞ 6/255', 'L∞ 0.0806', 'L2 never')
    """
    written = size(value, of=attack) if math.isinf(value) else strength(value, 3, of=attack)
    return f"{wording(attack).label} {written}"
