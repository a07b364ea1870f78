"""Numbers as people give them: of Python, of NumPy, or in arrays and tensors."""

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, brief


def whole(value: Any) -> int | None:
    """``value`` as an int where it is a whole number, None where it is anything else; True and False are none.

    >>> import numpy as np
    >>> whole(np.int64(3)), whole(3.0), whole(True), whole("3")
    (3, None, None, None)
    """
    if isinstance(value, bool) or _is_truth(value) or getattr(value, "shape", ()) != ():
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real(value: Any) -> float:
    """``value`` as a float where it is a real number, NaN where it is anything else; one that is too large is inf.

    >>> import numpy as np
    >>> real(np.float64(0.5)), real(2), real("0.5"), real(10**400)
    (0.5, 2.0, nan, inf)
    """
    if isinstance(value, (bool, str, bytes)) or _is_truth(value) or getattr(value, "shape", ()) != ():
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def count_of(name: str, value: Any) -> int:
    """``value`` as a number of things, at least one; :class:`UserError`, which calls it ``name``, where it is none.

    >>> count_of("batch_size", np.int64(3))
    3
    """
    count = whole(value)
    if count is None or count < 1:
        raise UserError(f"{name}={brief(repr(value))}; expected an integer of at least 1.")
    return count


def seed_of(value: Any) -> int:
    """``value`` as the seed of random numbers. Raises :class:`UserError`: no integer, or one of more than 64 bits.

    >>> seed_of(-1)
    -1
    """
    number = whole(value)
    if number is None:
        raise UserError(f"seed={brief(repr(value))}; expected an integer.")
    if not -(2**63) <= number < 2**63:
        raise UserError(f"seed={brief(number)}; expected an integer of at most 64 bits.")
    return number


def generator_of(seed: int) -> np.random.Generator:
    """NumPy's random numbers of a seed, which NumPy itself takes from 0 on.

    >>> bool(generator_of(-1).integers(100) == generator_of(2**64 - 1).integers(100))
    True
    """
    return np.random.default_rng(seed % 2**64)


def fraction(text: str) -> float:
    """A number as people write it, or a fraction such as ``8/255``; NaN where it is neither.

    >>> fraction("8/256"), fraction("0.5"), fraction("8/0")
    (0.03125, 0.5, nan)
    """
    above, slash, below = text.partition("/")
    try:
        return float(above) / (float(below) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        return math.nan


def _is_truth(value: Any) -> bool:
    return str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"


def reals(values: Any, what: str) -> NDArray[np.float64]:
    """``values`` [...] as an array of real numbers; ``what`` they are, for the sentence where they are none. Raises
    :class:`UserError`: texts, rows of different lengths, complex numbers.

    >>> reals([0.1, 1], "sizes")
    array([0.1, 1. ])
    """
    try:
        array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise UserError(f"{what} are expected to be real numbers; given: {brief(repr(values))}")
