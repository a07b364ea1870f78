"""Small runs for the tests of outcomes."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.outcomes import AttackRecord, CallRecord, DataRecord, Identity, ModelRecord, OutcomeTable, Run
from robustatlas.outcomes.records import sample_spans

STRENGTHS = (0.1, 0.2, 0.4)
PARTS = (range(3), range(3, 6), range(6, 7))


def identity(**changes: Any) -> Identity:
    model = {"name": "net", "weights_sha256": "abcdef", "probe": ((1.0, 2.0), (3.0, -4.0))} | changes
    return Identity(model=ModelRecord(**model), data=DataRecord(name="digits"), created="2026-01-02T03:04:05+00:00")


def record(name: str = "linf", **changes: Any) -> AttackRecord:
    fields: dict[str, Any] = {
        "name": name, "strengths": STRENGTHS, "threat": {"kind": "Linf"}, "protocol": {"search": "every", "seed": 0},
    }  # fmt: skip
    return AttackRecord(**(fields | changes))


def plan(records: list[AttackRecord], index: NDArray[np.int64] | None = None, **changes: Any) -> CallRecord:
    positions = np.arange(7) if index is None else index
    return CallRecord(attacks=tuple(r.key for r in records), spans=sample_spans(positions), **changes)


def samples(positions: range) -> dict[str, NDArray[Any]]:
    index = np.array(positions)
    return {
        "index": index,
        "label": index % 3,
        "clean_prediction": np.where(index == 1, 9, index % 3),
        "clean_margin": (index / 10).astype(np.float32),
    }


def outcomes(positions: range, seed: int = 0, grid: tuple[float, ...] = STRENGTHS) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng([seed, positions.start])
    count, strengths = len(positions), np.array(grid)
    size = np.where(np.array(positions) == 1, 0.0, random.uniform(0.01, 0.6, count))
    size[size > strengths[-1]] = np.inf
    margins = random.uniform(-1, 1, (count, len(strengths))).astype(np.float32)
    margins[random.uniform(size=margins.shape) < 0.3] = np.nan
    return {
        "index": np.array(positions),
        "minimal_size": size,
        "true_size": np.full(count, -1.0),
        "found_class": random.integers(0, 9, count),
        "found_run": np.full(count, -1),
        "forward": random.integers(0, 900, count),
        "backward": random.integers(0, 900, count),
        "rejected": random.integers(0, 2, count),
        "seconds": np.full(count, 0.5),
        "margins": margins,
        "fooled": (size[:, None] <= strengths).astype(np.int8),
    }


def begin(path: Any, names: tuple[str, ...] = ("linf", "l2"), **changes: Any) -> Run:
    """A run that asks for some attacks on seven samples."""
    run = Run.begin(path, identity(**changes))
    records = [record(name) for name in names]
    run.add(records, plan(records))
    return run


def fill(run: Run, parts: tuple[range, ...] = PARTS, names: tuple[str, ...] = ("linf", "l2")) -> Run:
    """Write the parts of attacks that differ by their seeds."""
    for positions in parts:
        for name in names:
            seed = ("linf", "l2").index(name)
            run.write(record(name), outcomes(positions, seed), samples(positions), about={"host": "here"})
    return run


COMPARED = ("strengths", "minimal_size", "found_class", "margins", "fooled", "forward", "backward")


def assert_same(a: OutcomeTable, b: OutcomeTable) -> None:
    assert a.attacks == b.attacks
    for name in ("index", "labels", "clean_prediction", "clean_margin"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for attack in a.attacks:
        for name in COMPARED:
            np.testing.assert_array_equal(getattr(a.outcome(attack), name), getattr(b.outcome(attack), name))


def part_of(root: Path, table: str, first: int) -> Path:
    (file,) = root.glob(f"{table}/{first:09d}-*")
    return file


def key(name: str = "linf") -> str:
    return record(name).key
