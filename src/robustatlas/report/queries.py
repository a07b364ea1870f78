"""The table of success over queries on a report."""

from __future__ import annotations

from collections.abc import Sequence

from robustatlas.metrics.intervals import Interval
from robustatlas.report.facts.run import RunFacts

Row = tuple[str, float, list[Interval | None]]
"""An attack, a strength, and an entry for each limit; None beyond what the attack asked."""


def asked(facts: Sequence[RunFacts]) -> list[tuple[str, list[int], list[Row]]]:
    """Of each run of a model that could only be asked: its name, the numbers of queries, and the rows."""
    tables = []
    for run in facts:
        found = [success for attack in run.attacks for success in attack.queries]
        limits = sorted({limit for success in found for limit in success.limits})
        rows: list[Row] = []
        for success in found:
            entries = dict(zip(success.limits, success.success, strict=True))
            rows.append((success.attack, success.strength, [entries.get(limit) for limit in limits]))
        if rows:
            tables.append((run.name, limits, rows))
    return tables
