"""The share of the work that a command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from robustatlas.cli._terminal import safe

if TYPE_CHECKING:
    from robustatlas.evaluation.workers.share import Share


def share_here(part: str | None) -> Share:
    """What ``--part`` says, or else the surroundings; that these were asked is said."""
    from robustatlas.evaluation.workers.share import share_of, share_of_environment

    found = share_of_environment() if part is None else None
    if found is None:
        return share_of(part)
    share, why = found
    Console(stderr=True, soft_wrap=True, highlight=False).print(
        f"Part {share} of the work, by {safe(why)}; --part 0/1 takes all."
    )
    return share
