"""Facts of everything else that benchmarks measure: speed, coverage, training."""

from collections.abc import Mapping, Sequence
from typing import Any

from facts_stored import stored, table


def compiled_table() -> str:
    with_, without = stored("compiled"), stored("compiled_without_bfloat16")
    rows = [
        (
            name,
            *(
                text
                for one in (with_, without)
                for text in (f"{1000 * one['seconds'][name]:.0f}", f"{one['times_faster'][name]:.1f}")
            ),
        )
        for name in with_["seconds"]
    ]
    head = ("network", "ms", "times faster", "ms without bfloat16 units", "times faster without")
    return table(head, rows, 4)


def coverage_table() -> str:
    rows = [
        (
            model,
            strength,
            *(f"{one[key][k]:.1f}" for key in ("true", "mean_accuracy", "mean_width")),
            f"{one['seeds_inside'][k]} of {one['seeds']}",
        )
        for model, one in stored("coverage").items()
        for k, strength in enumerate(one["strengths"])
    ]
    head = (
        "model",
        "linf",
        "true accuracy",
        "mean found",
        "mean width of the interval",
        "seeds whose interval holds it",
    )
    return table(head, rows, 5)


def randomised_table() -> str:
    one = stored("randomised")
    rows = [
        (
            strength,
            f"{ours['accuracy']:.1f}",
            f"{ours['low']:.1f} to {ours['high']:.1f}",
            f"{rand['judged']:.1f}",
            f"{rand['said']:.1f}",
        )
        for strength, ours, rand in zip(one["strengths"], one["ours"], one["autoattack rand"], strict=True)
    ]
    return table(("linf", "ours", "interval", "`rand`, fresh draws", "`rand`, as it says"), rows, 4)


def training_table() -> str:
    one = stored("training_overhead")
    rows = []
    for recipe, milliseconds in one["milliseconds_per_batch"].items():
        overhead = one["overhead_percent"].get(recipe)
        over = f"{overhead[0]:.1f} % [{overhead[1]:.1f}, {overhead[2]:.1f}]" if overhead else ""
        times = one["times_pgd"].get(recipe, 1 if recipe == "pgd" else None)
        rows.append((recipe, f"{milliseconds:.0f}", over, "" if times is None else f"{times:.2f}".removesuffix(".00")))
    return table(("recipe", "ms a batch", "over a bare loop", "times `pgd`"), rows, 3)


def scheduling_table() -> str:
    rows = (
        (
            f"{r['workers']:,}",
            f"{r['makespan_s']:,.0f}",
            f"{100 * r['efficiency']:.0f} %",
            f"{r['tail_s']:.0f}",
            f"{r['jobs']:,}",
        )
        for r in stored("scheduling")
    )
    return table(("workers", "seconds", "efficiency", "tail, seconds", "parts"), rows, numbers=5)


def claims_table() -> str:
    """Claims of papers by the study of them, without those that a small study of the paper has a verdict on."""
    judged = {row["effect"] for study in SMALL_STUDIES for row in stored(f"studies/{study}/tables")["verdicts"]}
    rows = [
        row for row in stored("studies/paper_claims/tables")["claims"] if row["effect"].split(": ", 1)[1] not in judged
    ]
    return effects_table([row for row in rows if not row["effect"].startswith("Robustness curves")])


def verdicts_table() -> str:
    """Verdicts at the end of the small studies, and the seconds that the studies took."""
    rows = []
    for study in SMALL_STUDIES:
        rows += [
            {**row, "effect": f"{study}: {row['effect']}"} for row in stored(f"studies/{study}/tables")["verdicts"]
        ]
    return effects_table(rows)


def seconds_table() -> str:
    """Seconds of the small studies, summed over their steps."""
    rows = []
    for study in SMALL_STUDIES:
        steps = stored(f"studies/{study}/seconds").values()
        rows.append((study, *(f"{sum(step[clock] for step in steps):,.0f}" for clock in ("wall", "processor"))))
    return table(("study", "seconds, machine shared", "seconds of one processor core"), rows, numbers=2)


SMALL_STUDIES = ("robustness-curves", "uar", "hypervolume", "multirobustbench")
"""Studies that end with verdicts on the effects of their papers."""


