"""Does the diagnosis tell broken defenses from sound networks? A confusion table on the shelf of the package.

Of each network: robust accuracy (linf at 0.05, 0.1 and 0.2) by the default evaluation, and the best known: the smaller
of that and of the adaptive attack that its entry names (of those without one, of Square). Overestimated is what stands
more than 5 points above the best known at any of the strengths. Thresholds of the deciding indicators are set on one
half of the shelf (every second network by name) as the middle between the largest share of a network that is not
overestimated and the smallest of one that is; the confusion table of the other half is reported with these, and that of
all networks with the thresholds that the package has.

    python benchmarks/trust.py [--samples 40] [--only NAME,NAME] [--output benchmarks/results/trust.json]
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import robustatlas as ra
from resumed import Resumed, Row
from robustatlas.models.broken import BROKEN, SOUND

STRENGTHS = [0.05, 0.1, 0.2]
POINTS = 5.0


DATA = ra.load_dataset("digits")


def robust(model: ra.Classifier, attack: str, samples: int, diagnose: bool = False) -> ra.Result:
    given: dict[str, Any] = {"strengths": {attack: STRENGTHS}, "samples": samples, "progress": False}
    return ra.evaluate(model, DATA, attack, diagnose=diagnose, **given)


def sizes(result: ra.Result) -> np.ndarray[Any, Any]:
    return result.minimal_size(result.attacks[0])


def accuracies(found: np.ndarray[Any, Any]) -> list[float]:
    return [round(100 * float((found > strength * (1 + 1e-5)).mean()), 1) for strength in STRENGTHS]


def look(source: str, samples: int) -> dict[str, Any]:
    """One network of the shelf."""
    kind, _, name = source.partition(":")
    model = ra.load_model(source)
    default = robust(model, "linf", samples, diagnose=True)
    adaptive, diagnosis = sizes(default), default.diagnosis
    assert diagnosis is not None
    if kind == "broken":
        defense = BROKEN[name]
        told = defense.exposed is not None or defense.draws is not None
        adaptive = np.minimum(adaptive, sizes(robust(defense.attacked(), "linf" if told else "square-linf", samples)))
    found, known = map(accuracies, (sizes(default), adaptive))
    return {
        "network": source,
        "default": found,
        "best known": known,
        "overestimated by": round(float(max(np.subtract(found, known))), 1),
        "verdict": diagnosis.verdict,
        "flags": list(diagnosis.flags),
        "looked at": len(diagnosis.record.index),
        "passes": diagnosis.record.forward + diagnosis.record.backward,
        "shares": {f.name: None if f.share is None else round(f.share.value, 1) for f in diagnosis.indicators},
    }


def confusion(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Networks by what they are and whether the verdict speaks against them."""
    table = dict.fromkeys(("overestimated, flagged", "overestimated, silent", "right, flagged", "right, silent"), 0)
    for row in rows:
        what = "overestimated" if row["overestimated by"] > POINTS else "right"
        table[f"{what}, {'flagged' if row['verdict'] in ('masked', 'doubtful') else 'silent'}"] += 1
    return table


def halves(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A threshold of the largest share of doubtful samples, set on one half and tried on the other."""
    deciding = ("zero-gradient", "gradient", "border-gradient", "random", "batch", "probabilities")
    ordered = sorted(rows, key=lambda row: row["network"].partition(":")[2])

    def worst(row: dict[str, Any]) -> float:
        return max(row["shares"].get(name) or 0.0 for name in deciding)

    one, other = ordered[::2], ordered[1::2]
    bad = [worst(row) for row in one if row["overestimated by"] > POINTS]
    good = [worst(row) for row in one if row["overestimated by"] <= POINTS and not row["network"].startswith("broken")]
    threshold = (max(good, default=0.0) + min(bad, default=100.0)) / 2
    table = dict.fromkeys(("overestimated, flagged", "overestimated, silent", "sound, flagged", "sound, silent"), 0)
    for row in other:
        if row["overestimated by"] > POINTS or row["network"].startswith("sound"):
            what = "overestimated" if row["overestimated by"] > POINTS else "sound"
            table[f"{what}, {'flagged' if worst(row) > threshold else 'silent'}"] += 1
    return {"threshold set on one half, %": round(threshold, 1), "the other half": table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sources = [f"sound:{name}" for name in SOUND] + [f"broken:{name}" for name in BROKEN]
    chosen = given.only.split(",") if given.only else sources

    def summary(rows: list[Row]) -> dict[str, Any]:
        found = {"confusion": confusion(rows), "halves": halves(rows)}
        return found | {"samples": given.samples, "strengths": STRENGTHS}

    console, kept = Console(), Resumed(given.output, summary)
    for source in chosen:
        if source not in kept:
            kept.add(look(source, given.samples))
            console.print(kept.rows[-1], soft_wrap=True)
    rows = kept.rows
    table = Table("network", "default", "best known", "over by", "verdict", "flags")
    for row in rows:
        cells = (
            row["network"],
            row["default"],
            row["best known"],
            row["overestimated by"],
            row["verdict"],
        )
        table.add_row(*map(str, cells), ", ".join(row["flags"]))
    console.print(table, confusion(rows), halves(rows))


if __name__ == "__main__":
    main()
