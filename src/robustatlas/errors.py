"""The one exception for mistakes that a user can put right, and what others say in a line."""

from __future__ import annotations


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


def brief(value: object) -> str:
    """What was given, in at most 60 characters of a message.

    Example:
        >>> brief("ten characters " * 10)
        'ten characters ten characters ten characters ten characte...'
    """
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_line(error: BaseException) -> str:
    """The kind of an error, and the first line of what it says; where that ends with a colon, the next as well.

    Example:
        >>> first_line(RuntimeError("Failed to import because:\\n\\nNo module named 'zoo'.\\nLook up."))
        "RuntimeError: Failed to import because: No module named 'zoo'"
    """
    first, *rest = (line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip())
    return (f"{first} {rest[0]}" if rest and first.endswith(":") else first).rstrip(".:")
