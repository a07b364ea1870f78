"""Joint training against three norms, tested with three trainings each on Fashion-MNIST; networks and tables are kept
in a folder.

The strengths were chosen on the first 120 test images with the networks of the board, such that no norm contains the
others; test images 1,000 to 1,499 are measured here, which nothing was chosen on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from claims import Claim, joint_training, over_seeds
from networks import trained

import robustatlas as ra
from robustatlas.data import Dataset
from robustatlas.training import Settings, recipe_named

SEEDS = (0, 1, 2)
FIRST = 1000
"""Of the test images that count."""
STRENGTHS = {"linf": 0.15, "l2": 1.25, "l1": 12.0}
RECIPES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "linf": ("pgd", ("linf",)),
    "l2": ("pgd", ("l2",)),
    "l1": ("pgd", ("l1",)),
    "avg": ("avg", ("linf", "l2", "l1")),
    "max": ("max", ("linf", "l2", "l1")),
    "msd": ("msd", ("linf", "l2", "l1")),
}


@dataclass(frozen=True)
class Scale:
    """How much is done: training images, epochs, steps of crafting, test images."""

    training: int = 4000
    epochs: int = 8
    steps: int = 5
    samples: int = 500


def claims(folder: Path, scale: Scale = Scale(), seeds: Sequence[int] = SEEDS) -> list[Claim]:
    """All of them."""
    union = {name: [_union(folder, scale, name, seed) for seed in seeds] for name in RECIPES}
    means = {name: float(np.mean(values)) for name, values in union.items()}
    return joint_training(
        means,
        tuple(STRENGTHS),
        lambda one, other: over_seeds(np.subtract(union[one], union[other]).tolist()),
        f"Fashion-MNIST, {len(seeds)} seeds, {scale.samples} images, "
        + ", ".join(f"{norm} {strength:g}" for norm, strength in STRENGTHS.items()),
    )


def _union(folder: Path, scale: Scale, name: str, seed: int) -> float:
    """Accuracy in percent under all three norms at once."""
    recipe, norms = RECIPES[name]
    place = folder / f"fashion-{name}-seed{seed}"
    net = trained(
        place,
        "small-cnn",
        ra.load_dataset("fashion-mnist", "train").take(scale.training, stratified=True),
        recipe_named(recipe, {norm: STRENGTHS[norm] for norm in norms}, scale.steps, warmup=0.3),
        Settings(epochs=scale.epochs, learning_rate=3e-3, held_out=0, seed=seed),
    )
    data = ra.load_dataset("fashion-mnist")
    chosen = slice(FIRST, FIRST + scale.samples)
    table = ra.evaluate(
        ra.Classifier(net, name=name),
        Dataset.of(data.images[chosen].numpy(), data.labels[chosen].numpy(), data.name, data.classes),
        list(STRENGTHS),
        strengths={norm: [strength] for norm, strength in STRENGTHS.items()},
        run=place / "union",
        progress=False,
    )
    return 100 * float(table.survivors(STRENGTHS).mean())
