"""Runs that cannot succeed, since a certificate says that no example is as small, are left out."""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.attacks.search.plan import Leg
from robustatlas.engine.setting import Setting


def skip_hopeless(setting: Setting, rows: Tensor) -> None:
    """Let the schedule of the samples ``rows`` pass over runs that nothing can come of, as if they had failed.

    These are runs inside of a set that is certified, by optimizers that stay in it. What they would have changed are
    the margins on record and the passes; no size and no class.
    """
    if setting.certified is None:
        return
    ledger, schedule = setting.ledger, setting.schedule
    inside = torch.tensor([_stays(attempt.leg) for attempt in schedule.attempts], device=rows.device)
    most = [attempt.leg.most_passes(schedule.chooses) for attempt in schedule.attempts]
    passes = torch.tensor(most, device=rows.device)
    while True:
        rows = rows[~schedule.done[rows]]
        certain = schedule.epsilon(rows, ledger.best_size[rows]) <= setting.certified[rows]
        rows = rows[certain & inside[schedule.attempt[rows]]]
        if not len(rows):
            return
        if schedule.on_grid:
            level = schedule.level[rows]
            ledger.fooled[rows, level] = ledger.fooled[rows, level].clamp_min(0)
        ledger.saved[rows] += passes[schedule.attempt[rows]]
        size = ledger.best_size[rows]
        schedule.advance(rows, torch.zeros_like(rows, dtype=torch.bool), size, torch.full_like(size, torch.inf))


def can_skip(setting: Setting) -> bool:
    """Whether what a run leaves behind besides its examples is of no use to later ones: they share none."""
    return setting.schedule.shared is None


def _stays(leg: Leg) -> bool:
    return not leg.stage.optimizer.minimum_size
