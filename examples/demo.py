"""The robustness of three small networks at 20 strengths of three threat models, on 600 handwritten digits.

Run it with ``make demo``, or with another folder for the runs: ``python examples/demo.py runs/mine``. It ends with a
report and a leaderboard to look at. A second start goes on where the first one stopped.
"""

import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import robustatlas as ra
from robustatlas.metrics.references import Reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report

MODELS: dict[str, dict[str, float]] = {  # name -> what it was trained against, up to which strength
    "digits-standard": {},
    "digits-linf": {"linf": 0.15},
    "digits-l2": {"l2": 0.8},
}
STRENGTHS = {"linf": 0.24, "l2": 1.2, "l1": 3.2}
COUNT = 20


def main(folder: Path) -> None:
    console = Console(width=80)
    data = ra.load_dataset("digits")
    strengths = {attack: (np.arange(1, COUNT + 1) * last / COUNT).tolist() for attack, last in STRENGTHS.items()}
    began = time.perf_counter()
    results = {}
    for name in MODELS:
        console.print(f"[bold]builtin:{name}[/bold] against {', '.join(strengths)}, {len(data)} images of {data.name}")
        model = ra.load_model(f"builtin:{name}", name=name)
        results[name] = ra.evaluate(model, data, list(strengths), strengths=strengths, run=folder / name)
    for attack, grid in strengths.items():
        console.print(robust_accuracies(attack, grid, results))
    report, leaderboard = pages(folder, results)
    console.print(f"{time.perf_counter() - began:.0f} seconds. Now look closer:", highlight=False)
    for what, where in (("runs", folder), ("report", report), ("leaderboard", leaderboard)):
        console.print(f"  {what:12}{where}", soft_wrap=True, highlight=False)


def robust_accuracies(attack: str, strengths: list[float], results: dict[str, ra.Result]) -> Table:
    shown = range(3, len(strengths), 4)
    table = Table(title=f"{attack}: robust accuracy in percent at strength", title_justify="left")
    table.add_column("model")
    for heading in ("clean", *(f"{strengths[j]:.3g}" for j in shown), "passes"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        accuracies = result.outcome(attack).accuracies()
        cells = [f"{accuracies[j]:.1f}" for j in shown]
        table.add_row(name, f"{result.clean_accuracy:.1f}", *cells, f"{sum(result.passes(attack)):.0f}")
    return table


def pages(folder: Path, results: dict[str, ra.Result]) -> tuple[Path, Path]:
    """The report and the leaderboard; the best of the three models at each strength is the reference."""
    tables = {name: result.accuracies() for name, result in results.items()}
    reference = Reference.from_models("digits", "the best of the three built-in models", tables)
    report = build_report(list(results.values()), folder / "report.html", reference, trained_on=MODELS)
    about = {name: {"trained_on": trained_on} for name, trained_on in MODELS.items()}
    site = build_leaderboard(results.values(), folder / "leaderboard", reference, about, title="Digits")
    return report, site


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/demo"))
