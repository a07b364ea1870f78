"""SQL over the tables of one or many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError, brief
from robustatlas.files import named
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.outcomes.tables import identifier, quoted
from robustatlas.tabular import Grid, Tabular, objects


@dataclass(frozen=True)
class Table(Tabular):
    """What a query returned."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def __repr__(self) -> str:
        return self._grid().text()

    def _grid(self) -> Grid:
        columns = [[row[position] for row in self.rows] for position in range(len(self.columns))]
        numbers = tuple(c for c, values in enumerate(columns) if any(isinstance(v, int | float) for v in values))
        return Grid("", self.columns, [tuple(map(written, row)) for row in self.rows], numbers)

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return {name: column_of(values) for name, values in zip(self.columns, columns, strict=True)}


def written(value: object) -> str:
    """A cell as people read it: no more digits than they need, and a dash where there is nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return str(value)


def column_of(values: Sequence[Any]) -> NDArray[Any]:
    """A column as numbers, where it is one."""
    return np.array(values) if values and {*map(type, values)} <= {int, float, bool} else objects(values)


_CLOSED = (
    "enable_external_access = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "lock_configuration = true",  # the last one: from here on nothing above can be taken back
)
"""Settings under which SQL sees the views alone: no files, no network, no extensions, no variables of this process."""


def query(sql: str, runs: Sequence[str | Path] | str | Path, *, unrestricted: bool = False) -> Table:
    """Run ``sql`` (DuckDB's dialect) over the tables of some runs.

    What the SQL names are the views below and nothing else: it reads and writes no file, that of a run included, loads
    no extension and reaches no network. ``unrestricted`` lifts that, for SQL of one's own that reads other tables or
    writes with ``COPY ... TO``.

    Views:
        ``runs``: run, model, data, created, samples.
        ``attacks``: run, attack, unit, strengths, monotone, origins.
        ``samples``: run, index, label, clean_prediction, clean_margin.
        ``outcomes``: run, attack, index, minimal_strength, minimal_size, certified_size (up to which nothing can be
        found, where that is certified), found_class, forward, backward, mistakes,
        drawn (of a randomised model's draws of the smallest example), strengths, broken, margins, fooled, queries (of a
        model that could only be asked, until the first example; the last five are lists with one entry per strength).
        ``certified``: run, attack, of (what is certified where that is not the model itself), unit, index,
        certified_size, method (that certified most; empty where nothing is certain). Attacks that were certified and
        not run stand here alone.
        ``broken(strength)``: run, attack, index, broken: which samples are broken at one strength of the attacks.

    ``run`` is the path as given. Each view holds the very numbers of :func:`robustatlas.load_result`: of attacks that
    were run several times, the smallest example of each sample. Numbers that are not there (a margin that was not
    searched) are NULL.

    Args:
        sql: one SELECT over the views below.
        runs: run directories, or one of them.
        unrestricted: let the SQL read and write files.

    Returns:
        the names of the columns, and the rows.

    Raises:
        UserError: no run at a path, a damaged table, or SQL that DuckDB refuses.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> net, data = torch.nn.Linear(4, 2), (torch.rand(3, 4), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.evaluate(net, data, "linf", run=f"{folder}/run", progress=False)
        ...     query("SELECT attack, count(*) FROM outcomes GROUP BY attack", f"{folder}/run").rows
        [('linf', 3)]
    """
    if not isinstance(sql, str):
        raise UserError(f"The SQL is {brief(repr(sql))}; expected a text, such as 'SELECT * FROM outcomes'.")
    paths = list(runs) if isinstance(runs, Iterable) and not isinstance(runs, str) else [runs]
    if not paths:
        raise UserError("No runs given; name at least one run directory.")
    opened = {str(named(path)): Run.open(path) for path in paths}
    try:
        with duckdb.connect() as connection:
            _fill(connection, {name: (run, run.table()) for name, run in opened.items()})
            if not unrestricted:
                for setting in _CLOSED:
                    connection.execute(f"SET {setting}")
            cursor = connection.execute(sql)
            if cursor is None or cursor.description is None:
                raise UserError("The SQL returns no table; give a SELECT over runs, attacks, samples and outcomes.")
            return Table(tuple(column[0] for column in cursor.description), cursor.fetchall())
    except RuntimeError as error:
        if "interrupted" in str(error):  # what DuckDB makes of a Ctrl-C
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        closed = isinstance(error, duckdb.PermissionException) and not unrestricted
        remedy = ". By default SQL reads and writes no files; --unrestricted, or unrestricted=True, lets it" * closed
        raise UserError(f"The SQL could not be run: {_refusal(error)}{remedy}.") from error


def _refusal(error: duckdb.Error) -> str:
    """What DuckDB says, in one line: without the arrow below a place, and without what it quotes of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^\t")]
    quoting = next((k for k, line in enumerate(lines) if line.startswith("Traceback")), len(lines))
    return " ".join([*lines[:quoting], *lines[quoting:][-1:]]).rstrip(".")


_EMPTY: Mapping[str, str] = {
    "attacks": "run VARCHAR, attack VARCHAR, unit VARCHAR, strengths DOUBLE[], monotone BOOLEAN, origins VARCHAR[]",
    "outcomes": "run VARCHAR, attack VARCHAR, index BIGINT, minimal_strength DOUBLE, minimal_size DOUBLE, "
    "certified_size DOUBLE, found_class BIGINT, forward BIGINT, backward BIGINT, mistakes DOUBLE, drawn DOUBLE, "
    "broken BOOLEAN[], margins FLOAT[], fooled TINYINT[], strengths DOUBLE[]",
    "certified": "run VARCHAR, attack VARCHAR, of VARCHAR, unit VARCHAR, index BIGINT, certified_size DOUBLE, "
    "method VARCHAR",
}
"""Columns of views that runs may have nothing for."""


def _fill(connection: duckdb.DuckDBPyConnection, runs: Mapping[str, tuple[Run, OutcomeTable]]) -> None:
    views: dict[str, list[str]] = {"runs": [], "attacks": [], "samples": [], "outcomes": [], "certified": []}
    for name, (run, table) in runs.items():
        texts = {"run": name, "model": table.name, "data": table.data, "created": run.identity.created}
        fields = ", ".join(f"{quoted(value)} AS {key}" for key, value in texts.items())
        views["runs"].append(f"SELECT {fields}, {table.samples} AS samples")
        views["samples"].append(_registered(connection, f"SELECT {quoted(name)} AS run", _sample_columns(table)))
        for attack, outcome in table.outcomes.items():
            begin = f"SELECT {quoted(name)} AS run, {quoted(attack)} AS attack"
            origins = ", ".join(quoted(origin) for origin in outcome.origins)
            views["attacks"].append(
                f"{begin}, {quoted(outcome.unit)} AS unit, {_list(outcome.strengths.tolist())} AS strengths, "
                f"{outcome.monotone} AS monotone, CAST([{origins}] AS VARCHAR[]) AS origins"
            )
            views["outcomes"].append(
                _registered(connection, begin, _outcome_columns(table, outcome), _list(outcome.strengths.tolist()))
            )
        for held in table.certified_sizes.values():
            views["certified"].append(_registered(connection, _certified(name, held), _certified_columns(table, held)))
    for view, selects in views.items():
        selects = selects or [_nothing(_EMPTY[view])]
        connection.execute(f"CREATE VIEW {view} AS {' UNION ALL BY NAME '.join(selects)}")
    connection.execute(
        'CREATE MACRO broken(strength) AS TABLE SELECT run, attack, "index", '
        "broken[list_position(strengths, CAST(strength AS DOUBLE))] AS broken FROM outcomes "
        "WHERE list_contains(strengths, CAST(strength AS DOUBLE))"
    )


def _sample_columns(table: OutcomeTable) -> dict[str, NDArray[Any]]:
    return {
        "index": table.index,
        "label": table.labels,
        "clean_prediction": table.clean_prediction,
        "clean_margin": table.clean_margin,
    }


def _outcome_columns(table: OutcomeTable, outcome: Outcome) -> dict[str, NDArray[Any]]:
    none = np.zeros(outcome.samples, np.int64)
    mistakes = none if outcome.mistakes is None else outcome.mistakes
    drawn = none if outcome.drawn is None else outcome.drawn
    certified = table.certified_sizes.get(outcome.attack)
    return {
        "index": table.index,
        "minimal_strength": outcome.minimal_strength,
        "minimal_size": outcome.minimal_size,
        "certified_size": np.full(outcome.samples, np.nan) if certified is None else certified.sizes,
        "found_class": outcome.found_class,
        "forward": outcome.forward,
        "backward": outcome.backward,
        "mistakes": np.where(drawn > 0, mistakes, np.nan),
        "drawn": np.where(drawn > 0, drawn, np.nan),
        "broken": outcome.broken(),
        "margins": outcome.margins,
        "fooled": outcome.fooled,
        "queries": _queries(outcome),
    }


def _queries(outcome: Outcome) -> NDArray[np.float64]:
    """[N, S]: NaN where no example was seen, and where queries were not counted."""
    if outcome.queries is None:
        return np.full(outcome.margins.shape, np.nan)
    return np.where(outcome.queries > 0, outcome.queries, np.nan)


def _certified(run: str, held: CertifiedSizes) -> str:
    texts = {"run": run, "attack": held.attack, "of": held.of, "unit": held.unit}
    return f"SELECT {', '.join(f'{quoted(value)} AS {identifier(key)}' for key, value in texts.items())}"


def _certified_columns(table: OutcomeTable, held: CertifiedSizes) -> dict[str, NDArray[Any]]:
    return {"index": table.index, "certified_size": held.sizes, "method": objects(held.by)}


def _nothing(columns: str) -> str:
    """A SELECT without rows that has the columns, such as `run VARCHAR, index BIGINT`."""
    typed = (column.split(" ") for column in columns.split(", "))
    return f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {identifier(name)}' for name, kind in typed)} WHERE false"


def _registered(
    connection: duckdb.DuckDBPyConnection, begin: str, columns: Mapping[str, NDArray[Any]], strengths: str | None = None
) -> str:
    """A SELECT of arrays [N] and, as lists, [N, S]; NaN in lists is NULL."""
    flat: dict[str, NDArray[Any]] = {}
    expressions = [begin]
    for number, (name, values) in enumerate(columns.items()):
        parts = {f"c{number}": values} if values.ndim == 1 else {f"c{number}_{j}": v for j, v in enumerate(values.T)}
        flat |= {key: np.ascontiguousarray(part) for key, part in parts.items()}
        nullable = [f"CASE WHEN isnan({p}) THEN NULL ELSE {p} END" if values.dtype.kind == "f" else p for p in parts]
        value = nullable[0] if values.ndim == 1 else f"[{', '.join(nullable)}]"
        expressions.append(f"{value} AS {identifier(name)}")
    if strengths:
        expressions.append(f"{strengths} AS strengths")
    relation = f"t{len(connection.execute('SHOW TABLES').fetchall())}"
    connection.register(relation, flat)
    return f"{', '.join(expressions)} FROM {relation}"


def _list(values: Sequence[float]) -> str:
    return f"CAST([{', '.join(repr(value) for value in values)}] AS DOUBLE[])"
