"""Locks on the parts of a run: no two commands compute the same samples of it at once.

A lock is held on an empty file of the run's folder, by :mod:`filelock`, and ends with its process. Part I of N and
part J of M have samples in common where I and J are equal modulo the greatest common divisor of N and M. A whole run is
part 0 of 1, so it excludes every part.
"""

import errno
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from robustatlas.common.errors import UserError
from robustatlas.common.files import Address, check_inside, explain_write_errors

_FOLDER = "locks"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of file systems that cannot lock files."""


class _HeldError(Exception):
    """Another command holds a lock."""


@contextmanager
def part_lock(
    run: Path | None, number: int, of: int, say: Callable[[str], None] = lambda sentence: None
) -> Iterator[None]:
    """Hold the lock of one part of a run; nothing is held of a run in memory.

    Args:
        run: folder or address of the run; None: in memory.
        number: of the part, from 0 to `of` - 1.
        of: number of parts.
        say: is told once where the place of the run has no locks; default: nobody.

    Raises:
        UserError: another command holds this part, or one that has samples in common with it.
    """
    if run is None:
        yield
        return
    with start_lock(run):
        lock = None if isinstance(run, Address) else _acquire_part(run, number, of)
    if lock is None:
        say(
            f"{run} is in a place without locks: two commands on the same part of it would both compute its samples, "
            "with the same numbers."
        )
        yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def start_lock(run: Path | None) -> Iterator[None]:
    """Hold the lock under which commands start on a run, one after the other.

    Without it, two parts that start at once could each take the other's look at a third lock for a command at work.
    """
    if run is None or isinstance(run, Address):
        yield
        return
    lock = _acquire(check_inside(run, run / _FOLDER / "start.lock"), wait=True)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _acquire_part(run: Path, number: int, of: int) -> FileLock | None:
    """Acquire the lock of a part; None where the file system has no locks."""
    own = check_inside(run, run / _FOLDER / f"{number}-of-{of}.lock")
    lock = None
    try:
        lock = _acquire(own)
        for file in _overlapping_locks(own, number, of):
            if (other := _acquire(file)) is not None:
                other.release()
    except _HeldError as error:
        if lock is not None:
            lock.release()
        part = "" if of == 1 else f"part {number}/{of} of "
        raise UserError(
            f"Another command is at work on samples of {part}{run}; wait until it has ended, or give each command "
            "a part of its own (--part I/N)."
        ) from error
    return lock


def _overlapping_locks(own: Path, number: int, of: int) -> Iterator[Path]:
    """Yield the lock files of other parts that have samples in common with part `number` of `of`."""
    for file in sorted(own.parent.glob("*.lock")):
        found = re.fullmatch(r"(\d+)-of-(\d+)", file.stem)
        if found and file != own and (number - int(found[1])) % math.gcd(of, int(found[2])) == 0:
            yield file


def _acquire(file: Path, wait: bool = False) -> FileLock | None:
    """Acquire a lock; None where the file system has no locks. Raise ``_HeldError`` where another command holds it."""
    with explain_write_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        # Existence of a file would be no lock here: it outlives a command that is killed on another machine.
        lock = FileLock(file, timeout=-1 if wait else 0, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout as error:
            raise _HeldError from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return None
    return lock
