"""The tables of runs as views of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.typed_strengths import unit_as_typed
from robustatlas.outcomes.bounds import UPPER_BOUND_ONLY
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.strengths import sizes_as_typed
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.outcomes.tables import Columns, identifier, sql_expressions, sql_literal

if TYPE_CHECKING:
    import duckdb

COLUMNS: Mapping[str, str] = {
    "runs": "run VARCHAR, model VARCHAR, data VARCHAR, created VARCHAR, samples BIGINT, images VARCHAR, missing BIGINT",
    "attacks": "run VARCHAR, attack VARCHAR, unit VARCHAR, strengths DOUBLE[], searched DOUBLE[], monotone BOOLEAN, "
    "origins VARCHAR[], threat VARCHAR",
    "samples": "run VARCHAR, index BIGINT, label BIGINT, clean_prediction BIGINT, clean_margin DOUBLE",
    "outcomes": "run VARCHAR, attack VARCHAR, index BIGINT, minimal_strength DOUBLE, minimal_size DOUBLE, "
    "certified_size DOUBLE, found_class BIGINT, forward BIGINT, backward BIGINT, mistakes DOUBLE, drawn DOUBLE, "
    "strengths DOUBLE[], broken BOOLEAN[], margins FLOAT[], fooled TINYINT[], queries DOUBLE[], typical DOUBLE[], "
    "threat VARCHAR",
    "accuracies": "run VARCHAR, attack VARCHAR, strength DOUBLE, accuracy DOUBLE, status VARCHAR, typical DOUBLE, "
    "threat VARCHAR",
}
"""Columns and types of each view."""

_STRENGTH = "CAST(strength AS DOUBLE)"


def create_views(connection: duckdb.DuckDBPyConnection, runs: Mapping[str, Run]) -> None:
    """Create the views of :data:`COLUMNS` and the table function ``broken(strength)``.

    ``runs``: the runs by what SQL calls them. Every number is one of their :meth:`~Run.table`.
    """
    rows = _Rows(connection)
    for name, run in runs.items():
        table = run.table()
        rows.add_run(name, run, table)
        threats = {record.name: record.threat_identity for record in run.records().values()}
        for outcome in table.outcomes.values():
            rows.add_attack(name, table, outcome, threats[outcome.attack])
    for view, columns in COLUMNS.items():
        union = " UNION ALL BY NAME ".join([_select_nothing(columns), *rows.selects[view]])
        connection.execute(f"CREATE VIEW {view} AS {union}")
    connection.execute(
        f'CREATE MACRO broken(strength) AS TABLE SELECT run, attack, "index", '
        f"broken[list_position(strengths, {_STRENGTH})] AS broken "
        f"FROM outcomes WHERE list_contains(strengths, {_STRENGTH})"
    )


class _Rows:
    """SELECTs of the rows of each view; the arrays that they read are registered with the ``connection``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.selects: dict[str, list[str]] = {view: [] for view in COLUMNS}
        self.registered = 0

    def add_run(self, name: str, run: Run, table: OutcomeTable) -> None:
        """Add a run to the views ``runs`` and ``samples``."""
        fields = [
            f"{sql_literal(name)} AS run",
            f"{sql_literal(table.name)} AS model",
            f"{sql_literal(table.data)} AS data",
            f"{sql_literal(run.identity.created)} AS created",
            f"{table.samples} AS samples",
            f"{sql_literal(run.identity.data.fingerprint)} AS images",
            f"{max(run.missing_counts().values(), default=0)} AS missing",
        ]
        self.selects["runs"].append(f"SELECT {', '.join(fields)}")
        columns: Columns = {
            "index": table.index,
            "label": table.labels,
            "clean_prediction": table.clean_prediction,
            "clean_margin": table.clean_margin,
        }
        self._add_arrays("samples", [f"{sql_literal(name)} AS run"], columns)

    def add_attack(self, run: str, table: OutcomeTable, outcome: Outcome, threat: str) -> None:
        """Add an attack of a run to the views ``attacks``, ``outcomes`` and ``accuracies``."""
        named = [
            f"{sql_literal(run)} AS run",
            f"{sql_literal(outcome.attack)} AS attack",
            f"{sql_literal(threat)} AS threat",
        ]
        strengths = f"{_list_of_doubles(sizes_as_typed(outcome.strengths, outcome.attack).tolist())} AS strengths"
        origins = ", ".join(map(sql_literal, outcome.origins))
        fields = [
            *named,
            f"{sql_literal(unit_as_typed(outcome.unit, attack=outcome.attack))} AS unit",
            strengths,
            f"{_list_of_doubles(sizes_as_typed(outcome.searched_strengths, outcome.attack).tolist())} AS searched",
            f"{outcome.monotone} AS monotone",
            f"CAST([{origins}] AS VARCHAR[]) AS origins",
        ]
        self.selects["attacks"].append(f"SELECT {', '.join(fields)}")
        self._add_arrays("outcomes", [*named, strengths], _outcome_columns(table, outcome))
        self._add_arrays("accuracies", named, _accuracy_columns(outcome))

    def _add_arrays(self, view: str, fields: Sequence[str], columns: Columns) -> None:
        """Add arrays [N] and, as lists, [N, S] to a view; NaN is NULL. ``fields`` are the same in each row."""
        expressions, arrays = sql_expressions(columns, nullable=True)
        relation = f"rows_{self.registered}"
        self.registered += 1
        self.connection.register(relation, arrays)
        self.selects[view].append(f"SELECT {', '.join([*fields, *expressions])} FROM {relation}")


def _outcome_columns(table: OutcomeTable, outcome: Outcome) -> dict[str, NDArray[Any]]:
    certified = table.certified_sizes.get(outcome.attack)
    columns: dict[str, NDArray[Any]] = {
        "index": table.index,
        "minimal_strength": sizes_as_typed(outcome.minimal_strength, outcome.attack),
        "minimal_size": sizes_as_typed(outcome.minimal_size, outcome.attack),
        "found_class": outcome.found_class,
        "forward": outcome.forward,
        "backward": outcome.backward,
        "broken": outcome.broken(),
        "margins": outcome.margins,
        "fooled": outcome.fooled,
    }
    if certified is not None:
        columns["certified_size"] = sizes_as_typed(certified.sizes, outcome.attack)
    if outcome.mistakes is not None and outcome.drawn is not None:
        columns["mistakes"] = np.where(outcome.drawn > 0, outcome.mistakes, np.nan)
        columns["drawn"] = np.where(outcome.drawn > 0, outcome.drawn, np.nan)
    if outcome.queries is not None:
        columns["queries"] = np.where(outcome.queries > 0, outcome.queries, np.nan)
    if outcome.typical is not None:
        columns["typical"] = outcome.typical
    return columns


def _accuracy_columns(outcome: Outcome) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {
        "strength": sizes_as_typed(outcome.strengths, outcome.attack),
        "accuracy": outcome.accuracies(),
        "status": np.where(np.isin(outcome.strengths, outcome.searched_strengths), "", UPPER_BOUND_ONLY),
    }
    if outcome.typical is not None:
        columns["typical"] = outcome.typical_accuracies()
    return columns


def _select_nothing(columns: str) -> str:
    """Return a SELECT without rows that has the columns, such as `run VARCHAR, index BIGINT`."""
    pairs = (column.split(" ") for column in columns.split(", "))
    return f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {identifier(name)}' for name, kind in pairs)} WHERE false"


def _list_of_doubles(values: Sequence[float]) -> str:
    return f"CAST([{', '.join(map(repr, values))}] AS DOUBLE[])"
