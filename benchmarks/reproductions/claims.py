"""What a reproduction says: a claim of a paper, what was measured here, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from robustatlas.metrics import Interval

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"


@dataclass(frozen=True)
class Claim:
    """One row.

    Attributes:
        paper: whose claim.
        claim: in a sentence.
        on: what it was measured on.
        measured: the numbers, with their intervals.
        verdict: "holds", "does not hold" or "not decided".
    """

    paper: str
    claim: str
    on: str
    measured: str
    verdict: str


def verdict(interval: Interval) -> str:
    """Of a claim that a number is positive: decided where its interval excludes 0."""
    if interval.low > 0:
        return HOLDS
    return FAILS if interval.high < 0 else OPEN


def of_several(intervals: Sequence[Interval]) -> str:
    """Of a claim that several numbers are positive.

    Example:
        >>> of_several([Interval(2.0, 1.0, 3.0, 0.95), Interval(-2.0, -3.0, -1.0, 0.95)])
        'holds for 1 of 2, does not hold for 1'
    """
    counts = {kind: sum(verdict(interval) == kind for interval in intervals) for kind in (HOLDS, FAILS, OPEN)}
    there = [kind for kind, count in counts.items() if count]
    if len(there) == 1:
        return there[0]
    first, *rest = (f"{kind} for {counts[kind]}" for kind in there)
    return ", ".join([f"{first} of {len(intervals)}", *rest])


def over_seeds(values: Sequence[float]) -> Interval:
    """Mean of a few runs with its 95 % interval by Student's t.

    Example:
        >>> print(over_seeds([1.0, 2.0, 3.0]))
        2.00 [-0.48, 4.48]
    """
    mean = float(np.mean(values))
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half, 0.95)


def joint_training(
    union: Mapping[str, float], singles: Sequence[str], gap: Callable[[str, str], Interval], on: str
) -> list[Claim]:
    """What Maini et al. 2020 say of AVG, MAX and MSD, from accuracies in percent under the union of attacks.

    ``singles``: those trained against one norm; ``gap``: the difference between two, with its interval.
    """
    best = max(singles, key=lambda name: union[name])
    accuracies = ", ".join(f"{name} {accuracy:.1f}" for name, accuracy in union.items())
    gains = {joint: gap(joint, best) for joint in ("avg", "max", "msd")}
    found = [
        Claim(
            "MSD",
            "joint training beats training against one norm in the union",
            on,
            f"{', '.join(f'{joint} {said(gain)}' for joint, gain in gains.items())} points over {best} "
            f"(union: {accuracies})",
            of_several(list(gains.values())),
        )
    ]
    for other in ("avg", "max"):
        ahead = gap("msd", other)
        found.append(
            Claim("MSD", f"MSD beats {other.upper()} in the union", on, f"{said(ahead)} points", verdict(ahead))
        )
    return found


def said(interval: Interval, unit: str = "") -> str:
    """``+3.1 [0.2, 6.0]``."""
    return f"{interval.value:+.1f}{unit} [{interval.low:.1f}, {interval.high:.1f}]"


def table(claims: Sequence[Claim]) -> str:
    """All claims as Markdown."""
    rows = [f"| {c.paper} | {c.claim} | {c.on} | {c.measured} | **{c.verdict}** |" for c in claims]
    return "\n".join(["| paper | claim | on | measured here | |", "|---|---|---|---|---|", *rows]) + "\n"


def write(claims: Sequence[Claim], path: Path) -> None:
    """All claims as JSON."""
    path.write_text(
        json.dumps([asdict(claim) for claim in claims], indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def read(path: Path) -> list[Claim]:
    """What :func:`write` wrote."""
    return [Claim(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
