"""Coverage of the intervals of a randomised model's robust accuracy, whose true value is known in closed form.

    python benchmarks/coverage.py [--seeds 100] [--samples 50] [--effort default] [--case NAME] [--output FILE.json]

Each seed has samples, draws and searches of its own. Two models of two classes:

- *noise only*: right with a probability that the input says and no attack changes; it is right at the threshold of a
  half where that probability is larger. What counts here is that no lucky draw does.
- *behind noise*: the sign of <w, x> + b + 0.3 z with z standard normal. A sample is broken at L-inf strength e where
  <w, x> + b is below e |w|_1; <w, x> + b is normal, which gives the true accuracy.

The second needs a search that finds what there is: what one of low effort misses is no chance.

Exactly 95 in 100 such intervals would be 93 of 100 seeds or more in 7 of 8 cases; exact ones hold a little more.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from numpy.random import Generator, default_rng
from rich.console import Console
from rich.table import Table
from scipy.stats import norm
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.definition import Effort
from robustatlas.report.facts import facts_of

QUALITIES, SHARES = np.array([0.1, 0.3, 0.4, 0.6, 0.7, 0.9]), np.array([0.1, 0.1, 0.1, 0.3, 0.2, 0.2])
WEIGHT, SPREAD, DEVIATION = torch.tensor([1.0, -0.5, 0.25, 0.75, -1.0, 0.5], dtype=torch.float64), 0.05, 0.3
STRENGTHS = (0.01, 0.02, 0.04)


class NoiseOnly(nn.Module):
    """Right with the probability that the first input says, rounded to tenths."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        right = torch.rand(len(x)) < ((x[:, 0] * 10).round() / 10).detach()
        sign = torch.where(right, 1.0, -1.0)
        return torch.stack([sign, -sign], 1) * (1 + 0.01 * x.sum(1, keepdim=True)) * self.scale


class BehindNoise(nn.Module):
    """The sign of <w, x - 1/2> + noise."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(WEIGHT)

    def forward(self, x: Tensor) -> Tensor:
        margin = (x - 0.5) @ self.weight
        margin = margin + DEVIATION * torch.randn_like(margin)
        return torch.stack([margin, -margin], 1)


@dataclass(frozen=True)
class Case:
    """A model, its samples of class 0, and its true robust accuracies in percent."""

    model: ra.Classifier
    samples: Callable[[Generator, int], np.ndarray]
    strengths: tuple[float, ...]
    true: tuple[float, ...]


def noise_only() -> Case:
    def samples(rng: Generator, count: int) -> np.ndarray:
        inputs = np.stack([rng.choice(QUALITIES, count, p=SHARES), rng.uniform(0.2, 0.8, count)], 1)
        return inputs.astype(np.float32)

    return Case(ra.Classifier(NoiseOnly(), draws=1), samples, (0.01,), (100 * float(SHARES[QUALITIES > 0.5].sum()),))


def noisy_linear_case() -> Case:
    """Return the case of inputs of deviation 0.05 about a mean that lies 0.1 on the right side of the boundary."""
    weight, ahead = WEIGHT.numpy(), 0.1
    mean = 0.5 + ahead * weight / (weight @ weight)

    def samples(rng: Generator, count: int) -> np.ndarray:
        return rng.normal(mean, SPREAD, (count, len(weight)))

    reach = np.array(STRENGTHS) * np.abs(weight).sum()
    true = 100 * norm.cdf((ahead - reach) / (SPREAD * np.linalg.norm(weight)))
    return Case(ra.Classifier(BehindNoise(), draws=16), samples, STRENGTHS, tuple(map(float, true)))


def interval_coverage(case: Case, seeds: int, count: int, effort: Effort) -> dict[str, object]:
    """Return for how many seeds the interval at each strength holds the true accuracy, with means of what was found."""
    begun, inside, values, widths = time.perf_counter(), [], [], []
    for seed in range(seeds):
        x = torch.from_numpy(case.samples(default_rng(seed), count))
        data = (x, torch.zeros(count, dtype=torch.long))
        result = ra.evaluate(case.model, data, "linf", strengths={"linf": case.strengths}, seed=seed, effort=effort)
        cells = facts_of(result).attacks[0].accuracy
        assert cells is not None
        inside.append([cell.low <= true <= cell.high for cell, true in zip(cells, case.true, strict=True)])
        values.append([cell.value for cell in cells])
        widths.append([cell.high - cell.low for cell in cells])
    return {
        "seeds": seeds,
        "samples": count,
        "effort": effort,
        "strengths": case.strengths,
        "true": case.true,
        "seeds_inside": np.sum(inside, axis=0).tolist(),
        "mean_accuracy": np.mean(values, axis=0).tolist(),
        "mean_width": np.mean(widths, axis=0).tolist(),
        "seconds": time.perf_counter() - begun,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--effort", default="default", choices=get_args(Effort))
    parser.add_argument("--case", help="one of the two alone")
    parser.add_argument("--output", type=Path, help="JSON file; cases that it holds and that are not run again stay")
    arguments = parser.parse_args()
    cases = {"noise only": noise_only(), "behind noise": noisy_linear_case()}
    asked = [arguments.case] if arguments.case else list(cases)
    found = {
        name: interval_coverage(cases[name], arguments.seeds, arguments.samples, arguments.effort) for name in asked
    }
    table = Table("model", "strength", "true accuracy", "mean found", "mean width", f"inside, of {arguments.seeds}")
    for name, one in found.items():
        columns = ("strengths", "true", "mean_accuracy", "mean_width", "seeds_inside")
        for epsilon, true, mean, width, inside in zip(*(one[column] for column in columns), strict=True):
            table.add_row(name, f"{epsilon:g}", f"{true:.2f}", f"{mean:.2f}", f"{width:.1f}", str(inside))
    Console().print(table)
    if arguments.output:
        known = json.loads(arguments.output.read_text(encoding="utf-8")) if arguments.output.exists() else {}
        arguments.output.write_text(json.dumps(known | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
