"""Tables of a run: Parquet files written whole or not at all and read as numpy arrays, and the columns in them."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.files import write_atomically
from robustatlas.common.interrupts import delay_interrupts
from robustatlas.outcomes.outcome import Floats, Integers

if TYPE_CHECKING:
    import duckdb

Columns = Mapping[str, NDArray[Any]]


class CorruptFileError(UserError):
    """A file of a run cannot be read: truncated, or not what its name says."""


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's one DuckDB instance in memory: starting one takes longer than reading a part."""
    import duckdb  # only here and where its errors are caught: help would wait 0.1 s for it

    return duckdb.connect()


@contextmanager
def _cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    with delay_interrupts(), _database().cursor() as connection:
        yield connection


def sql_literal(text: str | Path) -> str:
    """Return a text as an SQL string literal."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def write_parquet(path: Path, columns: Columns, about: Mapping[str, str] | None = None) -> None:
    """Write one- and two-dimensional arrays of equal length (two-dimensional ones as lists; NaN as NULL).

    ``about``: names and texts for the file's metadata, see :func:`read_abouts`.
    """
    write_atomically(path, partial(fill_parquet, columns=columns, about=about))


def sql_expressions(columns: Columns, *, nullable: bool = False) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Return SQL for arrays [N] and, as lists, [N, S], and the arrays [N] that it names; ``nullable``: NaN is NULL."""
    flat: dict[str, NDArray[Any]] = {}
    expressions = []
    for number, (name, values) in enumerate(columns.items()):
        parts = {f"c{number}": values} if values.ndim == 1 else {f"c{number}_{j}": v for j, v in enumerate(values.T)}
        flat |= {key: np.ascontiguousarray(part) for key, part in parts.items()}
        checked = nullable and values.dtype.kind == "f"
        cells = [f"CASE WHEN isnan({part}) THEN NULL ELSE {part} END" if checked else part for part in parts]
        value = cells[0] if values.ndim == 1 else f"[{', '.join(cells)}]"
        expressions.append(f"{value} AS {identifier(name)}")
    return expressions, flat


def fill_parquet(path: Path, columns: Columns, about: Mapping[str, str] | None = None) -> None:
    """Write the file of :func:`write_parquet` in place."""
    import duckdb

    expressions, flat = sql_expressions(columns)
    options = ["FORMAT parquet", "COMPRESSION zstd"]
    if about:
        entries = ", ".join(f"{identifier(key)}: {sql_literal(text)}" for key, text in about.items())
        options.append(f"KV_METADATA {{{entries}}}")
    with _cursor() as connection:
        connection.register("flat", flat)
        try:
            connection.execute(
                f"COPY (SELECT {', '.join(expressions)} FROM flat) TO {sql_literal(path)} ({', '.join(options)})"
            )
        except duckdb.IOException as error:
            raise _as_os_error(error) from error


def _as_os_error(error: duckdb.IOException) -> OSError:
    known = (errno.ENOSPC, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EIO)
    code = next((code for code in known if os.strerror(code) in str(error)), errno.EIO)
    return OSError(code, os.strerror(code))


def parquet(path: Path) -> str:
    """Return the table function that reads one file; folders called ``key=value`` are the user's, not columns."""
    return f"read_parquet({sql_literal(path)}, hive_partitioning = false)"


def _listed(paths: Sequence[Path]) -> str:
    return f"[{', '.join(map(sql_literal, paths))}]"


def read_abouts(paths: Sequence[Path]) -> dict[Path, dict[str, str]]:
    """Return the metadata of some files written by :func:`write_parquet`, by one query; :class:`CorruptFileError` where
    one cannot be read."""
    import duckdb

    found: dict[Path, dict[str, str]] = {path: {} for path in paths}
    if not paths:
        return found
    try:
        with _cursor() as connection:
            rows = connection.sql(f"SELECT file_name, key, value FROM parquet_kv_metadata({_listed(paths)})").fetchall()
    except duckdb.Error as error:
        raise CorruptFileError(f"Some of {len(paths)} files cannot be read ({str(error).splitlines()[0]}).") from error
    for name, key, value in rows:
        found[Path(name)][bytes(key).decode(errors="replace")] = bytes(value).decode(errors="replace")
    return found


