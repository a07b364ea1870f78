"""Pictures of CIFAR-10's size that replace CIFAR-10, so that pages are built without a download."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLASSES, SIDE = 10, 32


def striped_pictures(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images [N, 32, 32, 3] and labels [N]: stripes whose direction, width and colour belong to the class."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    angle = np.pi * labels / CLASSES + random.normal(0, 0.06, count)
    width = 0.35 + 0.12 * (labels % 3) + random.normal(0, 0.02, count)
    y, x = np.mgrid[0:SIDE, 0:SIDE] - SIDE / 2
    along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    waves = np.sin(width[:, None, None] * along + random.uniform(0, 2 * np.pi, count)[:, None, None])
    hue = 2 * np.pi * (labels / CLASSES)[:, None] + np.array([0, 2, 4]) + random.normal(0, 0.3, (count, 1))
    colour = 0.5 + 0.15 * np.cos(hue)
    images = colour[:, None, None] * (1 + 0.35 * waves[..., None]) + random.normal(0, 0.06, (count, SIDE, SIDE, 3))
    return (255 * images.clip(0, 1)).round().astype(np.uint8), labels


def replace_cifar10(folder: Path, train: int = 2000, test: int = 200) -> None:
    """Make `cifar10` such pictures, for this process and its children."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, seed in (("train", train, 0), ("test", test, 1)):
        images, labels = striped_pictures(count, seed)
        np.savez(folder / f"cifar10_{name}.npz", images=images, labels=labels)
    os.environ["ROBUSTATLAS_DATA"] = str(folder.resolve())
