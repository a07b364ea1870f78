"""What became of the examples, told to whoever handed them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import counted
from robustatlas.evaluation.verification.asked import Case
from robustatlas.evaluation.verification.judging import REFUSALS, Judged
from robustatlas.outcomes import AttackRecord
from robustatlas.outcomes.records import EXAMPLES
from robustatlas.results.result import Result


@dataclass(frozen=True)
class Confirmed:
    """What verified examples say under one attack.

    Attributes:
        samples: samples with a verified example.
        smaller: samples of the run whose smallest example is now one of these.
        before, after: robust accuracy in percent at each of the attack's ``strengths``, without and with them.
    """

    samples: int
    smaller: int
    strengths: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Verification:
    """What became of examples that were handed over.

    Attributes:
        by: who found them.
        given: how many there were.
        verified: ``[M]`` bool, which of them count.
        refused: reason -> how many do not count for it (see :data:`REFUSALS`).
        attacks: name -> what they say under that attack.
        result: the run with them.
    """

    by: str
    given: int
    verified: NDArray[np.bool_]
    refused: Mapping[str, int]
    attacks: Mapping[str, Confirmed]
    result: Result

    def __repr__(self) -> str:
        lines = [f"{int(self.verified.sum())} of {counted(self.given, 'example')} by {self.by} verified"]
        lines += [f"  refused, {reason}: {count}" for reason, count in self.refused.items()]
        lines += [
            f"  {name}: the smallest known of {counted(found.smaller, 'sample')}"
            for name, found in self.attacks.items()
        ]
        return "\n".join(lines)


def accuracies_of(case: Case) -> dict[str, NDArray[np.float64]]:
    """Attack -> robust accuracy in percent at each of its strengths, as the run stands now."""
    return {name: case.store.table([name]).outcome(name).accuracies() for name in case.wanted}


def verification_of(case: Case, judged: Judged, before: Mapping[str, NDArray[np.float64]]) -> Verification:
    """``before``: :func:`accuracies_of` without the examples, which the run holds by now."""
    refused = {reason: int((judged.refusal == k).sum()) for k, reason in enumerate(REFUSALS)}
    origin = AttackRecord(name="examples", strengths=(1.0,), protocol={"search": EXAMPLES, "by": case.by}).origin
    attacks = {}
    for name in case.wanted:
        outcome = case.store.table([name]).outcome(name)
        attacks[name] = Confirmed(
            samples=len(judged.smallest(name, case.rows)),
            smaller=outcome.found_by().get(origin, 0),
            strengths=tuple(outcome.strengths.tolist()),
            before=tuple(before[name].tolist()),
            after=tuple(outcome.accuracies().tolist()),
        )
    return Verification(
        by=case.by,
        given=len(case.given),
        verified=judged.refusal < 0,
        refused={reason: count for reason, count in refused.items() if count},
        attacks=attacks,
        result=Result.of_run(case.store),
    )
