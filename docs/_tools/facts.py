"""Facts of pages and README that are not written but read: from the catalogue, and from stored measurements.

On a page ``{generated} NAME`` is a table of `TABLES`, and ``{{ NAME }}`` in a sentence one of `inline()` (`generated.py`).
Into the README ``python docs/_tools/facts.py`` writes its parts (`facts_readme.py`), and a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from papers import PAPERS, cited

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.kinds import kinds, stages_run
from robustatlas.attacks.suites import SUITES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

Row = Sequence[object]

OPTIMIZERS = {
    "Adam": ("Adam", "Kingma and Ba 2015"),
    "APGD": ("APGD", "Croce and Hein 2020"),
    "APGDL1": ("APGD for l1", "Croce and Hein 2021"),
    "CarliniWagner": ("Carlini-Wagner", "Carlini and Wagner 2017"),
    "EAD": ("EAD", "Chen et al. 2018"),
    "FAB": ("FAB", "Croce and Hein 2020b"),
    "FMN": ("FMN", "Pintor et al. 2021"),
    "FrankWolfe": ("Frank-Wolfe", "Kang et al. 2019"),
    "VertexAscent": ("vertex ascent", ""),
    "HopSkipJump": ("HopSkipJump", "Chen et al. 2020"),
    "LPA": ("LPA", "Laidlaw et al. 2021"),
    "Once": ("one draw", ""),
    "PerceptualDescent": ("descent along the decision boundary", ""),
    "PGD": ("PGD", "Madry et al. 2018"),
    "PPGD": ("PPGD", "Laidlaw et al. 2021"),
    "Scan": ("scan of the one parameter", ""),
    "SigmaZero": ("sigma-zero", "Cinà et al. 2025"),
    "Square": ("Square", "Andriushchenko et al. 2020"),
}
"""Of each kind of optimizer the name that pages use, and the paper it is from (empty: nothing to cite)."""

HOPPING = ("basin-hopping restarts", "Wales and Doye 1997")


def what_runs(attack: Attack, search: Search | None = None) -> list[tuple[str, str]]:
    """Name and paper of all that a search runs of an attack, in order: what pages say of it comes from here."""
    found = [OPTIMIZERS[kind.__name__] for kind in kinds(attack, search)]
    return [*found, HOPPING] if any(stage.kick for stage in stages_run(attack, search)) else found


def said(attack: Attack, search: Search | None = None) -> str:
    return ", ".join(name for name, _ in what_runs(attack, search))


def table(head: Row, rows: Iterable[Row], numbers: int = 0) -> str:
    """A Markdown table; the last ``numbers`` columns are ranged right."""
    words = len(head) - numbers
    ruled = ["---"] * words + ["---:"] * numbers
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, ruled, *rows))


def grouped(attacks: Iterable[Attack], key: Callable[[Attack], Row]) -> list[Row]:
    """A row for each different key, which begins with the names of the attacks that share it."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for attack in attacks:
        groups.setdefault(tuple(key(attack)), []).append(f"`{attack.name}`")
    return [(" ".join(names), *values) for values, names in groups.items()]


def shown() -> list[Attack]:
    """The catalogue with one attack for all common corruptions."""
    corruptions = [attack for name, attack in catalogue().items() if name.startswith("corruption-")]
    others = [attack for name, attack in catalogue().items() if not name.startswith("corruption-")]
    return [*others, *corruptions[:1]]


def _named(markdown: str) -> str:
    """All corruptions by one name, of which the catalogue's table shows the first."""
    return re.sub(r"`corruption-[a-z0-9-]+`", "`corruption-NAME`", markdown)


def kinds_table() -> str:
    """Which kinds of optimizers each attack runs, by its default search and at one strength."""
    rows = grouped(shown(), lambda a: (f"`{a.searches[0]}`", said(a), said(a, "every")))
    return _named(table(("attack", "default search", "what it runs", "at one strength (`bisection`, `every`)"), rows))


def cite_table() -> str:
    """What to cite for each attack: where its set is from, and what the default search runs."""

    def sources(attack: Attack) -> Row:
        return attack.about.source, "; ".join(
            f"{name}: {paper}" if paper else name for name, paper in what_runs(attack)
        )

    return _named(table(("attack", "set and grid from", "what the default search runs"), grouped(shown(), sources)))


def suites_table() -> str:
    """The suites and their attacks."""
    rows = []
    for suite in SUITES.values():
        attacks = suite.build("default")
        names = " ".join(f"`{attack.name}`" for attack in attacks)
        if all(attack.name.startswith("corruption-") for attack in attacks):
            names = f"all {len(attacks)} `corruption-NAME`"
        rows.append((f"`{suite.name}`", suite.about, names))
    return table(("suite", "what it is", "attacks"), rows)


def searches_table() -> str:
    """Which searches are valid for which attacks, the default first."""
    rows = grouped(shown(), lambda a: (" ".join(f"`{search}`" for search in a.searches),))
    return _named(table(("attack", "searches, the default first"), rows))


def papers_list() -> str:
    return "\n".join(f"- {cited(name)}" for name in PAPERS)


