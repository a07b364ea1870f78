"""Facts of pages and README that are not written but read: from the catalogue, and from stored measurements.

``python docs/_tools/facts.py`` writes all of them into the pages, between ``<!-- generated: NAME -->`` and ``<!-- end -->``: a
table on lines of its own, or a few words within a sentence. A test compares what stands there.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from commands import reference
from facts_attacks import attacks_table, norm_attacks_table
from facts_catalogue import (
    everyday_table,
    lp_default,
    optimizers_table,
    papers_list,
    plans_table,
    rules_table,
    searches_table,
    suites_table,
)
from facts_certificates import complete_table, cost_table, exact_table, strengths_table, widths_table
from facts_intervals import interval_widths_table
from facts_measured import (
    autoattack_table,
    claims_table,
    compiled_table,
    coverage_table,
    papers_table,
    peers_table,
    randomised_table,
    scheduling_table,
    seconds_table,
    training_table,
    verdicts_table,
)
from facts_optimality import effort_range, optimality_table
from facts_search import (
    curve_cost_table,
    gaps_smoothed_table,
    gaps_table,
    threats_table,
)
from facts_stored import ROOT

PART = re.compile(r"(<!-- generated: ([a-z0-9-]+) -->)(\n?).*?(<!-- end -->)", re.DOTALL)


def _effort(effort: str) -> str:
    low, high = effort_range(effort)
    return f"{100 * low:.0f} to {100 * high:.0f} %" if effort == "low" else f"{low:.1f} to {high:.1f} times"


FACTS: dict[str, Callable[[], str]] = {
    "against-peers": optimality_table,
    "attacks": attacks_table,
    "beside-autoattack": autoattack_table,
    "beside-papers": papers_table,
    "beside-peers": peers_table,
    "certificates-both-sides": widths_table,
    "certificates-complete": complete_table,
    "certificates-cost": cost_table,
    "certificates-exact": exact_table,
    "certificates-strengths": strengths_table,
    "claims": claims_table,
    "commands": reference,
    "compiled": compiled_table,
    "coverage": coverage_table,
    "curve-cost": curve_cost_table,
    "everyday": everyday_table,
    "effort-high": lambda: _effort("high"),
    "effort-low": lambda: _effort("low"),
    "gaps": gaps_table,
    "gaps-smoothed": gaps_smoothed_table,
    "interval-widths": interval_widths_table,
    "lp-default": lp_default,
    "optimizers": optimizers_table,
    "papers": papers_list,
    "plans": plans_table,
    "randomised": randomised_table,
    "rules": rules_table,
    "same-sets": norm_attacks_table,
    "scheduling": scheduling_table,
    "searches": searches_table,
    "study-seconds": seconds_table,
    "suites": suites_table,
    "threats": threats_table,
    "training": training_table,
    "verdicts": verdicts_table,
}


def pages() -> Iterator[Path]:
    """All that people read: the README, the guides and the references."""
    yield ROOT / "README.md"
    yield from sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)


def with_facts(text: str) -> str:
    """A page with its generated parts as they are now."""
    return PART.sub(lambda part: f"{part[1]}{part[3]}{FACTS[part[2]]()}{part[3]}{part[4]}", text)


def write() -> None:
    """Write the generated parts of all pages as they are now."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (now := with_facts(text)) != text:
            page.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    write()
