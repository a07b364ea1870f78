"""How far found sizes are from exact ones: attacks beside complete certificates, on networks small enough for these.

Of the networks of two to four inputs the classes are those of random teacher networks, at points drawn uniformly; the
other is 64-16-16-10 on the digits. All are trained here, by a seed. A gap is what a found size is above the exact one,
in percent; in l0 the values more than needed.

    python benchmarks/exact_sizes.py [--networks 2,3,4,digits] [--norms linf,l2,l1,l0] [--samples 40] [--output FILE]

Rows of other networks and norms that are in the file stay.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import robustatlas as ra
from robustatlas.attacks.definition import grid

STRENGTHS = {"linf": grid(0.4), "l2": grid(0.8), "l1": grid(1.0), "l0": (1.0, 2.0, 3.0, 4.0)}
"""On two to four inputs; in digits up to four times as much."""
WAYS: dict[str, dict[str, Any]] = {
    "descent": {"search": "descent"},
    "minimum": {"search": "minimum"},
    "high effort": {"search": "descent", "effort": "high"},
}
DIGITS = "digits"
_CLASSES, _POINTS, _SQUARE = 3, 4000, 4


def layers(*sizes: int) -> nn.Sequential:
    """Flatten, then linear layers of these sizes with ReLUs between them."""
    made: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        made += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*made[:-1])


def taught(inputs: int) -> tuple[Tensor, Tensor]:
    """Points of the unit cube with the classes of a random network: those of its largest logits, each less its mean."""
    x = torch.rand(_POINTS, 1, 1, inputs)
    with torch.no_grad():
        logits = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, _CLASSES))(6 * (x - 0.5))
    return x, (logits - logits.mean(0)).argmax(1)


def subject(name: str, samples: int) -> tuple[ra.Classifier, ra.Dataset]:
    """The network of that name, and its first test images that it classifies correctly."""
    torch.manual_seed(0)
    if name == DIGITS:
        train, test = ra.load_dataset("digits", "train"), ra.load_dataset("digits")
        net, x, labels = layers(64, 16, 16, 10), train.images[torch.arange(len(train))], train.labels
        points, classes = test.images[torch.arange(len(test))], test.labels
    else:
        net = layers(int(name), 16, 16, _CLASSES)
        x, labels = taught(int(name))
        half = len(x) // 2
        points, classes, x, labels = x[half:], labels[half:], x[:half], labels[:half]
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(40):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(net(x[rows]), labels[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        right = (net(points).argmax(1) == classes).nonzero().squeeze(1)[:samples]
    data = ra.Dataset(points[right], classes[right], name=name)
    return ra.Classifier(net.eval(), name=name if name == DIGITS else f"{name} inputs"), data


def measured(model: ra.Classifier, data: ra.Dataset, norm: str) -> Iterator[dict[str, Any]]:
    """A row for each way to search."""
    begun = time.process_time()
    exact = ra.certify(model, data, norm, method="complete", progress=False).certified_size(norm)
    seconds = time.process_time() - begun
    if norm == "l0":
        exact = exact + 1  # nothing is found up to one value less
    times = _SQUARE if data.name == DIGITS else 1
    strengths = {norm: [round(times * strength, 6) for strength in STRENGTHS[norm]]}
    there = np.isfinite(exact)
    for way, settings in WAYS.items():
        result = ra.evaluate(model, data, norm, strengths=strengths, diagnose=False, progress=False, **settings)
        found = result.minimal_size(norm)
        gap = (found - exact if norm == "l0" else 100 * (found / exact - 1))[there]
        yield {
            "network": model.name,
            "norm": norm,
            "way": way,
            "samples": int(there.sum()),
            "passes": round(float(sum(result.passes(norm))), 1),
            "mean": round(float(gap.mean()), 3),
            "median": round(float(np.median(gap)), 3),
            "largest": round(float(gap.max()), 2),
            "missed": int((gap > (0 if norm == "l0" else 1)).sum()),
            "exact seconds": round(seconds / len(data), 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="2,3,4,digits")
    parser.add_argument("--norms", default=",".join(STRENGTHS))
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    for name in asked.networks.split(","):
        model, data = subject(name, asked.samples)
        for norm in asked.norms.split(","):
            rows = list(measured(model, data, norm))
            print(*map(json.dumps, rows), sep="\n", flush=True)
            if asked.output:
                before = json.loads(asked.output.read_text()) if asked.output.exists() else []
                others = [row for row in before if (row["network"], row["norm"]) != (model.name, norm)]
                asked.output.write_text(json.dumps(others + rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
