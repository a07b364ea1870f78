"""SQL over the tables of one or many runs, which are views of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten, warn
from robustatlas.common.files import parse_path
from robustatlas.common.tabular import Grid, Tabular, object_column
from robustatlas.common.typed_strengths import unit_as_typed
from robustatlas.outcomes.bounds import UPPER_BOUND_ONLY
from robustatlas.outcomes.comparable import Subject, attack_differences, different_data, refusal_to_compare
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.strengths import sizes_as_typed
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.outcomes.tables import Columns, identifier, sql_expressions, sql_literal

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, repr=False)
class Table(Tabular):
    """Rows and column names that a query returned."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def _grid(self) -> Grid:
        columns = [[row[position] for row in self.rows] for position in range(len(self.columns))]
        numbers = tuple(c for c, values in enumerate(columns) if any(isinstance(v, int | float) for v in values))
        return Grid("", self.columns, [tuple(map(format_cell, row)) for row in self.rows], numbers)

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return {
            name: np.array(values) if values and {*map(type, values)} <= {int, float, bool} else object_column(values)
            for name, values in zip(self.columns, columns, strict=True)
        }


def format_cell(value: object) -> str:
    """Return a cell as people read it: no more digits than they need, and a dash where there is nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(format_cell, value))}]"
    return str(value)


MOST_MEMORY, MOST_VALUES = "4GB", 10_000_000
"""Largest memory of a running query, and largest number of values that it returns."""

_CLOSED = (
    "temp_directory = ''",
    f"memory_limit = '{MOST_MEMORY}'",
    "enable_external_access = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "lock_configuration = true",  # the last one: from here on nothing above can be taken back
)
"""Settings under which SQL sees the views alone: no files (nor temporary ones), no network, no extensions, no variables
of this process; and does not take the memory of all others."""


def query(sql: str, runs: Sequence[str | Path] | str | Path, *, unrestricted: bool = False) -> Table:
    """Run ``sql`` (DuckDB's dialect) over the tables of some runs.

    What the SQL names are the views below and nothing else: it reads and writes no file, that of a run included, loads
    no extension and reaches no network. It takes at most 4 GB of memory and returns at most ten million values.
    ``unrestricted`` lifts that, for SQL of one's own that reads other tables, writes with ``COPY ... TO`` or needs
    more.

    Views:
        ``runs``: run, model, data, created, samples, images, missing.
        ``attacks``: run, attack, unit, strengths, searched, monotone, origins, threat.
        ``samples``: run, index, label, clean_prediction, clean_margin.
        ``outcomes``: run, attack, index, minimal_strength, minimal_size, certified_size, found_class, forward,
        backward, mistakes, drawn, strengths, broken, margins, fooled, queries, typical, threat. The six before the last
        are lists with one entry per strength.
        ``accuracies``: run, attack, strength, accuracy (robust, in percent), status, typical (in percent), threat.
        ``broken(strength)``: run, attack, index, broken: which samples are broken at one strength of the attacks.

    Columns:
        ``run``: the path as given.
        ``images``: the same for runs on the same images and labels.
        ``threat``: the same for attacks on the same threat model with all of its parameters; attacks of one name may
        have different ones in different runs.
        ``missing``: the most samples that an attack of the run still lacks.
        ``searched``: those of the strengths that a search judged; at the others sizes alone were searched.
        ``status``: "upper bound only" of an accuracy at a strength that was not searched; empty elsewhere.
        ``certified_size``: up to which nothing can be found; NULL where nothing was certified.
        ``drawn``, ``mistakes``: draws of the smallest example of a randomised model, and how many were misclassified.
        ``queries``: of a model that could only be asked, until the first example.
        ``typical``: the share of draws that stay right, or their mean accuracy.
        Strengths and sizes, also that of ``broken``, are as people type them: the quality of a JPEG file, not how far
        it is below 100. Where they fall, ``-inf`` says never, and lists go from the largest strength to the smallest.

    A warning says where runs are about different data, attacks of one name have different threat models, or a run is
    not finished.

    Each view holds the numbers of :func:`robustatlas.load_result`: of attacks that were run several times, the
    smallest example of each sample. Numbers that are not there (a margin that was not searched) are NULL.

    Args:
        sql: one SELECT over these views.
        runs: run directories, or one of them.
        unrestricted: let the SQL read and write files (temporary ones too), and take what memory there is.

    Returns:
        the names of the columns, and the rows.

    Raises:
        UserError: no run at a path, a damaged table, or SQL that DuckDB refuses or that takes too much.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> net, data = torch.nn.Linear(4, 2), (torch.rand(3, 4), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.evaluate(net, data, "linf", run=f"{folder}/run", progress=False)
        ...     query("SELECT attack, count(*) FROM outcomes GROUP BY attack", f"{folder}/run").rows
        [('linf', 3)]
    """
    import duckdb

    if not isinstance(sql, str):
        raise UserError(f"The SQL is {shorten(repr(sql))}; expected a text, such as 'SELECT * FROM outcomes'.")
    paths = list(runs) if isinstance(runs, Iterable) and not isinstance(runs, str) else [runs]
    if not paths:
        raise UserError("No runs given; name at least one run directory.")
    opened = {str(parse_path(path)): Run.open(path) for path in paths}
    for note in _comparison_notes(opened):
        warn(note)
    try:
        with duckdb.connect() as connection:
            create_views(connection, opened)
            if not unrestricted:
                for setting in _CLOSED:
                    connection.execute(f"SET {setting}")
            found = _run_sql(connection, sql, inf if unrestricted else MOST_VALUES)
            if found is None:
                raise UserError("The SQL returns no table; give a SELECT over runs, attacks, samples and outcomes.")
            return found
    except RuntimeError as error:
        if "interrupted" in str(error):  # what DuckDB makes of a Ctrl-C
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        if "KeyboardInterrupt" in str(error):  # and where it comes while DuckDB asks Python for something
            raise KeyboardInterrupt from error
        if isinstance(error, duckdb.OutOfMemoryException) and not unrestricted:
            raise _limit_error(f"{MOST_MEMORY} of memory") from error
        remedy = ""
        if isinstance(error, duckdb.PermissionException) and not unrestricted:
            remedy = ". By default SQL reads and writes no files; --unrestricted, or unrestricted=True, lets it"
        raise UserError(f"The SQL could not be run: {_refusal(error)}{remedy}.") from error


def _comparison_notes(runs: Mapping[str, Run]) -> list[str]:
    """Return a sentence for each reason why numbers of several runs do not belong together."""
    if len(runs) < 2:
        return []
    subjects = [
        Subject.from_run(name, run.identity.data.name, run.identity, run.records().values(), run.missing_counts())
        for name, run in runs.items()
    ]
    notes = [refusal_to_compare(attack, how) for attack, how in attack_differences(subjects).items()]
    return [*filter(None, [different_data(subjects), *notes, *(subject.unfinished_note for subject in subjects)])]


def _run_sql(connection: duckdb.DuckDBPyConnection, sql: str, most: float) -> Table | None:
    """Return the table that the SQL selects, of at ``most`` this many values; None where it returns no table.

    DuckDB works in a thread of its own: in the main one it may hear of a Ctrl-C only when it is done.
    """

    def rows() -> Table | None:
        cursor = connection.execute(sql)
        described = getattr(cursor, "description", None)  # of an empty text there is no cursor
        if not described:
            return None
        found: list[tuple[Any, ...]] = []
        while part := cursor.fetchmany(_AT_ONCE):
            found += part
            if len(found) * len(described) > most:
                raise _limit_error(f"{MOST_VALUES:,} values")
        return Table(tuple(column[0] for column in described), found)

    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(rows)
        try:
            return working.result()
        except KeyboardInterrupt:
            while wait([working], 0.1).not_done:
                connection.interrupt()
            raise


_AT_ONCE = 10_000
"""Rows that are fetched together."""


def _limit_error(what: str) -> UserError:
    return UserError(
        f"The SQL takes more than {what}; filter, aggregate or LIMIT, or lift all limits by --unrestricted "
        "(unrestricted=True)."
    )


def _refusal(error: duckdb.Error) -> str:
    """Return DuckDB's message in one line, without the arrow below a place and without a quoted traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^\t")]
    quoting = next((k for k, line in enumerate(lines) if line.startswith("Traceback")), len(lines))
    return " ".join([*lines[:quoting], *lines[quoting:][-1:]]).rstrip(".")


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
