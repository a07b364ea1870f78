"""Tables of a run: Parquet files written whole or not at all and read as numpy arrays, and the columns in them."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.files import write_atomically
from robustatlas.common.interrupts import delay_interrupts
from robustatlas.outcomes.outcome import Integers

if TYPE_CHECKING:
    import duckdb

Columns = Mapping[str, NDArray[Any]]


class CorruptFileError(UserError):
    """A file of a run cannot be read: truncated, or not what its name says."""


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One DuckDB instance in memory for the whole process: starting one takes longer than reading a shard."""
    import duckdb  # only here and where its errors are caught: help would wait 0.1 s for it

    return duckdb.connect()


@contextmanager
def _cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    with delay_interrupts(), _database().cursor() as connection:
        yield connection


def sql_literal(text: str | Path) -> str:
    """``text`` as an SQL string literal."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """``name`` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def write_parquet(path: Path, columns: Columns, about: Mapping[str, str] | None = None) -> None:
    """Write one- and two-dimensional arrays of equal length (two-dimensional ones as lists; NaN as NULL).

    ``about``: names and texts for the file's metadata, see :func:`read_abouts`.
    """
    write_atomically(path, partial(fill_parquet, columns=columns, about=about))


def sql_expressions(columns: Columns, *, nullable: bool = False) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """SQL for arrays [N] and, as lists, [N, S], and the arrays [N] that it names; ``nullable``: NaN is NULL."""
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
    """The table function that reads one file; folders called ``key=value`` are the user's, not columns."""
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
    """Some columns of many files by two queries, whatever the number of files; the files' rows in any order.

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


Kinds = Mapping[str, tuple[type[np.generic], int]]
"""Names of columns -> their type, and 1 for a number per sample or 2 for one per sample and strength."""

OUTCOME_COLUMNS: Kinds = {
    "index": (np.int64, 1),
    "minimal_size": (np.float64, 1),
    "true_size": (np.float64, 1),
    "found_class": (np.int64, 1),
    "found_run": (np.int64, 1),
    "forward": (np.int64, 1),
    "backward": (np.int64, 1),
    "rejected": (np.int64, 1),
    "seconds": (np.float64, 1),
    "margins": (np.float32, 2),
    "fooled": (np.int8, 2),
}
"""Columns of a part of outcomes. Two of them need a word:

- ``found_run``: the run of the plan that found the smallest example. -1: there is no example, or no search found it.
- ``true_size``: the smallest size by the network's own gradients, where some runs go back through smoothed ReLUs. -1:
  no leg does.
"""

RANDOM_COLUMNS: Kinds = {
    "possible_size": (np.float64, 1),
    "mistakes": (np.int64, 1),
    "drawn": (np.int64, 1),
    "saved": (np.int64, 1),
    "as_file": (np.int64, 1),
}
"""Columns that a part has besides, where there is something to say:

- ``possible_size``, ``mistakes``, ``drawn``: the model is randomised.
- ``saved``: there were certificates.
- ``as_file``: examples are kept. 1: it still is one as an 8-bit file holds it, -1: not, 0: none, or nobody looked.
"""

ASKED_COLUMNS: Kinds = {"queries": (np.int64, 2)}
"""Column for models that only answer queries: their number until the first example within each strength; -1: none."""

TYPICAL_COLUMNS: Kinds = {"typical": (np.float64, 2)}
"""Column of searches for the typical case: share of draws at each strength classified correctly; NaN without draws."""

SAMPLE_COLUMNS: Kinds = {
    "index": (np.int64, 1),
    "label": (np.int64, 1),
    "clean_prediction": (np.int64, 1),
    "clean_margin": (np.float32, 1),
}
"""Columns of a samples table."""

REJECTING_COLUMNS: Kinds = {"clean_rejected": (np.int8, 1)}
"""Additional columns of a samples table of a model that may reject: 1 where it rejects the clean input."""

CERTIFIED_COLUMNS: Kinds = {
    "index": (np.int64, 1),
    "certified_size": (np.float64, 1),
    "seconds": (np.float64, 1),
    "abstained": (np.int8, 1),
}
"""Columns of a part of what a method certified. ``abstained``: 1 where a method that draws random numbers could not
tell."""

Arrays = dict[str, NDArray[Any]]


_MORE = (
    (SAMPLE_COLUMNS, REJECTING_COLUMNS),
    (OUTCOME_COLUMNS, {**RANDOM_COLUMNS, **ASKED_COLUMNS, **TYPICAL_COLUMNS}),
)


def unknown_columns(samples: int, strengths: int) -> Arrays:
    """Return what stands for columns that a part does not have: nothing was drawn, saved or seen."""
    filled = ((RANDOM_COLUMNS, 0), (ASKED_COLUMNS, -1), (TYPICAL_COLUMNS, np.nan))
    return {
        name: np.full((samples, strengths)[:dimensions], value, kind)
        for columns, value in filled
        for name, (kind, dimensions) in columns.items()
    }


def expected_columns(base: Kinds, given: Columns) -> Kinds:
    """The columns of a table like ``base``: of some models it has more."""
    more: Kinds = next((more for of, more in _MORE if of is base), {})
    return {**base, **{name: kind for name, kind in more.items() if name in given}}


def check_columns(given: Columns, expected: Kinds, strengths: int, place: str) -> Arrays:
    """The ``given`` columns in order and type; :class:`UserError` where they are not the ``expected`` ones."""
    if set(given) != set(expected):
        raise UserError(f"{place} must have the columns {', '.join(expected)}; got {', '.join(given)}.")
    columns, samples = {}, len(given["index"])
    for name, (kind, dimensions) in expected.items():
        shape = (samples, strengths)[:dimensions]
        if given[name].shape != shape:
            raise UserError(f"Column {name} of {place} must have shape {shape}, got {given[name].shape}.")
        if not np.can_cast(given[name].dtype, kind, "same_kind"):
            raise UserError(f"Column {name} of {place} must hold {kind.__name__}, got {given[name].dtype}.")
        columns[name] = given[name].astype(kind, copy=False)
    return columns


def stack_columns(parts: Sequence[Columns], names: Sequence[str], strengths: int) -> Arrays:
    """Concatenate the columns ``names``, each of OUTCOME_COLUMNS, of several parts."""
    none = {name: np.zeros((0, strengths)[:dimensions], kind) for name, (kind, dimensions) in OUTCOME_COLUMNS.items()}
    return {name: np.concatenate([part[name] for part in [none, *parts]]) for name in names}


def sample_rows(columns: Arrays, index: Integers) -> Arrays:
    """The rows of the samples ``index``; of a sample that stands twice (the same numbers) the first."""
    known, first = np.unique(columns["index"], return_index=True)
    if not np.isin(index, known).all():
        raise UserError("The samples of this run are not all there: a file of samples/ is missing or damaged.")
    rows = first[np.searchsorted(known, index)]
    return {name: values[rows] for name, values in columns.items()}
