"""Learning rates as pure functions of the time: written once, evaluated at every step, nothing to save.

``t`` is the time in epochs at the end of the step, (step + 1) / steps per epoch; ``epochs`` the whole.

============  ==========================================================================================
constant      the rate
piecewise     x .1 from half of the time, x .01 from three quarters (Rice et al. 2020, MultiRobustBench)
piecewise-ft  x .1 from one third, x .01 from two thirds (E-AT's fine-tuning)
cyclic        linearly from 0 up to floor(2/5 of the epochs), and down to 0 at the end
tri           as cyclic, but down to a twentieth at 4/5 of the time, then to 0 (Maini et al. 2020)
triangle      linearly from 0 up to half of the time, and down to 0 at the end (Wong et al. 2020)
one-cycle     a cosine up from 1/25 in the first fifth, and a cosine down to 1/250,000
cosine        a cosine from the rate to 0
step:75,90    x .1 from each of these epochs on (Madry et al. 2018, TRADES, UAR)
============  ==========================================================================================
"""

import math
from collections.abc import Callable
from itertools import pairwise

from robustatlas.common.errors import UserError, unknown_name_error

Schedule = Callable[[float, float], float]
"""From the time ``t`` and the whole, both in epochs, to the factor of the learning rate."""


def _piecewise(t: float, epochs: float) -> float:
    return 1.0 if t < epochs / 2 else 0.1 if t < 3 * epochs / 4 else 0.01


def _piecewise_ft(t: float, epochs: float) -> float:
    return 1.0 if t < epochs / 3 else 0.1 if t < 2 * epochs / 3 else 0.01


def _linear(t: float, *points: tuple[float, float]) -> float:
    for (start, low), (end, high) in pairwise(points):
        if t <= end:
            return low + (high - low) * (t - start) / (end - start) if end > start else high
    return points[-1][1]


def _cyclic(t: float, epochs: float) -> float:
    return _linear(t, (0, 0), (math.floor(2 * epochs / 5), 1), (epochs, 0))


def _tri(t: float, epochs: float) -> float:
    return _linear(t, (0, 0), (2 * epochs / 5, 1), (4 * epochs / 5, 0.05), (epochs, 0))


def _cosine_between(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * min(max(share, 0.0), 1.0))) / 2


def _cosine_one_cycle(t: float, epochs: float) -> float:
    top = epochs / 5
    return _cosine_between(0.04, 1, t / top) if t < top else _cosine_between(1, 4e-6, (t - top) / (epochs - top))


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda t, epochs: 1.0,
    "piecewise": _piecewise,
    "piecewise-ft": _piecewise_ft,
    "cyclic": _cyclic,
    "tri": _tri,
    "triangle": lambda t, epochs: _linear(t, (0, 0), (epochs / 2, 1), (epochs, 0)),
    "one-cycle": _cosine_one_cycle,
    "cosine": lambda t, epochs: _cosine_between(1, 0, t / epochs),
}


def schedule_named(name: str) -> Schedule:
    """Return the schedule with this name.

    Example:
        >>> schedule_named("piecewise")(60, 100), round(schedule_named("step:75,90")(80, 100), 3)
        (0.1, 0.1)
    """
    if name.startswith("step:"):
        try:
            drops = [float(value) for value in name.removeprefix("step:").split(",")]
        except ValueError:
            raise UserError(f"The schedule {name!r} is not understood; expected epochs as in step:75,90.") from None
        return lambda t, epochs: 0.1 ** sum(t >= drop for drop in drops)
    if name not in SCHEDULES:
        raise unknown_name_error("schedule", name, SCHEDULES, f"known are {', '.join(SCHEDULES)} and step:75,90")
    return SCHEDULES[name]
