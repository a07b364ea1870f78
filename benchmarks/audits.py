"""Do intervals of audits hold? By simulation.

Of N = 1,000 samples 50 are searched again, at three strengths. Counted are the audits whose interval of the mean over
the strengths leaves out what the stronger search leaves of all samples. Of 2,000 audits at 95 %, 131 may: the 99.9 %
point of the binomial distribution.

    python benchmarks/audits.py [--runs 2000] [--output benchmarks/results/audits.json]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robustatlas.metrics import audited

FALLING = ((0.0, 0.0, 0.0), (0.01, 0.01, 0.01), (0.0, 0.05, 0.2), (0.2, 0.2, 0.2), (0.02, 0.04, 0.3))


def audits_missed(falling: tuple[float, ...], runs: int, population: int = 1000, count: int = 50) -> int:
    """Return the number of audits whose interval of the mean leaves out what the stronger search leaves of all."""
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
        "audits missed": {str(falling): audits_missed(falling, given.runs) for falling in FALLING},
    }
    Console().print(found)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
