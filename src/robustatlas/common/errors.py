"""The exception for mistakes that a user can correct, the category of all warnings, and helpers for their messages."""

import logging
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from robustatlas.common.wording import suggestion


class UserError(ValueError):
    """Input of the user that does not fit; the message says what was given, what was expected and what to do.

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
    """Category of warnings about doubtful numbers and files that are ignored.

    Example:
        >>> import robustatlas as ra
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", ra.RobustnessWarning)
    """


@contextmanager
def silence_logger(name: str) -> Iterator[None]:
    """Silence a logger inside of the block.

    It is for packages that log what they also raise, or what users of this package cannot change.

    Args:
        name: of the logger, such as ``"torch.export"``.
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
    """Issue a :class:`RobustnessWarning` that names the line of the user's code that called the package."""
    warnings.warn(sentence, RobustnessWarning, stacklevel=_frames_to_user() + 1)


def _frames_to_user() -> int:
    """Return how many frames the user's code is above the caller of this function."""
    # From Python 3.12 on, warnings.warn(skip_file_prefixes=...) finds the user's frame by itself; 3.11 cannot.
    frame, count = sys._getframe(1), 0
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "robustatlas":
        frame, count = frame.f_back, count + 1
    return count


def shorten(value: object) -> str:
    """Return a value as text of one line with at most 60 characters, for a message.

    >>> shorten("ten characters " * 10)
    'ten characters ten characters ten characters ten characte...'
    """
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown_name_error(kind: str, name: object, known: Collection[str], there: str = "") -> UserError:
    """Return the error for a name that is not in ``known``.

    Args:
        kind: of thing that the name should stand for, such as ``"recipe"``.
        name: that was given.
        known: names.
        there: end of the sentence if no known name is similar; default: the list of known names.

    Example:
        >>> unknown_name_error("shape", "lsit", ["list", "set"])
        UserError("There is no shape 'lsit'; did you mean 'list'?")
    """
    there = there or (f"there are {', '.join(known)}" if known else "there is none")
    return UserError(f"There is no {kind} {name!r}{suggestion(str(name), known, there)}")


def check_choice(name: str, value: object, known: Collection[object]) -> None:
    """Check that an argument is one of the known values.

    Args:
        name: of the argument.
        value: that was given.
        known: values.

    Raises:
        UserError: it lists the known values.

    Example:
        >>> check_choice("pixels", "8bit", ["any", "8bit"])
    """
    if value not in known:
        raise UserError(f"{name}={value!r} is not known; expected one of {', '.join(map(repr, known))}.")


def first_line(error: BaseException) -> str:
    """Return the type of an error and the first line of its message; if that ends with a colon, the second line too.

    >>> first_line(RuntimeError("Failed to import because:\\n\\nNo module named 'zoo'.\\nLook up."))
    "RuntimeError: Failed to import because: No module named 'zoo'"
    """
    first, *rest = (line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip())
    return (f"{first} {rest[0]}" if rest and first.endswith(":") else first).rstrip(".:")
