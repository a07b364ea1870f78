"""Who waits for a lane."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.common.host import indices, looking_is_free, to_host

_EMPTY = 1 / 4
"""The share of lanes that may stand empty until the next look."""


@dataclass
class Queue:
    """The samples that wait for a lane of stage ``number``.

    ``rows``: those, the next first; ``unknown``: those whose run has ended, but of which the host does not know yet
    whether they come back. It asks at once where too few others can take the lanes, else at the next look.
    """

    schedule: Schedule
    number: int
    rows: Tensor
    unknown: Tensor
    report: Callable[[int], None]

    def next(self, count: int) -> Tensor:
        """The first ``count`` leave the queue."""
        first, self.rows = self.rows[:count], self.rows[count:]
        return first

    def questions(self) -> list[Tensor]:
        """What the host has to know of the unknown."""
        if not len(self.unknown):
            return []
        return [self.schedule.done.sum(), self._stay().sum()]

    def answered(self, *news: int) -> None:
        """The unknown are known: those that stay go to the front."""
        if news:
            done, staying = news
            self.report(done)
            self.rows = torch.cat([self.unknown[indices(self._stay(), staying)], self.rows])
            self.unknown = self.unknown[:0]

    def ask(self, free: int, lanes: int) -> None:
        """Ask at once where ``free`` of the ``lanes`` would stand empty otherwise."""
        empty = free - len(self.rows)
        if len(self.unknown) and (looking_is_free(self.unknown.device) or empty > _EMPTY * lanes):
            self.answered(*to_host(*self.questions()))

    def _stay(self) -> Tensor:
        rows, schedule = self.unknown, self.schedule
        return ~schedule.done[rows] & (schedule.stage_of[schedule.attempt[rows]] == self.number)
