"""Facts of the optimality beside other libraries, and of efforts."""

from __future__ import annotations

from typing import Any

from facts_stored import Row, stored, table

SUBJECTS = {
    "mnist": "MNIST, network with masked gradients",
    "digits-linf": "digits, `digits-linf`",
    "fashion-max": "Fashion-MNIST, network trained by `max`",
}

NORMS = ("linf", "l2", "l1", "l0")

OURS = {
    "descent, low": "robustatlas, low effort",
    "descent, default": "robustatlas, default",
    "minimum, default": "robustatlas, `minimum`",
    "descent, high": "robustatlas, high effort",
}


def optimality_rows(subject: str) -> list[dict[str, Any]]:
    return [row for row in stored("optimality")["rows"] if row["subject"] == subject]


def _measured(row: dict[str, Any] | None) -> str:
    if row is None or row.get("optimality") is None:
        return ""
    return f"{row['passes']:,.0f}; {row['optimality']:.3f}; {row['near']:.0f} %"


def best_of_others(subject: str, norm: str) -> dict[str, Any]:
    """The attack of another library that comes nearest to the smallest examples known."""
    others = [r for r in optimality_rows(subject) if r["library"] != "robustatlas" and r["norm"] == norm]
    return max((row for row in others if row.get("optimality") is not None), key=lambda row: row["optimality"])


def optimality_table(subject: str) -> str:
    """Of every contender passes, optimality, and share of samples near the best known."""
    rows = optimality_rows(subject)
    ours = {(row["norm"], row["attack"]): row for row in rows if row["library"] == "robustatlas"}
    made: list[Row] = [(name, *(_measured(ours.get((norm, key))) for norm in NORMS)) for key, name in OURS.items()]
    others: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["library"] != "robustatlas" and row.get("optimality") is not None:
            others.setdefault(f"{row['attack']} ({row['library']})", {})[row["norm"]] = row
    ordered = sorted(others.items(), key=lambda item: -max(row["optimality"] for row in item[1].values()))
    made += [(name, *(_measured(by.get(norm)) for norm in NORMS)) for name, by in ordered]
    return table(("attack", *NORMS), made, len(NORMS))


def against_peers_table() -> str:
    """Optimality of the default against the union of the other libraries and itself alone."""
    rows = []
    for subject, name in SUBJECTS.items():
        mine = {r["norm"]: r for r in optimality_rows(subject) if r["attack"] == "descent, default"}
        first, count = mine["linf"]["first"], mine["linf"]["samples"]
        images = f"{first:,} to {first + count - 1:,}"
        rows.append((name, images, *(f"{mine[norm]['against peers']:.3f}" for norm in NORMS)))
    return table(("network", "images", *NORMS), rows, len(NORMS))


def effort_table() -> str:
    """Passes, optimality and share near the best known of each effort."""
    rows = []
    for subject, name in SUBJECTS.items():
        ours = {(row["norm"], row["attack"]): row for row in optimality_rows(subject)}
        for norm in NORMS:
            rows.append((f"`{norm}`, {name}", *(_measured(ours.get((norm, key))) for key in OURS)))
    return table(("attack, network", "low", "default", "`minimum`", "high"), rows, 4)


def effort_range(effort: str) -> tuple[float, float]:
    """Least and most times the passes of the default that an effort took, over all that was measured."""
    by = {(r["subject"], r["norm"], r["attack"]): r["passes"] for r in stored("optimality")["rows"] if r.get("passes")}
    ratios = [
        passes / by[subject, norm, "descent, default"]
        for (subject, norm, attack), passes in by.items()
        if attack == f"descent, {effort}"
    ]
    return min(ratios), max(ratios)
