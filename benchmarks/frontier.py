"""How near the frontier search comes to the lowest hypervolume known, and for how many passes.

Lowest known is, of each sample and strength, the lowest margin of the frontier search itself, of the descent, and of
APGD on the margin, 100 steps from three starts at every strength. Ten strengths; only samples that are classified
correctly count.

    python benchmarks/frontier.py [--subjects mnist,digits-linf] [--norms linf,l2] [--first 0] [--samples 40]
        [--effort default] [--output FILE.json]

Takes the subjects of optimality.py: the small MNIST network where ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA have it, the
built-in networks for digits, and NAME=MODEL@DATA.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import robustatlas as ra
from optimality import Subject, subject
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import AttackRun, Effort, grid
from robustatlas.metrics import adversarial_hypervolume
from robustatlas.optimizers.apgd import APGD

LAST = {
    "mnist": {"linf": 0.3, "l2": 2.5},
    "digits-linf": {"linf": 0.3, "l2": 1.5},
    "digits-standard": {"linf": 0.3, "l2": 1.5},
}
"""The largest strength of subjects that are known, in the norm's unit."""

OTHERWISE = {"linf": 0.2, "l2": 2.5}


def measured(who: Subject, norm: str, effort: Effort) -> dict[str, Any]:
    """The hypervolumes of one subject in one norm."""
    strengths = grid(LAST.get(who.name, OTHERWISE)[norm], 10)
    long = replace(attack_named(norm), runs=(AttackRun(APGD(100), "margin", count=3),), search_order=())
    found = {
        "frontier": ra.evaluate(
            who.model, who.data, norm, search="frontier", effort=effort, strengths={norm: strengths}, progress=False
        ),
        "descent": ra.evaluate(who.model, who.data, norm, strengths={norm: strengths}, progress=False),
        "long ascents": ra.evaluate(
            who.model, who.data, long, search="every", strengths={norm: strengths}, progress=False
        ),
    }
    clean = found["frontier"].clean_margin
    correct = clean > 0
    margins = {what: result.margins(norm)[correct] for what, result in found.items()}

    def volume(of: NDArray[np.float64]) -> float:
        return adversarial_hypervolume(of, clean[correct], strengths).mean

    lowest = volume(np.fmin.reduce(list(margins.values())))
    volumes = {what: round(volume(of), 4) for what, of in margins.items()}
    passes = sum(found["frontier"].passes(norm)) * len(correct) / max(correct.sum(), 1)
    return {
        "subject": who.name,
        "norm": norm,
        "samples": int(correct.sum()),
        "strengths": f"10 to {strengths[-1]:g}",
        "passes": round(float(passes), 1),
        **volumes,
        "lowest known": round(lowest, 4),
        "above it": round(max(0.0, volumes["frontier"] - lowest), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subjects", default="digits-linf,digits-standard")
    parser.add_argument("--norms", default="linf,l2")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--effort", default="default", choices=("low", "default", "high"))
    parser.add_argument(
        "--output", type=Path, help="rows of other subjects, norms, first samples and efforts that are in it stay"
    )
    asked = parser.parse_args()
    rows = []
    for name in asked.subjects.split(","):
        who = subject(name, asked.first, asked.samples)
        for norm in asked.norms.split(","):
            row = measured(who, norm, asked.effort)
            rows.append({**row, "first": asked.first, "effort": asked.effort})
            print(json.dumps(rows[-1]), flush=True)
    table = Table(*rows[0], title="Adversarial hypervolume")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=150).print(table)
    if asked.output:
        same = ("subject", "norm", "first", "effort")
        new = {tuple(row[each] for each in same) for row in rows}
        before = json.loads(asked.output.read_text()) if asked.output.exists() else []
        kept = [row for row in before if tuple(row[each] for each in same) not in new]
        asked.output.write_text(json.dumps(kept + rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
