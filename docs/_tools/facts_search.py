"""Facts of the searches: gaps, cost of curves, what rules earn, and published procedures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facts_optimality import SUBJECTS
from facts_stored import mean, signed, stored, table


def gaps_table(held_out: bool = False) -> str:
    """The default beside the best known, on networks that were held out or on the others."""
    rows = [
        (
            f"`{row['networks']}`",
            f"`{row['attack']}`",
            row["samples"],
            f"{row['passes']:.0f}",
            f"{row['default']:.1f}",
            f"{row['best known']:.1f}",
            f"{row['mean gap']:.1f}",
            f"{row['largest gap']:.1f}",
            f"{row['seeds differ']:.0f} %",
        )
        for row in stored("gaps")
        if row["search"] == "descent" and row["held out"] is held_out
    ]
    head = (
        "network", "attack", "images", "passes", "robust accuracy", "best known", "mean gap", "largest gap", "seeds differ",
    )  # fmt: skip
    return table(head, rows, 7)


def gaps_minimum_table() -> str:
    rows = [
        (
            f"`{row['networks']}`",
            f"`{row['attack']}`",
            row["samples"],
            f"{row['passes']:.0f}",
            f"{row['within 1 %']:.0f} %",
        )
        for row in stored("gaps")
        if row["search"] == "minimum"
    ]
    return table(("network", "attack", "images", "passes", "within 1 %"), rows, 3)


def gaps_smoothed_table() -> str:
    """The default beside its runs through the true gradient alone and through smoothed ReLUs alone."""
    kinds = ("unsmoothed", "seed 0", "smoothed")
    rows = [
        (
            f"`{row['networks']}`",
            f"`{row['attack']}`",
            row["samples"],
            *("{:.1f}; {:,.0f}".format(*row["each"][kind]) for kind in kinds),
        )
        for row in stored("gaps_smoothed")
    ]
    return table(("network", "attack", "images", "true gradients alone", "default", "all runs smoothed"), rows, 3)


def gaps_budgets_table() -> str:
    """What more passes find where the default misses most."""
    budgets = ("seed 0", "seed 1", "2x", "4x", "high effort")
    rows = [
        (
            f"`{row['networks']}` ({row['samples']})",
            f"`{row['attack']}`",
            *("{:.1f}; {:,.0f}".format(*row["each"][budget]) for budget in budgets),
        )
        for row in stored("gaps_budgets")
    ]
    head = ("network (images)", "attack", "default", "another seed", "twice", "four times", "high effort")
    return table(head, rows, 5)


def frontier_table() -> str:
    rows = [
        (
            SUBJECTS.get(row["subject"], f"`{row['subject']}`"),
            f"{row['first']:,} on, {row['samples']}",
            f"`{row['norm']}`",
            f"{row['passes']:.0f}",
            *(f"{row[name]:.3f}" for name in ("frontier", "descent", "long ascents", "lowest known")),
        )
        for row in stored("frontier")
    ]
    head = ("network", "images", "norm", "passes", "`frontier`", "`descent`", "long ascents", "lowest known")
    return table(head, rows, 5)


def curve_cost_table(efforts: Sequence[str] = ("default", "low")) -> str:
    """Seconds and passes of a whole curve beside those of MultiRobustBench's procedure."""
    rows = [
        (
            f"{row['norm']}, {row['effort']} effort",
            f"{row['ours_seconds']:.1f} s",
            f"{row['procedure_seconds']:.0f} s",
            f"**{row['times_faster']:.0f}x**",
            f"{row['ours_passes']:,.0f}",
            f"{row['procedure_passes']:,.0f}",
            f"{signed(row['difference_mean'])} ({signed(row['difference_largest'])})",
        )
        for effort in efforts
        for row in stored("curve_cost")["curves"]
        if row["effort"] == effort
    ]
    head = (
        "20 strengths of",
        "robustatlas",
        "procedure",
        "faster",
        "passes a sample",
        "procedure's",
        "robust accuracy",
    )
    return table(head, rows, 6)


def threats_table() -> str:
    """The default beside the paper's optimizer on the same set: mean robust accuracy and passes."""
    rows = [
        (
            f"`{row['attack']}`, {row['model']}",
            f"{mean(row['default']['accuracies']):.1f}",
            f"{mean(row['paper_same_set']['accuracies']):.1f}",
            f"{row['default']['passes']:,.0f}",
            f"{row['paper_same_set']['passes']:,.0f}",
        )
        for row in stored("threats")
    ]
    return table(
        ("attack, network", "robust accuracy, default", "paper's optimizer", "passes, default", "paper's"), rows, 4
    )


def search_rules_table(attacks: Sequence[str], chosen: bool) -> str:
    """What taking each thing away changes, over those of the ``attacks`` and networks that were chosen on, or not."""
    known = [r for r in stored("search_rules") if r["chosen on"] == chosen and r["attack"] in attacks]
    rows = []
    for what in dict.fromkeys(row["without"] for row in known if row["without"] != "default"):
        found = [row for row in known if row["without"] == what]
        saved = mean([r["passes"] for r in found]) / mean([r["usual passes"] for r in found]) - 1
        differ = mean([r["seeds differ"] for r in found])
        worst = max(found, key=lambda row: row["mean"])
        where = f"{worst['mean']:+.1f} (`{worst['attack']}`, {worst['network']})"
        rows.append((what, f"{100 * saved:+.0f} %", f"{mean([r['mean'] for r in found]):+.2f}", where, f"{differ:.2f}"))
    return table(("without", "passes", "robust accuracy", "most, of an attack", "seeds differ"), rows, 4)


LP_MEASURED, IMAGES_MEASURED = ("linf", "l2", "l1"), ("stadv", "elastic", "gabor", "fog", "snow", "affine")


def search_rules_size() -> str:
    """How much was measured."""
    known = stored("search_rules")
    samples, networks = {row["samples"] for row in known}, list(dict.fromkeys(row["network"] for row in known))
    low, high = min(samples), max(samples)
    images = f"{low}" if low == high else f"{low} to {high}"
    return f"{images} correct images of each of {len(networks)} networks ({', '.join(networks)}), {known[0]['seeds']} seeds"


def imagenet_ua_table() -> str:
    rows = []
    for row in stored("imagenet_ua"):
        ours, theirs = row["default"], row["published"]
        rows.append(
            (
                f"`{row['attack']}`",
                row["model"],
                *(cell for way in (ours, theirs) for cell in _standing(way)),
            )
        )
    columns = ("seeds differ", "passes")
    return table(("attack", "network", "default", *columns, "published", *columns), rows, 6)


def _standing(way: dict[str, Any]) -> tuple[str, str, str]:
    """What stands at the levels, how seeds differ, and passes."""
    return ", ".join(f"{value:.0f}" for value in way["accuracies"]), _seeds_differ(way), f"{way['passes']:.0f}"


def _seeds_differ(way: dict[str, Any]) -> str:
    """By how many points, where they differ most."""
    return f"{max(max(level) - min(level) for level in zip(*way['accuracies by seed'], strict=True)):.1f}"


def drop_in_table() -> str:
    rows = []
    for row in stored("drop_in"):
        what = f"{row['data']}, {row['norm']} {row['eps']:.3g}, {row['version']}, {row['samples']} images"
        for way, found in row["ways"].items():
            passes = f"{found['forward']:,.0f} + {found['backward']:,.0f}"
            rows.append((what, way, found["standing"], passes, f"{found['seconds']:.0f}"))
            what = ""
    return table(("script", "by", "standing", "passes of an image", "seconds"), rows, 3)
