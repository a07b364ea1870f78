"""Memory of a process that nothing uses, handed back to the machine."""

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_AT_ONCE, _KEPT = 18 * 2**20, 16 * 2**20
"""Bytes of a piece that is handed back as soon as it is freed, and of free memory that is kept for what comes next."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def hand_back() -> None:
    """Give memory of this process that nothing uses back to the machine.

    The C library keeps what is freed between pieces that are still in use, and lays what comes next elsewhere where it
    does not fit: without this a process grows by a few batches, now and then, over thousands of parts.
    """
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def hand_back_at_once() -> None:
    """Give from now on every large piece of memory back to the machine as soon as it is freed.

    For processes of our own: the command line and its workers. The GNU C library does so of itself with pieces from 32
    MB on, once it has seen one. Pieces below it are laid side by side, where small ones that stay keep large ones from
    fitting again, so that the same work takes some 200 MB more or less. The size here holds batches of large images
    (32 of 3x224x224 take 18.4 MB) apart, and leaves small networks alone, which piece by piece would be slower (256
    maps of 16x32x32 take 16 MB).
    """
    options = getattr(_c_library(), "mallopt", None)
    if options is not None:
        options(_M_MMAP_THRESHOLD, _AT_ONCE)
        options(_M_TRIM_THRESHOLD, _KEPT)


def peak_bytes() -> int:
    """Return the most memory that this process has taken so far, in bytes."""
    import resource  # of POSIX alone

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def usable_bytes() -> int:
    """Memory of the machine, or of the container that this process is in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return whole


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
