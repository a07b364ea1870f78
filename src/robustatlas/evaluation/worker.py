"""A worker: a process that does jobs for the one that started it, and ends with it.

It gets a :class:`Kit` first, then jobs; it sends messages, each a tuple that begins with a word.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from robustatlas.classifier import Classifier, undisturbed
from robustatlas.errors import UserError
from robustatlas.evaluation.identity import check_same
from robustatlas.evaluation.memory import hand_back_at_once
from robustatlas.evaluation.plan import Task
from robustatlas.evaluation.travel import packed, unpacked
from robustatlas.evaluation.work import Doer, Job, Manner
from robustatlas.outcomes import Identity

Payload = tuple[Classifier, Sequence[Task], Manner, Identity, tuple[int, ...]]


@dataclass(frozen=True)
class Kit:
    """What a worker needs: where to import from besides, where to compute, whether it ``reports`` how far its jobs are,
    and model and tasks, :func:`packed`."""

    path: tuple[str, ...]
    device: str
    threads: int
    reports: bool
    content: bytes


def kit_content(
    model: Classifier, tasks: Sequence[Task], manner: Manner, identity: Identity, shape: tuple[int, ...]
) -> bytes:
    """The part of a kit that is the same for all workers; ``shape``: of one input."""
    return packed((model, tuple(tasks), manner, identity, shape), f"The model {model.name}")


class Worker(Doer):
    """Does jobs with a model that was sent here.

    Raises:
        UserError: the model that arrived is not the one that was sent, judged by its logits on the run's probe.
    """

    def __init__(self, content: bytes, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        payload: Payload = unpacked(content, device)
        model, tasks, manner, identity, shape = payload
        self._surroundings = ExitStack()  # for as long as this process lives
        self._surroundings.enter_context(undisturbed())
        self._surroundings.enter_context(model.evaluating())
        check_same(model, shape, identity)
        super().__init__(model, tasks, manner)


def serve(descriptor: int) -> None:
    """Do what comes through a socket until it ends.

    Says "hello"; to the kit "ready"; to a job "through" and how many samples are, where it reports, and "found" and
    what came of it; to either "failed" and an error.
    """
    hand_back_at_once()
    connection = Connection(descriptor)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    connection.send(("hello",))
    try:
        worker, reports = _equipped(inbox.get())
    except BaseException as error:
        connection.send(("failed", _plain(error)))
        return

    def report(through: int) -> None:
        if reports:
            connection.send(("through", through))

    connection.send(("ready",))
    while True:
        job: Job = pickle.loads(inbox.get())
        try:
            found = worker.do(job, report)
        except BaseException as error:
            connection.send(("failed", _plain(error)))
        else:
            connection.send(("found", found))


def _equipped(pickled: bytes) -> tuple[Worker, bool]:
    """A worker as its kit says, of which nothing stays in memory but the model; and whether it reports."""
    kit: Kit = pickle.loads(pickled)
    sys.path[:] = [*kit.path, *(place for place in sys.path if place not in kit.path)]
    return Worker(kit.content, kit.device, kit.threads), kit.reports


def _receive(connection: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """Pass on what comes; the end of the connection is the end of this process, whatever it is at."""
    try:
        while True:
            inbox.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _plain(error: BaseException) -> Exception:
    """An error that every process can unpickle."""
    if isinstance(error, torch.OutOfMemoryError):
        return torch.OutOfMemoryError(str(error))
    if isinstance(error, UserError):
        return UserError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
