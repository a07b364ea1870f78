"""How long the metrics take: 10,000 samples x 18 attacks x 20 strengths, 1,000 bootstrap replicates.

python benchmarks/metrics_speed.py --output metrics_speed.json
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robustatlas import metrics
from robustatlas.metrics import AccuracyStatistics, OutcomeTable, SampleStatistic
from robustatlas.metrics.references import load_reference

SAMPLES, REPLICATES = 10_000, 1_000


def synthetic(name: str, seed: int) -> OutcomeTable:
    """Minimal sizes that follow each attack's scale in the reference, for all its 18 adversarial attacks."""
    generator = np.random.default_rng(seed)
    reference = load_reference("multirobustbench-cifar10").accuracies
    attacks = [attack for attack in reference.attacks if not attack.startswith("corruption-")]
    misclassified = generator.uniform(size=SAMPLES) < 0.1
    strengths = {attack: reference.strengths(attack) for attack in attacks}
    sizes = {
        attack: np.where(misclassified, 0.0, generator.exponential(grid[9], SAMPLES))
        for attack, grid in strengths.items()
    }
    return OutcomeTable.from_sizes(name, np.zeros(SAMPLES, np.int64), sizes, strengths)


def timed(what: str, call: Callable[[], object]) -> tuple[str, float]:
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    print(f"{what:60} {seconds:8.3f} s")
    return what, seconds


def every_statistic(outcomes: OutcomeTable) -> dict[str, SampleStatistic]:
    reference = load_reference("multirobustbench-cifar10")
    statistics = AccuracyStatistics(outcomes)
    attacks = reference.ranked
    ratios = {kind: statistics.competitiveness(reference, kind, attacks) for kind in ("ind-avg", "ind-worst", "exp")}
    uars = {f"UAR {attack}": statistics.uar(reference, [attack]) for attack in attacks}
    return {**ratios, **uars, "mUAR": statistics.uar(reference, attacks), "average": statistics.average()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    first, second = synthetic("a", 0), synthetic("b", 1)
    ours, theirs = every_statistic(first), every_statistic(second)
    margins = np.random.default_rng(0).uniform(-1, 1, (SAMPLES, 10))
    curves = [metrics.RobustnessCurve.of(outcomes.outcome("linf")) for outcomes in (first, second)]
    found = dict(
        [
            timed("accuracy table", first.accuracies),
            timed(
                f"intervals of {len(ours)} metrics", lambda: metrics.confidence_intervals(ours, replicates=REPLICATES)
            ),
            timed(f"paired bootstrap of {len(ours)} metrics", lambda: metrics.paired_differences(ours, theirs)),
            timed("McNemar at 18 x 20 strengths with Holm", lambda: metrics.mcnemar_at_strengths(first, second)),
            timed("adversarial hypervolume", lambda: metrics.adversarial_hypervolume(margins)),
            timed("crossings of two curves", lambda: curves[0].crossings(curves[1])),
            timed("simultaneous band", curves[0].band),
        ]
    )
    if arguments.output:
        record = {
            "samples": SAMPLES,
            "attacks": len(first.attacks),
            "replicates": REPLICATES,
            "numpy": np.__version__,
            "machine": platform.platform(),
            "seconds": found,
        }
        arguments.output.write_text(json.dumps(record, indent=1) + "\n")
        print(f"Written: {arguments.output}")


if __name__ == "__main__":
    main()
