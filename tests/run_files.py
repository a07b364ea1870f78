"""Made-up results as runs on disk, for tests of what reads them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.outcomes import AttackRecord, CallRecord, DataRecord, Identity, ModelRecord, OutcomeTable, Run
from robustatlas.outcomes.records import GradientRecord, sample_spans
from robustatlas.outcomes.tables import OUTCOME_COLUMNS
from robustatlas.results.result import Result


def record_run(
    path: Path | None,
    table: OutcomeTable,
    threats: dict[str, dict[str, Any]] | None = None,
    seed: int = 0,
    blind: Collection[str] = (),
    images: NDArray[np.float32] | None = None,
    about: dict[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    command: str = "",
    **data: Any,
) -> Run:
    """Record a table as a run in a folder, or in memory where `path` is None.

    Args:
        path: the run directory.
        table: the outcomes.
        threats: attack -> its recorded threat model.
        seed: of all attacks.
        blind: attacks that had no gradient at any sample.
        images: kept as the adversarial examples of all samples under all attacks, [N, C, H, W].
        about: where and with what the parts were computed.
        warnings: of the evaluation.
        command: that started the evaluation.
        data: further fields of the record of the data.
    """
    identity = Identity(
        model=ModelRecord(name=table.name), data=DataRecord(name=table.data, **data), created="2026-01-02"
    )
    run = Run.begin(path, identity)
    records = {
        attack: AttackRecord(
            name=attack,
            strengths=tuple(outcome.strengths.tolist()),
            monotone=outcome.monotone,
            unit=outcome.unit,
            threat=(threats or {}).get(attack, {}),
            protocol={"seed": seed},
            gradient=GradientRecord(at=(), ways={}, within=0.05, without=1.0) if attack in blind else None,
        )
        for attack, outcome in table.outcomes.items()
    }
    keys = tuple(record.key for record in records.values())
    run.add(
        records.values(), CallRecord(attacks=keys, spans=sample_spans(table.index), warnings=warnings, command=command)
    )
    samples = {
        "index": table.index,
        "label": table.labels,
        "clean_prediction": table.clean_prediction,
        "clean_margin": table.clean_margin,
    }
    for attack, outcome in table.outcomes.items():
        seconds = np.full(table.samples, outcome.seconds / table.samples)
        none = np.full(table.samples, -1)
        known = {"index": table.index, "seconds": seconds, "rejected": np.zeros(table.samples, np.int64)}
        known |= {"found_run": none, "true_size": none.astype(np.float64)}
        columns = {name: known[name] if name in known else getattr(outcome, name) for name in OUTCOME_COLUMNS}
        run.write(records[attack], columns, samples, None if images is None else (table.index, images), about)
    return run


def write(path: Path, table: OutcomeTable, threats: dict[str, dict[str, Any]] | None = None, **recorded: Any) -> Path:
    """Record a table in a run directory, as `record_run` does, and return the directory."""
    record_run(path, table, threats, **recorded)
    return path


GRIDS = {"linf": [0.005 * k for k in range(1, 21)], "l2": [0.125 * k for k in range(1, 21)]}


def write_run(path: Path, name: str, scale: float, samples: int = 400, seed: int = 0, margins: bool = False) -> Path:
    """A run whose minimal sizes are exponential; the same seed draws the same difficulty for every sample."""
    return write(path, made_up(name, scale, samples, seed, margins))


def made_up(name: str, scale: float, samples: int = 400, seed: int = 0, margins: bool = False, **more: Any) -> Result:
    generator = np.random.default_rng(seed)
    wrong = generator.uniform(size=samples) < 0.1
    labels = np.arange(samples) % 10
    sizes, recorded = {}, {}
    for attack, grid in GRIDS.items():
        size = np.where(wrong, 0.0, scale * generator.exponential(grid[7], samples))
        size[size > grid[-1]] = np.inf
        levels = np.array(grid)[None, :]
        margin = np.where(size[:, None] == 0, -0.2, 0.9 * (1 - levels / np.maximum(size[:, None], 1e-9)))
        recorded[attack] = np.clip(margin, -1, 0.9) if margins else np.full((samples, len(grid)), np.nan)
        sizes[attack] = size
    return Result.from_arrays(
        labels=labels,
        clean_prediction=np.where(wrong, (labels + 1) % 10, labels),
        minimal_size=sizes,
        strengths=GRIDS,
        clean_margin=np.where(wrong, -0.2, 0.9),
        margins=recorded,
        model=name,
        **{"data": "cifar10"} | more,
    )
