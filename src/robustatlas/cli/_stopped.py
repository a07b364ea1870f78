"""What is said when Ctrl-C ends an evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from robustatlas.errors import UserError
from robustatlas.outcomes import Run
from robustatlas.wording import listed


def what_is_kept(folder: Path) -> str:
    """How many of the samples that were asked for last the run in ``folder`` holds, attack by attack."""
    counts = _counts(folder)
    kept = [
        f"{done:,} of {asked:,} {'samples ' if not position else ''}of {attack}"
        for position, (attack, done, asked) in enumerate(entry for entry in counts if entry[1])
    ]
    if not kept:
        return f"Stopped. 0 samples were finished, so none are kept in {folder}; the same command starts again."
    return f"Stopped. {listed(kept)} are kept in {folder}; the same command goes on from there."


def _counts(folder: Path) -> list[tuple[str, int, int]]:
    try:
        run = Run.open(folder)
        plans, records = run.plans(), run.records()
        if not plans:
            return []
        asked = plans[-1].index()
        known = [records[key] for key in plans[-1].attacks if key in records]
        return [(record.name, int(np.isin(asked, run.done(record)).sum()), len(asked)) for record in known]
    except UserError:  # nothing was begun
        return []
