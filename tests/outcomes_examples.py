"""Small manifests and tables for the tests of outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.outcomes import (
    AttackSettings,
    DataSettings,
    Manifest,
    ModelSettings,
    RunStore,
    SampleSettings,
    Settings,
)

STRENGTHS = (0.1, 0.2, 0.4)


def manifest(count: int = 7, shard_size: int = 3, **changes: Any) -> Manifest:
    settings: dict[str, Any] = {
        "model": ModelSettings(name="net", sha256="abc"),
        "data": DataSettings(name="digits"),
        "samples": SampleSettings(count=count),
        "attacks": {"linf": AttackSettings(strengths=STRENGTHS), "l2": AttackSettings(strengths=STRENGTHS)},
    }
    return Manifest(settings=Settings(**(settings | changes)), shard_size=shard_size)


def samples(positions: range) -> dict[str, NDArray[Any]]:
    index = np.array(positions)
    return {
        "index": index,
        "label": index % 3,
        "clean_prediction": np.where(index == 1, 9, index % 3),
        "clean_margin": (index / 10).astype(np.float32),
    }


def outcomes(positions: range, seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng([seed, positions.start])
    count, grid = len(positions), np.array(STRENGTHS)
    size = np.where(np.array(positions) == 1, 0.0, random.uniform(0.01, 0.6, count))
    size[size > grid[-1]] = np.inf
    strength = np.where(size == 0, 0.0, np.append(grid, np.inf)[np.searchsorted(grid, size)])
    margins = random.uniform(-1, 1, (count, len(grid))).astype(np.float32)
    margins[random.uniform(size=margins.shape) < 0.3] = np.nan
    return {
        "index": np.array(positions),
        "minimal_strength": strength,
        "minimal_size": size,
        "found_class": random.integers(0, 9, count),
        "forward": random.integers(0, 900, count),
        "backward": random.integers(0, 900, count),
        "seconds": np.full(count, 0.5),
        "margins": margins,
        "fooled": (strength[:, None] <= grid).astype(np.int8),
    }


def fill(store: RunStore, shards: range | None = None, attacks: tuple[str, ...] = ("linf", "l2")) -> RunStore:
    for shard in range(len(store.shards)) if shards is None else shards:
        positions = store.shards[shard]
        store.write_samples(shard, samples(positions))
        for seed, attack in enumerate(attacks):
            store.write(attack, shard, outcomes(positions, seed))
    return store