def effects_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Effects with the difference that was measured, the verdict, and what papers print."""
    cells = [(row["effect"], row["difference"], f"**{row['verdict']}**", *printed_cells(row)) for row in rows]
    return table(("effect", "difference here", "", *PRINTED_FOR), cells)


PRINTED_FOR = ("printed for cifar10", "printed for imagenet100")
"""Columns of numbers that papers print for other images than those measured here."""


def printed_cells(row: Mapping[str, str]) -> list[str]:
    """Return the numbers that papers print for a row, one for each of their data sets."""
    return [row.get(column, "none") for column in PRINTED_FOR]


PAPER_NUMBERS = {
    "uar": ("uar-printed", ("model", "attack"), ("linf 0.1", "elastic 2"), "UAR"),
    "multirobustbench": ("published", ("model", "number"), ("lpips", "linf"), "CR"),
}


def papers_table() -> str:
    """Return numbers of three papers beside those of the small studies; of the fourth the distances between classes."""
    rows = []
    for study, (name, keys, models, number) in PAPER_NUMBERS.items():
        for row in stored(f"studies/{study}/tables")[name]:
            said = " ".join(row[key] for key in keys)
            if row["model"].startswith(models) and (number in said or number == "UAR"):
                ours = row["ours"].split("\n")[0]
                called = f"UAR of {said}" if number == "UAR" else said
                rows.append((study, called, ours, row.get("printed", "none"), printed_cells(row)[0]))
    field = stored("studies/multirobustbench/tables")["field"]
    pairs = [
        (row[name.removesuffix(", printed")], row[name]) for row in field for name in row if name.endswith("printed")
    ]
    printed = [(ours, theirs) for ours, theirs in pairs if theirs != "none"]
    met = sum(abs(float(ours) - float(theirs)) < 0.01 for ours, theirs in printed)
    said = f"{met} of {len(printed)} alike"
    rows.append(("multirobustbench", "CR and SC of published defenses", said, f"{len(printed)} numbers", "none"))
    for row in stored("studies/robustness-curves/tables")["distances"]:
        if row["printed"] != "none":
            said = f"smallest {row['norm']} distance, {row['data']}"
            rows.append(("robustness-curves", said, row["smallest"], row["printed"], "none"))
    return table(("study", "number", "here", "printed for the same", PRINTED_FOR[0]), rows)


def autoattack_table() -> str:
    """Return AutoAttack's accuracy at one epsilon, and the accuracy of the whole curve there."""
    rows = []
    for row in stored("beside_autoattack")["rows"]:
        both = [row["autoattack"], row["robustatlas"]]
        told = [[f"{one['accuracy']:.1f} %" for one in both], [f"{one['passes']:,.0f}" for one in both]]
        rows.append((_row_label(row), *told[0], *told[1], *(_seconds_by_threads(one)["2"] for one in both)))
    head = ("network", "AutoAttack", "here", "its passes", "ours", "its seconds", "ours, for 20 strengths")
    return table(head, rows, 6)


def peers_table() -> str:
    """Return accuracy, passes and seconds of suites of other libraries at one epsilon, and of ours."""
    rows = []
    for row in stored("beside_peers")["rows"]:
        network = _row_label(row)
        for name in (name for name in SUITES if name in row):
            way = row[name]
            seconds = [way["seconds"][count] for count in ("1", "2")]
            rows.append((network, SUITES[name], f"{way['accuracy']:.1f} %", f"{way['passes']:,.0f}", *seconds))
            network = ""  # once
    return table(("network", "suite", "robust accuracy", "passes", "seconds, one core", "two"), rows, 4)


SUITES = {
    "autoattack": "AutoAttack",
    "foolbox": "foolbox: FMN, PGD",
    "adv-lib": "adv-lib: APGD, FAB",
    "robustatlas": "here, 20 strengths",
}


def _row_label(row: Mapping[str, Any]) -> str:
    return f"{row['data']}, {row['samples']} images, linf {row['eps']:.3g}"


def _seconds_by_threads(way: Mapping[str, Any]) -> Mapping[str, float]:
    """Return seconds by number of threads; the oldest rows were measured on two threads only."""
    return way["seconds"] if isinstance(way["seconds"], dict) else {"2": way["seconds"]}