@cache
def stored(name: str) -> Any:
    """A file of ``benchmarks/results``."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


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


def gaps_table() -> str:
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
        if row["search"] == "descent"
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


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}"


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
            f"{_signed(row['difference_mean'])} ({_signed(row['difference_largest'])})",
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
            f"{_mean(row['default']['accuracies']):.1f}",
            f"{_mean(row['paper_same_set']['accuracies']):.1f}",
            f"{row['default']['passes']:,.0f}",
            f"{row['paper_same_set']['passes']:,.0f}",
        )
        for row in stored("threats")
    ]
    return table(
        ("attack, network", "robust accuracy, default", "paper's optimizer", "passes, default", "paper's"), rows, 4
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


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


def interclass_table() -> str:
    libraries = ("robustatlas", "torch", "scikit-learn", "scipy")
    rows = [
        (norm, *(f"{one['libraries'][name]['seconds']:.1f}" if name in one["libraries"] else "" for name in libraries))
        for norm, one in stored("interclass_distances")["norms"].items()
    ]
    return table(("norm", *libraries), rows, 4)


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


def search_rules_table(attacks: Sequence[str], chosen: bool) -> str:
    """What taking each thing away changes, over those of the ``attacks`` and networks that were chosen on, or not."""
    known = [r for r in stored("search_rules") if r["chosen on"] == chosen and r["attack"] in attacks]
    rows = []
    for what in dict.fromkeys(row["without"] for row in known if row["without"] != "default"):
        found = [row for row in known if row["without"] == what]
        saved = _mean([r["passes"] for r in found]) / _mean([r["usual passes"] for r in found]) - 1
        differ = _mean([r["seeds differ"] for r in found])
        worst = max(found, key=lambda row: row["mean"])
        where = f"{worst['mean']:+.1f} (`{worst['attack']}`, {worst['network']})"
        rows.append(
            (what, f"{100 * saved:+.0f} %", f"{_mean([r['mean'] for r in found]):+.2f}", where, f"{differ:.2f}")
        )
    return table(("without", "passes", "robust accuracy", "most, of an attack", "seeds differ"), rows, 4)


LP_MEASURED, IMAGES_MEASURED = ("linf", "l2", "l1"), ("stadv", "elastic", "gabor", "fog", "snow", "affine")


def search_rules_size() -> str:
    """How much was measured."""
    known = stored("search_rules")
    samples, networks = {row["samples"] for row in known}, list(dict.fromkeys(row["network"] for row in known))
    low, high = min(samples), max(samples)
    images = f"{low}" if low == high else f"{low} to {high}"
    return f"{images} correct images of each of {len(networks)} networks ({', '.join(networks)}), {known[0]['seeds']} seeds"


def inner_l1_table() -> str:
    recipes = ("pgd", "max", "msd")
    rows = []
    for name, each in (stored("inner_l1")["summary"] | stored("inner_l1_digits")["summary"]).items():
        for by, one in each.items():
            accuracy = [one["accuracy"].get(recipe) for recipe in recipes]
            own = (f"{a['l1']:.0f} ({a['union']:.0f})" if a else "" for a in accuracy)
            found = (f"{one[what]:.0f}" for what in ("share_found", "lowest_share"))
            rows.append((name, by, *found, *own, f"{one['times_linf']:.2f}"))
    head = ("images", "inner attack", "found, %", "lowest, %", *(f"`{recipe}`" for recipe in recipes), "times linf")
    return table(head, rows, 6)


def _seeds_differ(way: dict[str, Any]) -> str:
    """By how many points, where they differ most."""
    return f"{max(max(level) - min(level) for level in zip(*way['accuracies by seed'], strict=True)):.1f}"


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


def imagenet_ua_cost_table() -> str:
    network, *maps = stored("imagenet_ua_cost")["rows"]
    rows = []
    for row in sorted(maps, key=lambda row: -row["seconds"]):
        of = [f"{100 * row[what] / network[what]:.1f} %" for what in ("seconds", "megabytes")]
        rows.append((f"`{row['map']}`", f"{row['seconds']:.4f}", of[0], f"{row['megabytes']:.0f}", of[1]))
    rows.append(("ResNet-50", f"{network['seconds']:.3f}", "", f"{network['megabytes']:.0f}", ""))
    return table(("map", "seconds", "of the network's", "MB", "of the network's"), rows, 4)


def drop_in_table() -> str:
    rows = []
    for row in stored("drop_in"):
        what = f"{row['data']}, {row['norm']} {row['eps']:.3g}, {row['version']}, {row['samples']} images"
        for way, found in row["ways"].items():
            passes = f"{found['forward']:,.0f} + {found['backward']:,.0f}"
            rows.append((what, way, found["standing"], passes, f"{found['seconds']:.0f}"))
            what = ""
    return table(("script", "by", "standing", "passes of an image", "seconds"), rows, 3)


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
    "gaps-minimum": gaps_minimum_table,
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


def merged(said_of: dict[str, str]) -> list[tuple[str, str]]:
    """What is said, and the names it is said of."""
    together: dict[str, list[str]] = {}
    for name, words in said_of.items():
        together.setdefault(words, []).append(name)
    return [(words, "`, `".join(names)) for words, names in together.items()]


if __name__ == "__main__":
    import facts_readme

    facts_readme.write()
