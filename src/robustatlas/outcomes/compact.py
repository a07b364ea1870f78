"""Many runs as one file: what SQL over a thousand of them reads. The runs stay the truth."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from robustatlas.common.errors import UserError
from robustatlas.common.files import named, one_sentence
from robustatlas.common.interrupts import interrupts_wait
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.tables import identifier, quoted
from robustatlas.outcomes.views import NOTHING, STRENGTH, VIEWS, doubles, fill

_VERSION = 3
LEFT_OUT = ("margins", "fooled")
"""Columns that a compact file does not have: 100 bytes a row at 20 strengths, where all others together take 16."""

_DERIVED = ("strengths", "broken")
"""Columns that are told from the others."""

_NOT_KEPT = (*LEFT_OUT, *_DERIVED)


def compact(runs: Sequence[str | Path], into: str | Path) -> Path:
    """Keep the tables of some runs in one file, for ``query``: made once, and then read in seconds.

    Runs that the file holds already, and that have the same files as then, are passed over; of others what it holds is
    replaced. Each run is done or not: whoever is killed loses the one at work. The lists ``margins`` and ``fooled``
    are left out.

    Args:
        runs: directories of runs, or their addresses.
        into: the file; a new one, or one that this made.

    Returns:
        the file.

    Raises:
        UserError: no run at a path, nothing in it yet, or a file that is something else.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> from robustatlas.outcomes import query
        >>> net, data = torch.nn.Linear(4, 2), (torch.rand(3, 4), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.evaluate(net, data, "linf", run=f"{folder}/run", progress=False)
        ...     file = compact([f"{folder}/run"], f"{folder}/all.duckdb")
        ...     query("SELECT attack, count(*) FROM outcomes GROUP BY attack", file).rows
        [('linf', 3)]
    """
    if not runs:
        raise UserError("No runs are given; name at least one run directory.")
    file = named(into, "a file for the tables of runs")
    with one_sentence(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and not is_compact(file):
        raise UserError(f"{file} is there and is not a compact file of this version; give the name of a new one.")
    for path in runs:
        run = Run.open(path)
        with _opened(file, writing=True) as connection:
            _keep(connection, str(named(path)), run)
    return file


def is_compact(path: str | Path) -> bool:
    """Whether a file is one that :func:`compact` made."""
    file = named(path, "a run, or a file for the tables of runs")
    if not file.is_file():
        return False
    try:
        with _opened(file) as connection:
            return connection.execute("SELECT version FROM compact.about").fetchall() == [(_VERSION,)]
    except duckdb.Error:
        return False


def attach(connection: duckdb.DuckDBPyConnection, file: Path, name: str) -> dict[str, str]:
    """Have a compact file read under a ``name``; of each view, and of ``broken``, the SELECT that is it."""
    connection.execute(f"ATTACH {quoted(file)} AS {name} (READ_ONLY)")
    grids = connection.execute(f"SELECT number, monotone, strengths FROM {name}.grids ORDER BY number").fetchall()
    strengths = [f"WHEN {number} THEN {doubles(grid)}" for number, _, grid in grids]
    within = {number: ", ".join(_within(repr(at)) for at in grid) for number, monotone, grid in grids if monotone}
    broken = [f"WHEN {number} THEN [{each}]" for number, each in within.items()]
    places = [f"WHEN {number} THEN list_position({doubles(grid)}, {STRENGTH})" for number, _, grid in grids]
    derived = [
        f"{_case(strengths, 'DOUBLE[]')} AS strengths",
        f"coalesce(own_broken, {_case(broken, 'BOOLEAN[]')}) AS broken",
    ]
    placed = f"SELECT *, {_case(places, 'INTEGER')} AS place FROM {name}.outcomes"
    return {
        **{view: f"SELECT * FROM {name}.{view}" for view in VIEWS},
        "outcomes": f"SELECT * EXCLUDE (grid, own_broken), {', '.join(derived)} FROM {name}.outcomes",
        "broken": (
            f'SELECT run, attack, "index", CASE WHEN own_broken IS NULL THEN {_within(STRENGTH)} '
            f"ELSE own_broken[place] END AS broken FROM ({placed}) WHERE place IS NOT NULL"
        ),
    }


@contextmanager
def _opened(file: Path, writing: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    with interrupts_wait(), duckdb.connect() as connection:
        connection.execute(f"ATTACH {quoted(file)} AS compact{'' if writing else ' (READ_ONLY)'}")
        yield connection


def _keep(connection: duckdb.DuckDBPyConnection, name: str, run: Run) -> None:
    """Have the file hold what a run does, all of it or nothing."""
    state = _state(run)
    _set_up(connection)
    if connection.execute("SELECT state FROM compact.sources WHERE run = ?", [name]).fetchall() == [(state,)]:
        return
    fill(connection, {name: (run, run.table())})
    connection.execute("BEGIN TRANSACTION")
    connection.execute(
        "INSERT INTO compact.grids SELECT (SELECT count(*) FROM compact.grids) + row_number() OVER (), * FROM "
        "(SELECT DISTINCT monotone, strengths FROM attacks EXCEPT SELECT monotone, strengths FROM compact.grids)"
    )
    for view in VIEWS:
        connection.execute(f"DELETE FROM compact.{view} WHERE run = ?", [name])
        connection.execute(f"INSERT INTO compact.{view} BY NAME {_rows(view)}")
    connection.execute("INSERT OR REPLACE INTO compact.sources VALUES (?, ?)", [name, state])
    connection.execute("COMMIT")


def _state(run: Run) -> str:
    """What the files of a run are called: they are whole and never change."""
    assert run.folder is not None
    names = sorted(path.relative_to(run.folder).as_posix() for path in run.folder.rglob("*.parquet"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _rows(view: str) -> str:
    if view != "outcomes":
        return f"SELECT * FROM {view}"
    return (
        f"SELECT o.* EXCLUDE ({', '.join(_NOT_KEPT)}), g.number AS grid, "
        "CASE WHEN a.monotone THEN NULL ELSE o.broken END AS own_broken "
        "FROM outcomes o JOIN attacks a USING (run, attack) "
        "JOIN compact.grids g ON g.strengths = a.strengths AND g.monotone = a.monotone"
    )


def _set_up(connection: duckdb.DuckDBPyConnection) -> None:
    made = "CREATE TABLE IF NOT EXISTS compact."
    connection.execute(f"{made}about AS SELECT {_VERSION} AS version")
    connection.execute(f"{made}sources (run VARCHAR PRIMARY KEY, state VARCHAR)")
    connection.execute(f"{made}grids (number BIGINT, monotone BOOLEAN, strengths DOUBLE[])")
    for view, columns in NOTHING.items():
        typed = [column.split(" ") for column in columns.split(", ")]
        kept = [(name, kind) for name, kind in typed if view != "outcomes" or name not in _NOT_KEPT]
        if view == "outcomes":
            kept += [("grid", "BIGINT"), ("own_broken", "BOOLEAN[]")]
        connection.execute(f"{made}{view} ({', '.join(f'{identifier(name)} {kind}' for name, kind in kept)})")


def _case(branches: Sequence[str], kind: str) -> str:
    return f"CASE grid {' '.join(branches)} END" if branches else f"CAST(NULL AS {kind})"


def _within(strength: str) -> str:
    """The one rule of nested threat models, as :meth:`robustatlas.outcomes.Outcome.broken` has it."""
    return f"(isfinite(minimal_size) AND minimal_size <= {strength})"
