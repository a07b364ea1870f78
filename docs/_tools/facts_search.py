"""Facts of the searches: gaps, cost of curves, what rules earn, and published protocols beside them."""

from collections.abc import Sequence

from facts_stored import mean, signed, stored, table


def gaps_table() -> str:
    """The default beside the best known, by attack: over all networks, and where most is missed."""
    known = [row for row in stored("gaps") if row["search"] == "descent"]
    rows = []
    for attack in dict.fromkeys(row["attack"] for row in known):
        found = [row for row in known if row["attack"] == attack]
        worst = max(found, key=lambda row: row["mean gap"])
        passes = [row["passes"] for row in found]
        rows.append(
            (
                f"`{attack}`",
                len(found),
                f"{min(passes):.0f} to {max(passes):.0f}" if len(found) > 1 else f"{passes[0]:.0f}",
                f"{mean([row['mean gap'] for row in found]):.1f}",
                f"{worst['mean gap']:.1f} (`{worst['networks']}`)",
            )
        )
    return table(("attack", "networks", "passes", "mean gap", "largest mean gap"), rows, 4)


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


def curve_cost_table(efforts: Sequence[str] = ("default", "low")) -> str:
    """Seconds and passes of a whole curve beside those of MultiRobustBench's protocol."""
    rows = [
        (
            f"{row['norm']}, {row['effort']} effort",
            f"{row['ours_seconds']:.1f} s",
            f"{row['protocol_seconds']:.0f} s",
            f"**{row['times_faster']:.0f}x**",
            f"{row['ours_passes']:,.0f}",
            f"{row['protocol_passes']:,.0f}",
            f"{signed(row['difference_mean'])} ({signed(row['difference_largest'])})",
        )
        for effort in efforts
        for row in stored("curve_cost")["curves"]
        if row["effort"] == effort
    ]
    head = (
        "20 strengths of",
        "robustatlas",
        "protocol",
        "faster",
        "passes a sample",
        "protocol's",
        "robust accuracy",
    )
    return table(head, rows, 6)


def threats_table() -> str:
    """The default beside the paper's optimizer on the same set, over all networks: robust accuracy and passes."""
    rows = []
    for attack in dict.fromkeys(row["attack"] for row in stored("threats")):
        found = [row for row in stored("threats") if row["attack"] == attack]
        ways = [[row[way] for row in found] for way in ("default", "paper_same_set")]
        accuracies = [f"{mean([mean(way['accuracies']) for way in each]):.1f}" for each in ways]
        rows.append((f"`{attack}`", *accuracies, *(f"{mean([way['passes'] for way in each]):,.0f}" for each in ways)))
    return table(("attack", "robust accuracy, default", "paper's optimizer", "passes, default", "paper's"), rows, 4)
