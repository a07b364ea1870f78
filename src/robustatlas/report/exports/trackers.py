"""What a tracker refuses, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from robustatlas.common.errors import UserError, first_line


@contextmanager
def taken_by(tracker: str, otherwise: str) -> Iterator[None]:
    """What is done within is done by a tracker.

    Args:
        otherwise: what to do where it does not take a run.

    Raises:
        UserError: it does not, for a reason of its own: no account, no connection, a package that it lacks.

    Example:
        >>> with taken_by("MLflow", "give -o FOLDER"):
        ...     raise OSError("no route")
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: MLflow does not take the run (OSError: no route); give -o FOLDER.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # a tracker may raise anything
        raise UserError(f"{tracker} does not take the run ({first_line(error)}); {otherwise}.") from error
