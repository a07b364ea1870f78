"""The parts of the README that are not written but read, between its marks ``<!-- generated: NAME -->``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from facts_catalogue import merged, said
from facts_optimality import NORMS, best_of_others, optimality_rows
from facts_search import curve_cost_table
from facts_stored import ROOT, stored

from robustatlas.attacks.catalogue import catalogue

REGION = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _libraries(subject: str) -> str:
    """The other libraries that were measured on a network."""
    return ", ".join(sorted({row["library"] for row in optimality_rows(subject)} - {"robustatlas"}))


def cost_and_strength() -> str:
    """The README's part of numbers: all that it says of cost and strength, from stored results."""
    measured, one = stored("curve_cost"), stored("curve_cost")["curves"][0]
    ours = {r["norm"]: r for r in optimality_rows("fashion-max") if r["attack"] == "descent, default"}
    others = {norm: best_of_others("fashion-max", norm) for norm in NORMS}
    first, count = ours["linf"]["first"], ours["linf"]["samples"]
    passes = {(row["norm"], row["effort"]): row["ours_passes"] for row in measured["curves"]}
    low = [passes[norm, "low"] / passes[norm, "default"] for norm, effort in passes if effort == "low"]
    paragraph = (
        f"Beside MultiRobustBench's procedure (bisection by pyautoattack's APGD-T and FAB-T): {one['samples']} MNIST images, "
        f"{measured['threads']} threads of an x86-64 machine. Last column: mean (largest) difference in points, below zero where we found more. "
        f"`--effort low` takes {100 * min(low):.0f} to {100 * max(low):.0f} % of the passes there. "
        f"[Optimality](docs/research/optimality.md) (1: nobody found smaller) on Fashion-MNIST images {first:,} to "
        f"{first + count - 1:,}, which decided next to nothing: {_optimalities(ours)}; best of {_libraries('fashion-max')}: "
        f"{_optimalities(others)}."
    )
    prose = textwrap.fill(
        paragraph.replace(" %", "\N{NO-BREAK SPACE}%"), 120, break_long_words=False, break_on_hyphens=False
    )
    return f"{curve_cost_table(('default',))}\n\n{prose}"


def _optimalities(rows: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{norm} {rows[norm]['optimality']:.3f}" for norm in NORMS)


def default_descent() -> str:
    found = merged({norm: said(catalogue()[norm]) for norm in NORMS})
    return (
        textwrap.fill(
            "; ".join(f"`{names}`: {words}" for words, names in found), 120, initial_indent="  ", subsequent_indent="  "
        )
        + "."
    )


README_PARTS: dict[str, Callable[[], str]] = {"cost": cost_and_strength, "default-descent": default_descent}


def with_facts(readme: str) -> str:
    """The README with its generated parts as they are now."""
    return REGION.sub(lambda part: f"{part[1]}{README_PARTS[part[2]]()}\n{part[3]}", readme)


def write() -> None:
    """Write the README's parts as they are now."""
    page = ROOT / "README.md"
    page.write_text(with_facts(page.read_text(encoding="utf-8")), encoding="utf-8")
