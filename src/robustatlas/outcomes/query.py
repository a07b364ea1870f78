"""SQL over the tables of one or many runs."""

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
from robustatlas.outcomes.alike import Subject, attack_differences, different_data, refusal_to_compare
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.views import create_views

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
        return {name: column_array(values) for name, values in zip(self.columns, columns, strict=True)}


def format_cell(value: object) -> str:
    """A cell as people read it: no more digits than they need, and a dash where there is nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(format_cell, value))}]"
    return str(value)


def column_array(values: Sequence[Any]) -> NDArray[Any]:
    """A column as numbers, where it is one."""
    return np.array(values) if values and {*map(type, values)} <= {int, float, bool} else object_column(values)


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
