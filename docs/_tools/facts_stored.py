"""Stored measurements, and tables of them."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

NORMS = ("linf", "l2", "l1", "l0")

Row = Sequence[object]


def table(head: Row, rows: Iterable[Row], numbers: int = 0) -> str:
    """A Markdown table; the last ``numbers`` columns are ranged right."""
    words = len(head) - numbers
    ruled = ["---"] * words + ["---:"] * numbers
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, ruled, *rows))


@cache
def stored(name: str) -> Any:
    """A file of ``benchmarks/results``."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
