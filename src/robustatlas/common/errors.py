"""The one exception for mistakes that a user can put right, the one kind of warning, and what others say in a line."""

import logging
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from robustatlas.common.wording import instead


class UserError(ValueError):
    """Something given by the user does not fit; the message says what was given, what was expected and what to do.

    The command line prints the message without a traceback and exits with 1.

    Example:
        >>> import robustatlas as ra
        >>> try:
        ...     ra.load_dataset("digts")
        ... except ra.UserError as error:
        ...     print(error)
        Unknown data set 'digts'; did you mean 'digits'?
    """


class RobustnessWarning(UserWarning):
    """A number that is to be doubted, or a file that is not believed, and why."""


@contextmanager
def quiet_logger(name: str) -> Iterator[None]:
    """Keep a package from logging what it then raises, or what a user of this one can do nothing about.

    Args:
        name: of its logger, such as ``"torch.export"``.
    """
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


warnings.simplefilter("always", RobustnessWarning, append=True)  # after the user's own filters


def warn(sentence: str) -> None:
    """Warn whoever called the package: the line named is the first one outside of it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "robustatlas":
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, RobustnessWarning, stacklevel=level)


def brief(value: object) -> str:
    """What was given, in one line and at most 60 characters of a message.

    >>> brief("ten characters " * 10)
    'ten characters ten characters ten characters ten characte...'
    """
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown(kind: str, name: object, known: Collection[str], there: str = "") -> UserError:
    """The error of a name that there is not among those that are ``known``; ``there``: what to say of these.

    Example:
        >>> unknown("shape", "lsit", ["list", "set"])
        UserError("There is no shape 'lsit'; did you mean 'list'?")
    """
    there = there or (f"there are {', '.join(known)}" if known else "there is none")
    return UserError(f"There is no {kind} {name!r}{instead(str(name), known, there)}")


def check_among(name: str, value: object, known: Collection[object]) -> None:
    """Raise where what is given as ``name`` is none of what there is.

    Raises:
        UserError: it names what is expected.

    Example:
        >>> check_among("pixels", "8bit", ["any", "8bit"])
    """
    if value not in known:
        raise UserError(f"{name}={value!r} is not known; expected one of {', '.join(map(repr, known))}.")


def first_line(error: BaseException) -> str:
    """The kind of an error, and the first line of what it says; where that ends with a colon, the next as well.

    >>> first_line(RuntimeError("Failed to import because:\\n\\nNo module named 'zoo'.\\nLook up."))
    "RuntimeError: Failed to import because: No module named 'zoo'"
    """
    first, *rest = (line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip())
    return (f"{first} {rest[0]}" if rest and first.endswith(":") else first).rstrip(".:")
