"""Facts of the optimality beside other libraries, and of efforts."""

from typing import Any

from facts_stored import NORMS, stored, table

SUBJECTS = {
    "mnist": "MNIST, network with masked gradients",
    "digits-linf": "digits, `digits-linf`",
    "fashion-max": "Fashion-MNIST, network trained by `max`",
}


def optimality_rows(subject: str) -> list[dict[str, Any]]:
    return [row for row in stored("optimality")["rows"] if row["subject"] == subject]


def optimality_table() -> str:
    """Return the optimality of the default against the union of the other libraries and itself."""
    rows = []
    for subject, name in SUBJECTS.items():
        mine = {r["norm"]: r for r in optimality_rows(subject) if r["attack"] == "descent, default"}
        first, count = mine["linf"]["first"], mine["linf"]["samples"]
        images = f"{first:,} to {first + count - 1:,}"
        rows.append((name, images, *(f"{mine[norm]['against peers']:.3f}" for norm in NORMS)))
    return table(("network", "images", *NORMS), rows, len(NORMS))


def effort_range(effort: str) -> tuple[float, float]:
    """Return the smallest and the largest ratio of an effort's passes to the default's, over all measurements."""
    by = {(r["subject"], r["norm"], r["attack"]): r["passes"] for r in stored("optimality")["rows"] if r.get("passes")}
    ratios = [
        passes / by[subject, norm, "descent, default"]
        for (subject, norm, attack), passes in by.items()
        if attack == f"descent, {effort}"
    ]
    return min(ratios), max(ratios)
