"""Does the diagnosis tell broken defenses from sound networks? A confusion table on the networks of the examples.

Of each network: robust accuracy (linf at 0.05, 0.1 and 0.2) by the default evaluation, and the best known: the smaller
of that and of the adaptive attack that comes with it (of those without one, of Square). Overestimated is what stands
more than 5 points above the best known at any of the strengths. Thresholds of the deciding indicators are set on one
half of the networks (every second network by name) as the middle between the largest share of a network that is not
overestimated and the smallest of one that is; the confusion table of the other half is reported with these, and that of
all networks with the thresholds that the package has.

    python benchmarks/trust.py [--samples 40] [--only NAME,NAME] [--output benchmarks/results/trust.json]
"""

import argparse
import ast
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import robustatlas as ra

STRENGTHS = [0.05, 0.1, 0.2]
POINTS = 5.0
ROOT = Path(__file__).parents[1]
FOLDER = Path("examples", "broken_defenses")


DATA = ra.load_dataset("digits")


def sources_in(file: Path) -> dict[str, ast.FunctionDef]:
    """Return the public functions that a file of the folder defines, by their sources ``path/file.py:function``."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return {f"{file}:{function.name}": function for function in functions}


def sound_networks() -> list[str]:
    """Return the sources of the sound networks, relative to the root of the repository."""
    shipped = [f"builtin:digits-{name}" for name in ("standard", "linf", "l2")]
    return [*shipped, *sources_in(FOLDER / "sound_networks.py")]


def broken_defenses() -> dict[str, bool]:
    """Return the sources of the broken defenses, and whether each takes ``attacked``."""
    kinds = {path.name for path in (ROOT / FOLDER).glob("*.py")} - {"digits_networks.py", "sound_networks.py"}
    found = {source: node for kind in sorted(kinds) for source, node in sources_in(FOLDER / kind).items()}
    return {source: bool(function.args.args) for source, function in found.items()}


def robust(model: ra.Classifier, attack: str, samples: int, diagnose: bool = False) -> ra.Result:
    given: dict[str, Any] = {"strengths": {attack: STRENGTHS}, "samples": samples, "progress": False}
    return ra.evaluate(model, DATA, attack, diagnose=diagnose, **given)


def sizes(result: ra.Result) -> np.ndarray[Any, Any]:
    return result.minimal_size(result.attacks[0])


def accuracies(found: np.ndarray[Any, Any]) -> list[float]:
    return [round(100 * float((found > strength * (1 + 1e-5)).mean()), 1) for strength in STRENGTHS]


def look(source: str, samples: int) -> dict[str, Any]:
    """Measure one network."""
    model = ra.load_model(source)
    default = robust(model, "linf", samples, diagnose=True)
    adaptive, diagnosis = sizes(default), default.diagnosis
    assert diagnosis is not None
    broken = broken_defenses()
    if source in broken:
        has_gradient = broken[source]
        attacked = ra.load_model(source, arguments={"attacked": True}) if has_gradient else model
        adaptive = np.minimum(adaptive, sizes(robust(attacked, "linf" if has_gradient else "square-linf", samples)))
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
    ordered = sorted(rows, key=lambda row: row["network"].rpartition(":")[2])

    def worst(row: dict[str, Any]) -> float:
        return max(row["shares"].get(name) or 0.0 for name in deciding)

    sound, one, other = sound_networks(), ordered[::2], ordered[1::2]
    bad = [worst(row) for row in one if row["overestimated by"] > POINTS]
    good = [worst(row) for row in one if row["overestimated by"] <= POINTS and row["network"] in sound]
    threshold = (max(good, default=0.0) + min(bad, default=100.0)) / 2
    table = dict.fromkeys(("overestimated, flagged", "overestimated, silent", "sound, flagged", "sound, silent"), 0)
    for row in other:
        if row["overestimated by"] > POINTS or row["network"] in sound:
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
    sources = [*sound_networks(), *broken_defenses()]
    chosen = given.only.split(",") if given.only else sources

    console, rows = Console(), []
    if given.output and given.output.is_file():
        rows = json.loads(given.output.read_text(encoding="utf-8"))["networks"]
    done = {row["network"] for row in rows}
    for source in chosen:
        if source not in done:
            rows.append(look(source, given.samples))
            console.print(rows[-1], soft_wrap=True)
        if given.output:
            found = {"confusion": confusion(rows), "halves": halves(rows)}
            found |= {"samples": given.samples, "strengths": STRENGTHS, "networks": rows}
            given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
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
