"""Checks of per-sample numbers that several metrics share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.errors import UserError


def check_minimal(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """Minimal strengths or sizes [N] as float64: numbers >= 0, or inf for samples that were never broken.

    Args:
        values: the numbers.
        what: whose they are, for the error message.
    """
    try:
        minimal = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"the minimal strengths or sizes of {what} are not all numbers") from None
    if minimal.ndim != 1 or minimal.size == 0:
        raise UserError(
            f"the minimal strengths or sizes of {what} must be one number for each sample; given an array of shape "
            f"{minimal.shape}"
        )
    if np.isnan(minimal).any():
        raise UserError(
            f"{int(np.isnan(minimal).sum())} of the minimal strengths or sizes of {what} are NaN; use inf for samples "
            "that were never broken"
        )
    if (minimal < 0).any():
        raise UserError(f"the smallest of the minimal strengths or sizes of {what} is {minimal.min():g}; expected >= 0")
    return minimal


def check_confidence(confidence: float) -> None:
    """Raise where a confidence level is not strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise UserError(f"the confidence is {confidence}; a number between 0 and 1 is expected, such as 0.95")
