"""Ctrl-C during calls of libraries that cannot be interrupted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Delay a Ctrl-C until the end of the block.

    DuckDB and pydantic catch it in the middle of a call, and then raise an error of their own or ignore it.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])
