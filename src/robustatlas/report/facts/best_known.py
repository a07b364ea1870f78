"""Who found the smallest examples known, where a run holds verified examples of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import listed
from robustatlas.results.result import Result


@dataclass(frozen=True)
class BestKnown:
    """What examples of others change under one attack.

    Attributes:
        by: finder -> number of samples whose smallest example is theirs.
        searched: [S] robust accuracy in percent that the run's own searches found; None where not every strength was
            searched.
        known: [S] robust accuracy with the examples of others, the best known; None likewise.
    """

    by: Mapping[str, int]
    searched: NDArray[np.float64] | None
    known: NDArray[np.float64] | None

    @property
    def names(self) -> Sequence[str]:
        """Finders of smallest examples, those of most first."""
        return sorted((name for name, count in self.by.items() if count), key=lambda name: (-self.by[name], name))

    def sentence(self, attack: str) -> str:
        """Who found what."""
        if not self.names:
            return f"{attack}: verified examples of {listed(sorted(self.by))}, none smaller than those of the search."
        whose = listed([f"{name} ({self.by[name]})" for name in self.names])
        return f"{attack}: best known; the smallest examples of {sum(self.by.values())} samples are by {whose}."


def best_known(result: Result, attack: str) -> BestKnown | None:
    """What verified examples of others change under an attack; None where the run holds none."""
    records = [record for record in result.records.values() if record.name == attack]
    finders = {record.origin: record.finder for record in records if record.finder is not None}
    if not finders:
        return None
    outcome, searched = result.outcome(attack), result.searched(attack)
    found = outcome.found_by()
    return BestKnown(
        by={finder: found.get(origin, 0) for origin, finder in finders.items()},
        searched=searched.accuracies() if searched.judged else None,
        known=outcome.accuracies() if outcome.judged else None,
    )
