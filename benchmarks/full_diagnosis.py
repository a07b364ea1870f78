"""Does the full diagnosis raise a false alarm, and what does it cost?

Of each sound network: the sound ones of the shelf, and networks of unusual precision, classes and size. What they are
asked about are images that they classify correctly, by digits or, of networks that are not trained, by themselves.
Large images are read as in every evaluation: the attacks of the full diagnosis would take half an hour of a processor.

    python benchmarks/full_diagnosis.py [--samples 50] [--output benchmarks/results/full_diagnosis.json]

What the output has already is not computed again.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import robustatlas as ra
from resumed import Resumed
from robustatlas.data import Dataset
from robustatlas.models.broken import SOUND

Given = tuple[ra.Classifier, Dataset]
LARGEST = 3 * 64 * 64
"""Values of the largest images that the attacks of the full diagnosis are run on."""


def networks() -> Iterator[tuple[str, Callable[[], Given]]]:
    digits = ra.load_dataset("digits")
    for name in SOUND:
        yield f"sound:{name}", lambda name=name: (ra.load_model(f"sound:{name}"), digits)
    for name in ("linf", "attention", "residual"):
        yield f"sound:{name}, bfloat16", lambda name=name: (half(f"sound:{name}"), digits)
        yield f"sound:{name}, bfloat16 search", lambda name=name: (searched_in_half(f"sound:{name}"), digits)
    for classes, side in ((2, 8), (1000, 8), (10, 224), (1000, 224)):
        yield f"{classes} classes, {side} x {side}", lambda c=classes, s=side: untrained(c, s)


def half(source: str) -> ra.Classifier:
    net = ra.load_model(source).net
    assert isinstance(net, nn.Module)
    return ra.Classifier(deepcopy(net).to(torch.bfloat16))


def searched_in_half(source: str) -> ra.Classifier:
    return ra.Classifier(ra.load_model(source), precision="bfloat16")


def untrained(classes: int, side: int) -> Given:
    """A small convolutional network and smooth images, which it labels itself."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, classes),
    ).eval()  # fmt: skip
    x = nn.functional.interpolate(torch.rand(60, 3, 8, 8), size=side, mode="bilinear") if side > 8 else None
    x = torch.rand(60, 3, side, side) if x is None else x
    with torch.no_grad():
        return ra.Classifier(net), Dataset.of(x, net(x).argmax(1), f"{side} x {side}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    console, kept = Console(), Resumed(given.output)
    for name, made in networks():
        if name in kept or given.only not in name:
            continue
        model, data = made()
        began, wall = time.process_time(), time.perf_counter()
        full = math.prod(data.shape) <= LARGEST
        found = ra.diagnose(model, data, full=full, samples=given.samples)
        row = {
            "network": name,
            "full": full,
            "verdict": found.verdict,
            "flags": list(found.flags),
            "shares": {f.name: None if f.share is None else round(f.share.value, 1) for f in found.indicators},
            "samples": len(found.record.index),
            "passes": found.record.forward + found.record.backward,
            "processor seconds": round(time.process_time() - began, 1),
            "seconds": round(time.perf_counter() - wall, 1),
        }
        kept.add(row)
        console.print(row, soft_wrap=True)
    table = Table("network", "verdict", "flags", "samples", "passes", "processor s")
    for row in kept.rows:
        cells = (row["network"], row["verdict"], ", ".join(row["flags"]), row["samples"], row["passes"])
        table.add_row(*map(str, cells), str(row["processor seconds"]))
    console.print(table)


if __name__ == "__main__":
    main()
