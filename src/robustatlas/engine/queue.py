"""The samples that wait for a slot."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.common.host import indices, looking_is_free, to_host

_EMPTY = 1 / 4
"""Share of the slots that may stay empty until the next look. A smaller share makes the host wait more often."""


@dataclass
class Queue:
    """Samples that wait for a slot of the runs of kind ``kind``.

    ``rows``: waiting samples, the next first. ``unknown``: samples whose run has ended, but of which the host does not
    know yet if they come back. The host reads that at once if too few others can take the slots, else at the next look.
    """

    schedule: Schedule
    kind: int
    rows: Tensor
    unknown: Tensor
    report: Callable[[int], None]

    def pop(self, count: int) -> Tensor:
        """Remove and return the first ``count`` samples."""
        first, self.rows = self.rows[:count], self.rows[count:]
        return first

    def counts(self) -> list[Tensor]:
        """Return what the host must read about the unknown: the samples that are through, and those that stay."""
        if not len(self.unknown):
            return []
        return [self.schedule.done.sum(), self._are_staying().sum()]

    def settle_unknown(self, *counts: int) -> None:
        """Take in what the host has read: unknown samples that stay go to the front."""
        if counts:
            settled, staying = counts
            self.report(settled)
            self.rows = torch.cat([self.unknown[indices(self._are_staying(), staying)], self.rows])
            self.unknown = self.unknown[:0]

    def read_if_needed(self, free: int, slots: int) -> None:
        """Read about the unknown at once if too many of the ``slots`` would stay empty; ``free`` of them are."""
        empty = free - len(self.rows)
        if len(self.unknown) and (looking_is_free(self.unknown.device) or empty > _EMPTY * slots):
            self.settle_unknown(*to_host(*self.counts()))

    def _are_staying(self) -> Tensor:
        rows, schedule = self.unknown, self.schedule
        return ~schedule.done[rows] & (schedule.kind_of[schedule.attempt[rows]] == self.kind)
