"""Facts of certificates: both sides by network, exact sizes, a complete verifier beside them, and cost."""

from collections.abc import Iterable
from statistics import median
from typing import Any

from facts_stored import NORMS, stored, table


def _rows(part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = stored("certificates")[part]["rows"]
    return rows


def _name(row: dict[str, Any]) -> str:
    name = row["network"].removeprefix("builtin:")
    return f"`{name}`" if name.startswith("digits-") else name


def _verdict_counts(row: dict[str, Any]) -> str:
    return f"{row['proven']}, {row['refuted']}, {row['not decided']}"


def _rows_by_method(part: str) -> Iterable[tuple[dict[str, dict[str, Any]], dict[str, Any]]]:
    """Yield the rows of each network and strength by their methods, and one of them."""
    cases: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in _rows(part):
        cases.setdefault((row["network"], row["strength"]), {})[row["method"]] = row
    return ((methods, next(iter(methods.values()))) for methods in cases.values())


def complete_table() -> str:
    """Return counts of balls that are proven, refuted and not decided, with median and largest seconds."""
    rows = []
    for methods, one in _rows_by_method("complete"):
        cells = []
        for method in ("beta-crown", "Marabou"):
            seconds = methods[method]["seconds"]
            cells += [_verdict_counts(methods[method]), f"{median(seconds):.2f}; {max(seconds):.1f}"]
        rows.append((_name(one), one["strength"], one["samples"], methods["crown"]["proven"], *cells))
    head = ("network", "linf", "images", "`crown`", "`beta-crown`", "seconds", "Marabou", "seconds")
    return table(head, rows, 5)


def strengths_table() -> str:
    """Return counts proven by CROWN and by branch and bound at one strength, with processor seconds an image."""
    rows = [
        (
            _name(one),
            one["strength"],
            one["samples"],
            methods["crown"]["proven"],
            _verdict_counts(methods["beta-crown"]),
            methods["beta-crown"]["processor seconds a sample"],
        )
        for methods, one in _rows_by_method("strengths")
    ]
    return table(("network", "linf", "images", "`crown`", "`beta-crown`", "seconds"), rows, 3)


def widths_table() -> str:
    rows = [
        (
            _name(row),
            row["attack"],
            f"{row['closed %']:.1f} %",
            f"{row['upper / lower']:.2f}",
            f"{row['area between %']:.1f}",
            row["at"].replace(" robust at", " at"),
        )
        for row in _rows("widths")
    ]
    return table(("network", "attack", "closed", "upper / lower", "area", "at one strength"), rows)


def exact_table() -> str:
    """By search or method and norm the largest median of the networks, and the largest gap of all."""
    rows = []
    known = _rows("exact")
    for kind in dict.fromkeys(row.get("search", row.get("method")) for row in known):
        cells = []
        for norm in NORMS[:3]:
            some = [row for row in known if kind in (row.get("search"), row.get("method")) and row["attack"] == norm]
            largest = [row["largest gap %"] for row in some]
            medians = max(row["median gap %"] for row in some)
            cells.append(
                f"{medians:.2g}, {max(largest):.2g}" if None not in largest else f"{medians:.2g}, not all found"
            )
        samples = sum(row["samples"] for row in some)
        names = {"descent": "default search", "high": "high effort"}
        rows.append((names.get(kind, f"`{kind}`"), samples, *cells))
    return table(("", "points in l1", *NORMS[:3]), rows, 3)


def cost_table() -> str:
    rows = [
        (
            _name(row),
            f"`{row.get('method', 'crown')}`",
            row.get("attack", "linf"),
            row["samples"],
            row["bounds a sample"],
            f"{row['processor seconds']:.1f}",
            f"{row['forecast']:.1f}",
        )
        for part in ("cost", "residual")
        for row in _rows(part)
    ]
    return table(("network", "method", "attack", "images", "bounds", "seconds", "forecast"), rows, 4)
