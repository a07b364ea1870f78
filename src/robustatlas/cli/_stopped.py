"""Sentences after a Ctrl-C ends a command: what is kept of its work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import typer
from rich.console import Console

from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError
from robustatlas.common.wording import join_words
from robustatlas.outcomes import Run


@contextmanager
def end_on_interrupt(sentence: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C inside end the command with a ``sentence`` on what is kept, which is made when it is needed."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True, soft_wrap=True).print(f"\n{safe(sentence())}", highlight=False)
        raise typer.Exit(130) from None


def interrupted_sentence(folder: Path) -> str:
    """Return how many of the samples of the last request the run in ``folder`` holds, attack by attack."""
    counts = _counts(folder)
    kept = [
        f"{done:,} of {asked:,} {'samples ' if not position else ''}of {attack}"
        for position, (attack, done, asked) in enumerate(entry for entry in counts if entry[1])
    ]
    if not kept:
        return f"Stopped. 0 samples were finished, so none are kept in {folder}; the same command starts again."
    return f"Stopped. {join_words(kept)} are kept in {folder}; the same command goes on from there."


def _counts(folder: Path) -> list[tuple[str, int, int]]:
    try:
        run = Run.open(folder)
        plans, records = run.plans(), run.records()
        if not plans:
            return []
        asked = plans[-1].index()
        known = [records[key] for key in plans[-1].attacks if key in records]
        return [(record.name, int(np.isin(asked, run.stored_samples(record)).sum()), len(asked)) for record in known]
    except UserError:  # nothing was begun
        return []
