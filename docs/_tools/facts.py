"""Facts of pages and README that are not written but read: from the catalogue, and from stored measurements.

On a page ``{generated} NAME`` is a table of `TABLES`, and ``{{ NAME }}`` in a sentence one of `inline()` (`generated.py`).
Into the README ``python docs/_tools/facts.py`` writes its parts (`facts_readme.py`), and a test compares.
"""

from __future__ import annotations

from collections.abc import Callable

from facts_catalogue import cite_table, kinds_table, merged, papers_list, said, searches_table, suites_table, what_runs
from facts_measured import (
    compiled_table,
    coverage_table,
    imagenet_ua_cost_table,
    inner_l1_table,
    interclass_table,
    randomised_table,
    scheduling_table,
    training_table,
)
from facts_optimality import NORMS, SUBJECTS, against_peers_table, effort_range, effort_table, optimality_table
from facts_search import (
    IMAGES_MEASURED,
    LP_MEASURED,
    curve_cost_table,
    drop_in_table,
    frontier_table,
    gaps_budgets_table,
    gaps_minimum_table,
    gaps_smoothed_table,
    gaps_table,
    imagenet_ua_table,
    search_rules_size,
    search_rules_table,
    threats_table,
)

from robustatlas.attacks.catalogue import catalogue

TABLES: dict[str, Callable[[], str]] = {
    "imagenet-ua": imagenet_ua_table,
    "imagenet-ua-cost": imagenet_ua_cost_table,
    "drop-in": drop_in_table,
    "kinds": kinds_table,
    "cite": cite_table,
    "suites": suites_table,
    "searches": searches_table,
    "papers": papers_list,
    "effort": effort_table,
    "gaps": gaps_table,
    "gaps-held-out": lambda: gaps_table(held_out=True),
    "gaps-budgets": gaps_budgets_table,
    "gaps-minimum": gaps_minimum_table,
    "gaps-smoothed": gaps_smoothed_table,
    "frontier": frontier_table,
    "curve-cost": curve_cost_table,
    "against-peers": against_peers_table,
    "threats": threats_table,
    "scheduling": scheduling_table,
    "compiled": compiled_table,
    "coverage": coverage_table,
    "randomised": randomised_table,
    "interclass": interclass_table,
    "training": training_table,
    "search-rules-lp": lambda: search_rules_table(LP_MEASURED, chosen=True),
    "search-rules-lp-other": lambda: search_rules_table(LP_MEASURED, chosen=False),
    "search-rules-images": lambda: search_rules_table(IMAGES_MEASURED, chosen=True),
    "search-rules-images-other": lambda: search_rules_table(IMAGES_MEASURED, chosen=False),
    "inner-l1": inner_l1_table,
    **{f"optimality-{subject}": lambda subject=subject: optimality_table(subject) for subject in SUBJECTS},  # type: ignore[misc]
}


def inline() -> dict[str, str]:
    """Facts within sentences."""
    low, high = effort_range("low"), effort_range("high")
    lp = {norm: said(catalogue()[norm]) for norm in NORMS}
    return {
        "search_rules_size": search_rules_size(),
        "effort_low": f"{100 * low[0]:.0f} to {100 * low[1]:.0f} %",
        "effort_high": f"{high[0]:.1f} to {high[1]:.1f} times",
        "linf_runs": lp["linf"],
        "linf_cites": ", ".join(f"{name} ({paper})" for name, paper in what_runs(catalogue()["linf"])),
        "lp_default": "; ".join(f"`{names[1]}`: {names[0]}" for names in merged(lp)),
        "attacks": str(len([name for name in catalogue() if not name.startswith("corruption-")])),
        "corruptions": str(len([name for name in catalogue() if name.startswith("corruption-")])),
    }


if __name__ == "__main__":
    import facts_readme

    facts_readme.write()
