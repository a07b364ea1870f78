"""What runs in the process of a worker: it does jobs for the one that started it, and ends with it."""

import os
import pickle
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import Connection

import torch

from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers.crew import Do
from robustatlas.evaluation.workers.memory import hand_back_at_once
from robustatlas.evaluation.workers.travel import unpacked

Make = Callable[[], AbstractContextManager[Do]]
"""Gets ready to do jobs, where they are done and for as long as they are."""


def serve(descriptor: int) -> None:
    """Do what comes through a socket until it ends.

    Hears where and how to compute (see :class:`~robustatlas.evaluation.workers.process.Process`), a :data:`Make`,
    packed, and then jobs. It answers in tuples that begin with a word: "hello" at first, "ready" to what it is sent. To
    a job it answers "through" and how much of it is (where it reports), and "found" and what came of it. "failed" comes
    with an error.
    """
    hand_back_at_once()
    connection = Connection(descriptor)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    connection.send(("hello",))
    device, threads, reports = pickle.loads(inbox.get())

    def report(through: int) -> None:
        if reports:
            connection.send(("through", through))

    with ExitStack() as surroundings:
        try:
            torch.set_num_threads(threads)
            do: Do = surroundings.enter_context(unpacked(inbox.get(), device)())
            connection.send(("ready",))
        except BaseException as error:
            connection.send(("failed", _plain(error)))
            return
        while True:
            job = pickle.loads(inbox.get())
            try:
                connection.send(("found", do(job, report)))
            except BaseException as error:
                connection.send(("failed", _plain(error)))


def _receive(connection: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """Pass on what comes; the end of the connection is the end of this process, whatever it is at."""
    try:
        while True:
            inbox.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _plain(error: BaseException) -> Exception:
    """An error that every process can unpickle."""
    if isinstance(error, (torch.OutOfMemoryError, UserError)):
        return type(error)(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
