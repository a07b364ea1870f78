"""Decide which numbers may be compared. Results of attacks that follow a misleading gradient may not."""

from collections.abc import Iterable, Mapping
from typing import Protocol


class _Told(Protocol):
    """Results, accuracies, facts or rows that record the attacks whose robust accuracies are masked."""

    @property
    def invalid(self) -> Mapping[str, float]:
        """Attack -> share of the samples at which its gradient is missing, or misleads, where there are such."""


def masked(told: _Told, attacks: Iterable[str] | None = None) -> dict[str, float]:
    """Why a number that rests on some ``attacks`` (default: all) may not compete: it is an upper bound only.

    Every surface asks here before it gives a number a badge, a rank, a verdict, a test or a leading place.

    Returns attack -> share of the samples at which its gradient is missing or misleads, of those among ``attacks`` of
    which that is so; empty where the number may compete.
    """
    kept = None if attacks is None else set(attacks)
    return {attack: share for attack, share in told.invalid.items() if kept is None or attack in kept}
