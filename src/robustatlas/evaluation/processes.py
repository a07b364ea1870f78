"""Workers in processes of this machine, one a device or several on the processor."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType

from robustatlas.errors import UserError
from robustatlas.evaluation.crew import Hand, Hands, Lost, News
from robustatlas.evaluation.desk import Desk
from robustatlas.evaluation.work import Job
from robustatlas.evaluation.worker import Kit

_PATIENCE = 10.0
"""Seconds that a process has to end after its line did."""

_COMMAND = "import sys; from robustatlas.evaluation.worker import serve; serve(int(sys.argv[1]))"


@dataclass
class _Hand(Hand):
    """``line``: to its process."""

    device: str
    process: subprocess.Popen[bytes]
    line: Connection


class Processes(Hands[_Hand]):
    """A crew of one process a device; leaving it (Ctrl-C too) ends them all.

    Args:
        content: model and tasks, see :func:`~robustatlas.evaluation.worker.kit_content`.
        devices: where each worker computes; a device may stand several times.
        threads: of each worker.
        desk: hears how far the jobs are.
    """

    def __init__(self, content: bytes, devices: Sequence[str], threads: int, desk: Desk) -> None:
        self.content, self.threads, self.desk = content, threads, desk
        super().__init__()
        self.vacant = list(devices)

    def __enter__(self) -> Processes:
        try:
            self._fill()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _order(self, hand: _Hand, job: Job) -> None:
        _send(hand, job)

    def news(self) -> Iterator[News]:
        self._fill()
        waiting = [hand for hand in self.hands if hand.job is not None or not hand.ready]
        spoken = wait([hand.line for hand in waiting])
        for hand in waiting:
            if hand.line in spoken:
                yield from self._heard(hand)

    def _heard(self, hand: _Hand) -> Iterator[News]:
        job = hand.job
        try:
            word, *rest = hand.line.recv()
        except (EOFError, OSError):
            said = f"A worker on {hand.device} {_end_of(hand.process)}."
            if job is None:
                raise UserError(f"{said} It had not begun; what it printed last says why.") from None
            self._dismiss(hand)
            yield job, Lost(said)
            return
        if word == "hello":
            _send(hand, Kit(tuple(sys.path), hand.device, self.threads, self.content))
        elif word == "ready":
            hand.ready = True
        elif word == "failed" and job is None:
            raise rest[0]
        elif word == "failed" and job is not None:
            self._dismiss(hand)
            yield job, rest[0]
        elif word == "through" and job is not None:
            self.desk.report(job, rest[0])
        elif word == "found" and job is not None:
            hand.job = None
            yield job, rest[0]

    def _started(self, device: str) -> _Hand:
        ours, theirs = socket.socketpair()
        home = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(self.threads)},
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )
        return _Hand(device, process, Connection(ours.detach()))

    def _dismiss(self, hand: _Hand) -> None:
        """Let a worker go that died or failed; there will be another in its place."""
        _stop(hand)
        self.hands.remove(hand)
        self.vacant.append(hand.device)

    def _fill(self) -> None:
        while self.vacant:
            self.hands.append(self._started(self.vacant.pop(0)))

    def _end(self) -> None:
        for hand in self.hands:
            hand.process.kill()
        for hand in self.hands:
            _stop(hand)
        self.hands.clear()


def _send(hand: _Hand, what: Kit | Job) -> None:
    with suppress(OSError):  # it has died: its line will say so
        hand.line.send_bytes(pickle.dumps(what, pickle.HIGHEST_PROTOCOL))


def _stop(hand: _Hand) -> None:
    hand.process.kill()
    hand.process.wait()
    hand.line.close()


def _end_of(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        return "hung up"
    if code >= 0:
        return f"ended with code {code}"
    return f"was killed by signal {-code} ({signal.Signals(-code).name})"
