"""The robustness of three small networks at 20 strengths of three threat models, on 600 handwritten digits.

Run it with ``make demo``, or with another folder for the runs: ``python examples/demo.py runs/mine``. A second start
goes on where the first one stopped.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import robustatlas as ra
from robustatlas.models import load_model

MODELS = ("digits-standard", "digits-linf", "digits-l2")
STRENGTHS = {"linf": 0.3, "l2": 1.5, "l1": 4.0}
COUNT = 20


def main(folder: Path) -> None:
    console = Console(width=110)
    data = ra.load_dataset("digits")
    strengths = {attack: (np.arange(1, COUNT + 1) * last / COUNT).tolist() for attack, last in STRENGTHS.items()}
    began = time.perf_counter()
    results = {}
    for name in MODELS:
        console.print(f"builtin:{name} on {len(data)} images of {data.name}: {', '.join(strengths)} -> {folder / name}")
        loaded = load_model(f"builtin:{name}")
        model = ra.Classifier(loaded.net, name=loaded.name)
        results[name] = ra.evaluate(model, data, list(strengths), strengths=strengths, run=folder / name)
    for attack, grid in strengths.items():
        console.print(robust_accuracies(attack, grid, results))
    console.print(f"{time.perf_counter() - began:.0f} s. Look closer: robustatlas show {folder / MODELS[0]}")


def robust_accuracies(attack: str, strengths: list[float], results: dict[str, ra.Result]) -> Table:
    shown = range(1, len(strengths), 2)
    table = Table(
        "model", "clean", *(f"{strengths[j]:.3g}" for j in shown), "passes", title=f"{attack}: robust accuracy (%)"
    )
    for name, result in results.items():
        accuracies = result.outcome(attack).accuracies()
        cells = [f"{accuracies[j]:.1f}" for j in shown]
        table.add_row(name, f"{result.clean_accuracy:.1f}", *cells, f"{sum(result.passes(attack)):.0f}")
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/demo"))
