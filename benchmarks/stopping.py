"""Do intervals hold that are looked at after every sample, and what do they save? By simulation.

Runs in random order over N samples of which a share is robust. Missed are runs in which any look left the truth out
(of 2,000 runs at 95 %, 131 misses are allowed: the 99.9 % point of the binomial distribution); saved are samples of N =
10,000 when the half-width is reached. Of audits (N = 1,000, 50 samples of which are searched again, three strengths)
those whose interval of the mean over the strengths left the truth out.

    python benchmarks/stopping.py [--runs 2000] [--output benchmarks/results/stopping.json]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robustatlas.metrics import audited, share_sequence

SHARES = (0.0, 0.05, 0.5, 0.9, 0.97)
POPULATIONS = (200, 1000)
WIDTHS = (3.0, 2.0, 1.0)
FALLING = ((0.0, 0.0, 0.0), (0.01, 0.01, 0.01), (0.0, 0.05, 0.2), (0.2, 0.2, 0.2), (0.02, 0.04, 0.3))


def draws(share: float, population: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    return generator.permutation(np.arange(population) < round(share * population))


def missed(share: float, population: int, runs: int) -> int:
    """Runs in which any look left the truth out."""
    generator, count = np.random.default_rng([round(1000 * share), population]), 0
    for _ in range(runs):
        hits = draws(share, population, generator)
        known, truth = share_sequence(hits, population), 100 * float(hits.mean())
        count += bool(((known.low > truth + 1e-9) | (known.high < truth - 1e-9)).any())
    return count


def needed(share: float, runs: int = 10, population: int = 10_000) -> dict[str, int]:
    """Mean samples until each half-width is reached."""
    generator, found = np.random.default_rng(round(1000 * share)), {width: [] for width in WIDTHS}
    for _ in range(runs):
        known = share_sequence(draws(share, population, generator), population)
        for width, counts in found.items():
            counts.append(int(np.argmax((known.high - known.low) / 2 <= width)) + 1)
    return {f"{width:g}": round(float(np.mean(counts))) for width, counts in found.items()}


def audits_missed(falling: tuple[float, ...], runs: int, population: int = 1000, count: int = 50) -> int:
    """Audits whose interval of the mean left out what the dear search leaves of all samples."""
    generator, missed_by = np.random.default_rng(round(1e4 * sum(falling))), 0
    for _ in range(runs):
        order = generator.random(population)
        robust = order[:, None] < np.array([0.9, 0.6, 0.3])
        falls = generator.random(population)[:, None] < np.maximum.accumulate(falling)
        rows = generator.permutation(population)[:count]
        truth = 100 * float((robust & ~falls).mean())
        _, low, high = audited(robust, rows, (robust & ~falls)[rows], [0.1, 0.2, 0.3]).mean
        missed_by += not low - 1e-9 <= truth <= high + 1e-9
    return missed_by


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {
        "runs": given.runs,
        "missed": {f"N = {n}": {str(p): missed(p, n, given.runs) for p in SHARES} for n in POPULATIONS},
        "samples of 10,000 until": {str(p): needed(p) for p in SHARES},
        "audits missed": {str(falling): audits_missed(falling, given.runs) for falling in FALLING},
    }
    Console().print(found)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
