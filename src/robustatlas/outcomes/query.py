"""SQL over the tables of one or many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from robustatlas.errors import UserError
from robustatlas.outcomes.store import RunStore
from robustatlas.outcomes.tables import quoted


@dataclass(frozen=True)
class Table:
    """What a query returned."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def query(sql: str, runs: Sequence[str | Path] | str | Path) -> Table:
    """Run ``sql`` (DuckDB's dialect) over the tables of some runs.

    Views:
        ``runs``: run, model, data, search, procedure, precision, created, seed, samples.
        ``samples``: run, index, label, clean_prediction, clean_margin.
        ``outcomes``: run, attack, index, minimal_strength, minimal_size, found_class, forward, backward, seconds,
        margins, fooled (lists, one entry per strength).

    ``run`` is the path as given. Numbers that are not there (a margin that was not searched) are NULL.

    Raises:
        UserError: no run at a path, a damaged table, or SQL that DuckDB refuses.
    """
    paths = [runs] if isinstance(runs, str | Path) else list(runs)
    if not paths:
        raise UserError("No runs given; name at least one run directory.")
    stores = {str(path): RunStore.open(path) for path in paths}
    views = {
        "runs": [_run_row(run, store) for run, store in stores.items()],
        "samples": [select for run, store in stores.items() for select in _samples(run, store)],
        "outcomes": [select for run, store in stores.items() for select in _outcomes(run, store)],
    }
    try:
        with duckdb.connect() as connection:
            for view, selects in views.items():
                if selects:
                    connection.execute(f"CREATE VIEW {view} AS {' UNION ALL BY NAME '.join(selects)}")
            cursor = connection.execute(sql)
            return Table(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())
    except duckdb.Error as error:
        raise UserError(f"The SQL could not be run: {str(error).strip()}") from error


def _run_row(run: str, store: RunStore) -> str:
    settings, context = store.manifest.settings, store.manifest.context
    fields = {
        "run": run,
        "model": settings.model.name,
        "data": settings.data.name,
        "search": settings.search,
        "procedure": settings.procedure,
        "precision": settings.precision,
        "created": context.created,
    }
    texts = [f"{quoted(value)} AS {name}" for name, value in fields.items()]
    return f"SELECT {', '.join(texts)}, {settings.seed} AS seed, {settings.samples.count} AS samples"


def _samples(run: str, store: RunStore) -> list[str]:
    files = [store.file(None, shard) for shard in range(len(store.shards)) if store.done_samples(shard)]
    return [f"SELECT {quoted(run)} AS run, * FROM {_tables(files)}"] if files else []


def _outcomes(run: str, store: RunStore) -> list[str]:
    selects = []
    for attack in store.manifest.settings.attacks:
        files = [store.file(attack, shard) for shard in range(len(store.shards)) if store.done(attack, shard)]
        if files:
            selects.append(f"SELECT {quoted(run)} AS run, {quoted(attack)} AS attack, * FROM {_tables(files)}")
    return selects


def _tables(files: Sequence[Path]) -> str:
    return f"read_parquet([{', '.join(quoted(file) for file in files)}])"
