"""Decide which numbers may be compared. Results of attacks that follow a misleading gradient may not."""

from collections.abc import Iterable, Mapping
from typing import Protocol


class HasInvalidAttacks(Protocol):
    """Results, accuracies, facts or rows that record the attacks whose robust accuracies are masked."""

    @property
    def invalid(self) -> Mapping[str, float]:
        """Attack -> share of the samples at which its gradient is missing or misleads, if there are any."""


def masked_shares(numbers: HasInvalidAttacks, attacks: Iterable[str] | None = None) -> dict[str, float]:
    """Return the attacks because of which a number is an upper bound only and may not compete.

    Every surface asks here before it gives a number a badge, a rank, a verdict, a test or a leading place.

    Args:
        numbers: what holds the number.
        attacks: those that the number rests on; default: all.

    Returns:
        attack -> share of the samples at which its gradient is missing or misleads; empty where the number may compete.
    """
    chosen = None if attacks is None else set(attacks)
    return {attack: share for attack, share in numbers.invalid.items() if chosen is None or attack in chosen}
