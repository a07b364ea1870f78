"""Numbers as plain data for JSON."""

import math

from robustatlas.metrics.intervals import Interval


def number_json(interval: Interval | None) -> dict[str, float | None] | None:
    """Return a number with its ends."""
    if interval is None:
        return None
    return {"value": interval.value, "low": finite(interval.low), "high": finite(interval.high)}


def finite(value: float) -> float | None:
    """Return the value; None where JSON has no number for it."""
    return value if math.isfinite(value) else None
