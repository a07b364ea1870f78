"""Made-up results as runs on disk, for tests of what reads them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from robustatlas.outcomes import AttackRecord, CallRecord, DataRecord, Identity, ModelRecord, OutcomeTable, Run
from robustatlas.outcomes.columns import OUTCOME_COLUMNS
from robustatlas.outcomes.records import GradientRecord, spans_of
from robustatlas.results.result import Result


def write(
    path: Path,
    table: OutcomeTable,
    threats: dict[str, dict[str, Any]] | None = None,
    seed: int = 0,
    blind: Collection[str] = (),
    **data: Any,
) -> Path:
    """The run directory of a table; ``threats``: attack -> its recorded set; ``blind``: attacks that had no gradient at
    any sample; ``data``: of the data's record."""
    about = Identity(model=ModelRecord(name=table.name), data=DataRecord(name=table.data, **data), created="2026-01-02")
    run = Run.begin(path, about)
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
    run.add(records.values(), CallRecord(attacks=tuple(r.key for r in records.values()), spans=spans_of(table.index)))
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
        run.write(records[attack], columns, samples)
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
