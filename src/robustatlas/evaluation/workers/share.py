"""A share of the samples: what one of several machines does that know nothing of each other."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import integer_or_none


@dataclass(frozen=True)
class Share:
    """Every ``of``-th sample, from the ``number``-th on: samples of a data set in the order of its classes are shared
    out evenly."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def mask(self, count: int) -> NDArray[np.bool_]:
        """``[count]``: which samples of a plan are this share's."""
        mask = np.zeros(count, np.bool_)
        mask[self.number :: self.of] = True
        return mask


WHOLE = Share(0, 1)


def parse_share(given: str | tuple[int, int] | Share | None) -> Share:
    """``"I/N"`` or ``(I, N)``, with I from 0 to N-1; None is everything.

    Example:
        >>> parse_share("1/3").mask(7).nonzero()[0]
        array([1, 4])
    """
    if isinstance(given, Share):
        return given
    if given is None:
        return WHOLE
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", given)
        number, of = map(int, found.groups()) if found else (-1, 0)
    else:
        numbers = [integer_or_none(value) for value in given] if isinstance(given, Iterable) else []
        number, of = (-1 if value is None else value for value in numbers) if len(numbers) == 2 else (-1, 0)
    if not 0 <= number < of:
        raise UserError(
            f"part={shorten(repr(given))} is not a share; expected I/N with I from 0 to N-1, such as 0/4 and 3/4 of "
            "four."
        )
    return Share(number, of)


def share_of_environment(environment: Mapping[str, str] = os.environ) -> tuple[Share, str] | None:
    """The share that a batch system gives this process, and the variables that say so; None where none does.

    A task of a Slurm array (whatever its first number and step), or a process of a group (RANK and WORLD_SIZE, as
    torchrun sets them).

    Raises:
        UserError: variables that contradict each other, or are not numbers.

    Example:
        >>> array = {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "8"}
        >>> share_of_environment(array)
        (Share(number=4, of=8), 'SLURM_ARRAY_TASK_ID=5')
    """
    number = _environment_number(environment, "SLURM_ARRAY_TASK_ID")
    of = _environment_number(environment, "SLURM_ARRAY_TASK_COUNT")
    if number is not None and of is not None:
        first, step = (_environment_number(environment, f"SLURM_ARRAY_TASK_{what}") for what in ("MIN", "STEP"))
        place, rest = divmod(number - (first or 0), step or 1)
        if rest or not 0 <= place < of:
            raise UserError(
                f"SLURM_ARRAY_TASK_ID={number} is not one of an array of {of} with equal steps, so it is not known "
                "which part of the work is meant; give --part I/N."
            )
        return (Share(place, of), f"SLURM_ARRAY_TASK_ID={number}") if of > 1 else None
    number, of = rank_of_environment(environment)
    return (Share(number, of), f"RANK={number}, WORLD_SIZE={of}") if of > 1 else None


def rank_of_environment(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return the number of this process in its group and the size of the group, as RANK and WORLD_SIZE say. Return
    (0, 1) unless both are set.

    Raises:
        UserError: they contradict each other, or are not numbers.

    Example:
        >>> rank_of_environment({"RANK": "3", "WORLD_SIZE": "4"})
        (3, 4)
    """
    number, of = _environment_number(environment, "RANK"), _environment_number(environment, "WORLD_SIZE")
    if number is None or of is None:
        return 0, 1
    if number >= of:
        raise UserError(
            f"RANK={number} and WORLD_SIZE={of} contradict each other: ranks of {of} go from 0 to {of - 1}, so it is "
            "not known which part of the work is meant; correct or unset them."
            if of
            else f"RANK={number} and WORLD_SIZE=0 contradict each other: a group has at least one process; correct or "
            "unset them."
        )
    return number, of


def _environment_number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if text and not (text.isdecimal() and len(text) < _LONGEST):
        raise UserError(
            f"{name}={shorten(repr(text))} is not a whole number from 0 on, so it is not known which part is meant; "
            "correct or unset it, or give --part I/N."
        )
    return int(text) if text else None


_LONGEST = 10
"""Digits of a number of processes."""