def read_parquet(path: Path, place: str | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of :func:`write_parquet`; :class:`CorruptFileError` names `place`, by default the path, where
    the file cannot be read."""
    import duckdb

    source = parquet(path)
    try:
        with _cursor() as connection:
            table = connection.sql(f"SELECT * FROM {source}")
            names = table.columns
            of_lists = [name for name, kind in zip(names, table.types, strict=True) if kind.id == "list"]
            lengths = [f"max(len({identifier(name)}))" for name in of_lists] or ["count(*)"]
            (longest,) = connection.sql(f"SELECT {', '.join(lengths)} FROM {source}").fetchall()
            lists = {name: length or 0 for name, length in zip(of_lists, longest, strict=False)}
            flat = connection.sql(f"SELECT {', '.join(_expressions(names, lists))} FROM {source}").fetchnumpy()
    except duckdb.Error as error:
        raise CorruptFileError(
            f"{place or path} cannot be read ({str(error).splitlines()[0]}); it is truncated or damaged. "
            "Delete it and run the same evaluation again to recompute what it held."
        ) from error
    return _columns_from_flat(flat, names, lists)


def read_columns(
    paths: Sequence[Path], wanted: Sequence[str], lists: Mapping[str, int], complete: Collection[str]
) -> dict[str, NDArray[Any]]:
    """Read some columns of many files by two queries; the files' rows come in any order.

    ``lists``: lengths of the two-dimensional columns; ``complete``: columns that each file must have.

    Raises :class:`CorruptFileError`: some file cannot be read or lacks a column; which one is not told.
    """
    import duckdb

    files = _listed(paths)
    lists = {name: length for name, length in lists.items() if name in wanted}
    try:
        with _cursor() as connection:
            had = connection.sql(f"SELECT file_name, list(name) FROM parquet_schema({files}) GROUP BY file_name")
            if any(not set(complete) <= set(names) for _, names in had.fetchall()):
                raise CorruptFileError(f"Some of {len(paths)} files lack some of the columns {', '.join(complete)}.")
            flat = connection.sql(
                f"SELECT {', '.join(_expressions(wanted, lists))} FROM read_parquet({files}, hive_partitioning = false)"
            ).fetchnumpy()
    except duckdb.Error as error:
        raise CorruptFileError(f"Some of {len(paths)} files cannot be read ({str(error).splitlines()[0]}).") from error
    return _columns_from_flat(flat, wanted, lists)


def _columns_from_flat(flat: Columns, names: Sequence[str], lists: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    return {
        name: np.stack([_with_nan(flat[f"{name}.{j}"]) for j in range(lists[name])], axis=1)
        if lists.get(name)
        else np.zeros((0, 0))  # lists of a file without rows
        if name in lists
        else _with_nan(flat[name])
        for name in names
    }


def _expressions(names: Sequence[str], lists: Mapping[str, int]) -> Iterator[str]:
    for name in names:
        if name in lists:
            for j in range(lists[name]):
                yield f"{identifier(name)}[{j + 1}] AS {identifier(f'{name}.{j}')}"
        else:
            yield identifier(name)


def _with_nan(values: NDArray[Any]) -> NDArray[Any]:
    return values.filled(np.nan) if isinstance(values, np.ma.MaskedArray) else values


Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Column:
    """A column of a table of a run.

    Attributes:
        kind: type of its numbers.
        per_strength: True for one number per sample and strength; otherwise there is one per sample.
        unknown: number that stands for it in parts which do not have it.
    """

    kind: type[np.generic]
    per_strength: bool = False
    unknown: float = 0

    def shape(self, samples: int, strengths: int) -> tuple[int, ...]:
        """Return the shape of its array."""
        return (samples, strengths) if self.per_strength else (samples,)


OUTCOME_COLUMNS: Mapping[str, Column] = {
    "index": Column(np.int64),
    "minimal_size": Column(np.float64),
    "true_size": Column(np.float64),
    "found_class": Column(np.int64),
    "found_run": Column(np.int64),
    "forward": Column(np.int64),
    "backward": Column(np.int64),
    "rejected": Column(np.int64),
    "seconds": Column(np.float64),
    "margins": Column(np.float32, per_strength=True),
    "fooled": Column(np.int8, per_strength=True),
}
"""Columns of each part of outcomes; :class:`OutcomeRows` says what they hold."""

OPTIONAL_OUTCOME_COLUMNS: Mapping[str, Column] = {
    "possible_size": Column(np.float64),
    "mistakes": Column(np.int64),
    "drawn": Column(np.int64),
    "saved": Column(np.int64),
    "as_file": Column(np.int64),
    "queries": Column(np.int64, per_strength=True, unknown=-1),
    "typical": Column(np.float64, per_strength=True, unknown=np.nan),
}
"""Further columns of parts in which they say something.

- ``possible_size``, ``mistakes``, ``drawn``: the model is randomised.
- ``saved``: there were certificates.
- ``as_file``: examples are kept.
- ``queries``: the model only answers queries.
- ``typical``: the typical case was searched.
"""

SAMPLE_COLUMNS: Mapping[str, Column] = {
    "index": Column(np.int64),
    "label": Column(np.int64),
    "clean_prediction": Column(np.int64),
    "clean_margin": Column(np.float32),
}
"""Columns of a samples table."""

CERTIFIED_COLUMNS: Mapping[str, Column] = {
    "index": Column(np.int64),
    "certified_size": Column(np.float64),
    "seconds": Column(np.float64),
    "abstained": Column(np.int8),
}
"""Columns of a part of what a method certified. ``abstained``: 1 where a method that draws random numbers could not
tell."""


@dataclass(frozen=True)
class TableSchema:
    """Columns of a kind of table: those that each part has, and those that some parts have."""

    required: Mapping[str, Column]
    optional: Mapping[str, Column] = field(default_factory=dict)

    def check(self, given: Columns, strengths: int, place: str) -> Arrays:
        """Return the columns of a part in order and with their types.

        Raises:
            UserError: a column is missing, unknown, or of another shape or type.
        """
        expected = {**self.required, **{name: column for name, column in self.optional.items() if name in given}}
        if set(given) != set(expected):
            raise UserError(f"{place} must have the columns {', '.join(expected)}; got {', '.join(given)}.")
        columns, samples = {}, len(given["index"])
        for name, column in expected.items():
            values, shape = given[name], column.shape(samples, strengths)
            if values.shape != shape:
                raise UserError(f"Column {name} of {place} must have shape {shape}, got {values.shape}.")
            if not np.can_cast(values.dtype, column.kind, "same_kind"):
                raise UserError(f"Column {name} of {place} must hold {column.kind.__name__}, got {values.dtype}.")
            columns[name] = values.astype(column.kind, copy=False)
        return columns

    def unknown_columns(self, samples: int, strengths: int = 0) -> Arrays:
        """Return the optional columns of a part that has none of them."""
        return {
            name: np.full(column.shape(samples, strengths), column.unknown, column.kind)
            for name, column in self.optional.items()
        }


OUTCOME_TABLE = TableSchema(OUTCOME_COLUMNS, OPTIONAL_OUTCOME_COLUMNS)
SAMPLE_TABLE = TableSchema(SAMPLE_COLUMNS, {"clean_rejected": Column(np.int8, unknown=-1)})
"""``clean_rejected``: 1 where a model that may reject rejects the clean input; -1: the model never may."""
CERTIFIED_TABLE = TableSchema(CERTIFIED_COLUMNS)


@dataclass(frozen=True, eq=False)
class OutcomeRows:
    """Columns of a table of outcomes: what one search found of M samples. Optional ones are None if no part has them.

    Attributes:
        index: ``[M]``, positions of the samples in the data set.
        minimal_size: ``[M]``, size of the smallest example, see :class:`~robustatlas.outcomes.Outcome`.
        true_size: ``[M]``, the smallest size by the network's own gradients, where some runs go back through smoothed
            ReLUs. -1: no run does.
        found_class: ``[M]``, class of the smallest example.
        found_run: ``[M]``, the run of the plan that found the smallest example. -1: there is no example, or no search
            found it.
        forward, backward: ``[M]``, passes.
        rejected: ``[M]``, number of supposed examples that verification refused.
        seconds: ``[M]``.
        margins, fooled: ``[M, S]``, lowest margin within each strength, and what was judged at that very strength.
        possible_size: ``[M]``, smallest size that is not certainly none, of a randomised model.
        mistakes, drawn: ``[M]``, misclassified draws of the smallest example, and all of them.
        saved: ``[M]``, passes that certificates saved at most.
        as_file: ``[M]``. 1: the example still is one as an 8-bit file holds it, -1: it is not, 0: there is none, or it
            was not checked.
        queries: ``[M, S]``, queries until the first example within each strength; -1: none was seen.
        typical: ``[M, S]``, share of draws at each strength that are classified correctly; NaN without draws.
    """

    index: Integers
    minimal_size: Floats
    true_size: Floats
    found_class: Integers
    found_run: Integers
    forward: Integers
    backward: Integers
    rejected: Integers
    seconds: Floats
    margins: NDArray[np.float32]
    fooled: NDArray[np.int8]
    possible_size: Floats | None = None
    mistakes: Integers | None = None
    drawn: Integers | None = None
    saved: Integers | None = None
    as_file: Integers | None = None
    queries: Integers | None = None
    typical: Floats | None = None


def sample_rows(columns: Arrays, index: Integers) -> Arrays:
    """Return the rows of the samples ``index``; of a sample that stands twice (the same numbers) the first."""
    known, first = np.unique(columns["index"], return_index=True)
    if not np.isin(index, known).all():
        raise UserError("The samples of this run are not all there: a file of samples/ is missing or damaged.")
    rows = first[np.searchsorted(known, index)]
    return {name: values[rows] for name, values in columns.items()}
