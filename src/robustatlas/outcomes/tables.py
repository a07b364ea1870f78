"""Parquet files written whole or not at all, and read back as numpy arrays."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError

Columns = Mapping[str, NDArray[Any]]
_STALE_SECONDS = 600.0


class CorruptFileError(UserError):
    """A file of a run cannot be read: truncated, or not what its name says."""


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One DuckDB instance in memory for the whole process: starting one takes longer than reading a shard."""
    return duckdb.connect()


def quoted(text: str | Path) -> str:
    """``text`` as an SQL string literal."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """``name`` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Turn the failures of writing ``path`` (read-only, full disk, a file in the way) into one sentence."""
    try:
        yield
    except (OSError, duckdb.IOException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if "No space left" in reason:
            reason = "no space is left on the device"
        raise UserError(
            f"Cannot write {path}: {reason}. Everything written before is kept; give a folder that can be written "
            "or free some space, and run the same command again to go on."
        ) from error


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to the disk and rename it to ``path``.

    Whoever is killed in between leaves the old ``path`` (or none) and a temporary file that nobody reads.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with one_sentence(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            _flush(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(path: Path) -> bool:
    """Whether ``path`` is a temporary file of :func:`write_atomically`."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def remove_stale_temporaries(root: Path) -> None:
    """Remove what killed writers left below ``root``; files young enough to be in the making are left alone."""
    for path in root.rglob(".*.tmp"):
        with one_sentence(path):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink(missing_ok=True)


def write_parquet(path: Path, columns: Columns) -> None:
    """Write one- and two-dimensional arrays of equal length (two-dimensional ones as lists; NaN as NULL)."""
    flat: dict[str, NDArray[Any]] = {}
    expressions = []
    for number, (name, values) in enumerate(columns.items()):
        parts = {f"c{number}": values} if values.ndim == 1 else {f"c{number}_{j}": v for j, v in enumerate(values.T)}
        flat.update({key: np.ascontiguousarray(part) for key, part in parts.items()})
        value = ", ".join(parts) if values.ndim == 1 else f"[{', '.join(parts)}]"
        expressions.append(f"{value} AS {identifier(name)}")
    select = f"SELECT {', '.join(expressions)} FROM flat"

    def write(temporary: Path) -> None:
        with _database().cursor() as connection:
            connection.register("flat", flat)
            connection.execute(f"COPY ({select}) TO {quoted(temporary)} (FORMAT parquet, COMPRESSION zstd)")

    write_atomically(path, write)


def read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of :func:`write_parquet`; :class:`CorruptFileError` names a file that cannot be read."""
    source = f"read_parquet({quoted(path)})"
    try:
        with _database().cursor() as connection:
            table = connection.sql(f"SELECT * FROM {source}")
            names = table.columns
            lists = {
                name: int(connection.sql(f"SELECT max(len({identifier(name)})) FROM {source}").fetchall()[0][0])
                for name, kind in zip(names, table.types, strict=True)
                if kind.id == "list"
            }
            flat = connection.sql(f"SELECT {', '.join(_expressions(names, lists))} FROM {source}").fetchnumpy()
    except duckdb.Error as error:
        raise CorruptFileError(
            f"{path} cannot be read ({str(error).splitlines()[0]}); it is truncated or damaged. "
            "Delete it and run the same evaluation again to recompute what it held."
        ) from error
    return {
        name: np.stack([_filled(flat[f"{name}.{j}"]) for j in range(lists[name])], axis=1)
        if name in lists
        else _filled(flat[name])
        for name in names
    }


def _expressions(names: list[str], lists: Mapping[str, int]) -> Iterator[str]:
    for name in names:
        if name in lists:
            for j in range(lists[name]):
                yield f"{identifier(name)}[{j + 1}] AS {identifier(f'{name}.{j}')}"
        else:
            yield identifier(name)


def _filled(values: NDArray[Any]) -> NDArray[Any]:
    return values.filled(np.nan) if isinstance(values, np.ma.MaskedArray) else values
