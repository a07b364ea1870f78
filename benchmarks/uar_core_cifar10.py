"""Calibrate fog and snow on CIFAR-10 by UAR's rule, as small as a laptop allows: what `uar-core-cifar10` takes.

    python benchmarks/uar_core_cifar10.py FOLDER

Trains eight small networks on the first 8,000 of CIFAR-10's test images and measures them on 400 of the last 2,000 (an
hour on two cores); prints the strengths, which src/robustatlas/attacks/uar_core_cifar10.json keeps with the accuracies
behind them. Needs the data set (see docs/data_and_models.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import robustatlas as ra
from robustatlas.training import ReferencePlan, Settings, calibrate, make_reference

POWERS = [2.0**power for power in range(-10, 14)]
PLAN = ReferencePlan(
    "small-cnn",
    {
        "linf": [levels / 255 for levels in (1, 2, 4, 8, 16, 32)],
        "fog": [strength for strength in POWERS if strength >= 8],
        "snow": [strength for strength in POWERS if strength <= 1],
    },
    rule="ata",
    trained={"linf": [2 / 255, 8 / 255, 24 / 255], "fog": [64.0, 512.0], "snow": [0.03125, 0.125]},
    steps=5,
    settings=Settings(epochs=8, held_out=0),
    samples=400,
)
TRAINING = 8000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the trainings, which go on after a stop")
    arguments = parser.parse_args()
    images = ra.load_dataset("cifar10")
    training = images.chosen(torch.arange(TRAINING))
    reference = make_reference(PLAN, training, images.chosen(torch.arange(TRAINING, len(images))), arguments.folder)
    if reference is not None:
        for attack in ("fog", "snow"):
            print(attack, *calibrate(attack, reference.accuracies).strengths)


if __name__ == "__main__":
    main()
