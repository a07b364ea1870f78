"""Conversion of numbers that users give: of Python or NumPy, or in arrays and tensors."""

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten


def integer_or_none(value: Any) -> int | None:
    """Return ``value`` as an int if it has an integer type, else None; True and False are not integers here.

    >>> import numpy as np
    >>> integer_or_none(np.int64(3)), integer_or_none(3.0), integer_or_none(True), integer_or_none("3")
    (3, None, None, None)
    """
    if isinstance(value, bool) or _is_boolean(value) or getattr(value, "shape", ()) != ():
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real_or_nan(value: Any) -> float:
    """Return ``value`` as a float if it is a real number, else NaN; a number too large for a float is inf.

    >>> import numpy as np
    >>> real_or_nan(np.float64(0.5)), real_or_nan(2), real_or_nan("0.5"), real_or_nan(10**400)
    (0.5, 2.0, nan, inf)
    """
    if isinstance(value, (bool, str, bytes)) or _is_boolean(value) or getattr(value, "shape", ()) != ():
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def parse_count(name: str, value: Any) -> int:
    """Return ``value`` as an integer of at least 1.

    Raises:
        UserError: it is not; the message calls it ``name``.

    >>> parse_count("batch_size", np.int64(3))
    3
    """
    count = integer_or_none(value)
    if count is None or count < 1:
        raise UserError(f"{name}={shorten(repr(value))}; expected an integer of at least 1.")
    return count


def parse_seed(value: Any) -> int:
    """Return ``value`` as a seed of random numbers.

    Raises:
        UserError: it is not an integer of at most 64 bits.

    >>> parse_seed(-1)
    -1
    """
    number = integer_or_none(value)
    if number is None:
        raise UserError(f"seed={shorten(repr(value))}; expected an integer.")
    if not -(2**63) <= number < 2**63:
        raise UserError(f"seed={shorten(number)}; expected an integer of at most 64 bits.")
    return number


def random_generator(seed: int) -> np.random.Generator:
    """Return NumPy's generator for a seed; negative seeds, which NumPy refuses, are taken modulo 2^64.

    >>> bool(random_generator(-1).integers(100) == random_generator(2**64 - 1).integers(100))
    True
    """
    return np.random.default_rng(seed % 2**64)


def parse_fraction(text: str) -> float:
    """Return the value of a decimal or a fraction such as ``8/255``; NaN if the text is neither.

    >>> parse_fraction("8/256"), parse_fraction("0.5"), parse_fraction("8/0")
    (0.03125, 0.5, nan)
    """
    numerator, slash, denominator = text.partition("/")
    try:
        return float(numerator) / (float(denominator) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        return math.nan


def _is_boolean(value: Any) -> bool:
    return str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"


def real_array(values: Any, what: str) -> NDArray[np.float64]:
    """Return ``values`` [...] as an array of float64.

    Raises:
        UserError: texts, rows of different lengths, complex numbers; the message calls the values ``what``.

    >>> real_array([0.1, 1], "sizes")
    array([0.1, 1. ])
    """
    try:
        array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise UserError(f"{what} are expected to be real numbers; given: {shorten(repr(values))}")
