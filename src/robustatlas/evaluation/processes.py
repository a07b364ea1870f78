"""Workers in processes of this machine, one a device or several on the processor."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType

from robustatlas.evaluation.crew import Hand, Hands, News
from robustatlas.evaluation.desk import Desk
from robustatlas.evaluation.line import Line
from robustatlas.evaluation.work import Job
from robustatlas.evaluation.worker import Kit


@dataclass
class _Hand(Hand):
    """``line``: to its process."""

    device: str
    line: Line


class Processes(Hands[_Hand]):
    """A crew of one process a device; leaving it (Ctrl-C too) ends them all.

    Args:
        content: model and tasks, see :func:`~robustatlas.evaluation.worker.kit_content`.
        devices: where each worker computes; a device may stand several times.
        threads: of each worker.
        desk: hears how far the jobs are.
    """

    def __init__(self, content: bytes, devices: Sequence[str], threads: int, desk: Desk) -> None:
        super().__init__(desk)
        self.content, self.threads = content, threads
        self.vacant = list(devices)
        self.path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]

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
        hand.line.say(pickle.dumps(job, pickle.HIGHEST_PROTOCOL))

    def news(self) -> Iterator[News]:
        self._fill()
        waiting = [hand for hand in self.hands if hand.job is not None or not hand.ready]
        spoken = wait([hand.line.connection for hand in waiting])
        for hand in waiting:
            if hand.line.connection in spoken:
                yield from self._heard(hand)

    def _heard(self, hand: _Hand) -> Iterator[News]:
        try:
            word, *rest = pickle.loads(hand.line.hear())
        except (EOFError, OSError):
            yield from self._lost(hand, f"A worker on {hand.device} {hand.line.end()}.")
            return
        if word == "hello":
            kit = Kit(tuple(sys.path), hand.device, self.threads, True, self.content)
            hand.line.say(pickle.dumps(kit, pickle.HIGHEST_PROTOCOL))
        else:
            yield from self._said(hand, word, *rest)

    def _dismiss(self, hand: _Hand) -> None:
        hand.line.stop()
        self.hands.remove(hand)
        self.vacant.append(hand.device)

    def _fill(self) -> None:
        while self.vacant:
            self.hands.append(_Hand(self.vacant.pop(0), Line(self.path, self.threads)))

    def _end(self) -> None:
        for hand in self.hands:
            hand.line.process.kill()
        for hand in self.hands:
            hand.line.stop()
        self.hands.clear()
