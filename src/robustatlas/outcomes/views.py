"""The tables of runs as views of DuckDB."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from robustatlas.common.tabular import objects
from robustatlas.common.wording import typed
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.outcomes.tables import expressions_of, identifier, quoted

NOTHING: Mapping[str, str] = {
    "runs": "run VARCHAR, model VARCHAR, data VARCHAR, created VARCHAR, samples BIGINT",
    "attacks": "run VARCHAR, attack VARCHAR, unit VARCHAR, strengths DOUBLE[], monotone BOOLEAN, origins VARCHAR[]",
    "samples": "run VARCHAR, index BIGINT, label BIGINT, clean_prediction BIGINT, clean_margin DOUBLE",
    "outcomes": "run VARCHAR, attack VARCHAR, index BIGINT, minimal_strength DOUBLE, minimal_size DOUBLE, "
    "certified_size DOUBLE, found_class BIGINT, forward BIGINT, backward BIGINT, mistakes DOUBLE, drawn DOUBLE, "
    "broken BOOLEAN[], margins FLOAT[], fooled TINYINT[], queries DOUBLE[], typical DOUBLE[], strengths DOUBLE[]",
    "accuracies": "run VARCHAR, attack VARCHAR, strength DOUBLE, typed DOUBLE, accuracy DOUBLE, typical DOUBLE",
    "certified": "run VARCHAR, attack VARCHAR, of VARCHAR, unit VARCHAR, index BIGINT, certified_size DOUBLE, "
    "method VARCHAR",
}
"""The columns of each view."""

VIEWS = tuple(NOTHING)

STRENGTH = "CAST(strength AS DOUBLE)"
"""That at which ``broken(strength)`` is asked for."""


def fill(
    connection: duckdb.DuckDBPyConnection,
    runs: Mapping[str, tuple[Run, OutcomeTable]],
    besides: Sequence[Mapping[str, str]] = (),
) -> None:
    """Make the views of some runs, by what SQL calls them; ``besides``: SELECTs of views that are there already, and
    of ``broken`` at :data:`STRENGTH`."""
    views: dict[str, list[str]] = {view: [] for view in VIEWS}
    select = partial(_registered, connection, count())
    for name, (run, table) in runs.items():
        texts = {"run": name, "model": table.name, "data": table.data, "created": run.identity.created}
        fields = ", ".join(f"{quoted(value)} AS {key}" for key, value in texts.items())
        views["runs"].append(f"SELECT {fields}, {table.samples} AS samples")
        views["samples"].append(select(f"SELECT {quoted(name)} AS run", _sample_columns(table)))
        for attack, outcome in table.outcomes.items():
            begin = f"SELECT {quoted(name)} AS run, {quoted(attack)} AS attack"
            origins = ", ".join(quoted(origin) for origin in outcome.origins)
            views["attacks"].append(
                f"{begin}, {quoted(outcome.unit)} AS unit, {doubles(outcome.strengths.tolist())} AS strengths, "
                f"{outcome.monotone} AS monotone, CAST([{origins}] AS VARCHAR[]) AS origins"
            )
            views["outcomes"].append(select(begin, _outcome_columns(table, outcome), _of_all(outcome)))
            typical = (
                np.full(len(outcome.strengths), np.nan) if outcome.typical is None else outcome.typical_accuracies()
            )
            at_each = {
                "strength": outcome.strengths,
                "typed": np.array([typed(attack, strength) for strength in outcome.strengths.tolist()]),
                "accuracy": outcome.accuracies(),
                "typical": typical,
            }
            views["accuracies"].append(select(begin, at_each))
        for held in table.certified_sizes.values():
            sizes = {"index": table.index, "certified_size": held.sizes, "method": objects(held.by)}
            views["certified"].append(select(_certified(name, held), sizes))
    own = {**views, "broken": [_broken(views["outcomes"])] if views["outcomes"] or not besides else []}
    every = {view: [*(known[view] for known in besides), *selects] for view, selects in own.items()}
    for view in VIEWS:
        connection.execute(f"CREATE VIEW {view} AS {_union(view, every[view])}")
    connection.execute(f"CREATE MACRO broken(strength) AS TABLE {_union('broken', every['broken'])}")


def _union(view: str, selects: Sequence[str]) -> str:
    return " UNION ALL BY NAME ".join(selects or [_nothing(NOTHING[view])])


def _broken(outcomes: Sequence[str]) -> str:
    return (
        f'SELECT run, attack, "index", broken[list_position(strengths, {STRENGTH})] AS broken '
        f"FROM ({_union('outcomes', outcomes)}) WHERE list_contains(strengths, {STRENGTH})"
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
        **({} if outcome.queries is None else {"queries": np.where(outcome.queries > 0, outcome.queries, np.nan)}),
        **({} if outcome.typical is None else {"typical": outcome.typical}),
    }


def _of_all(outcome: Outcome) -> str:
    """What is the same at every sample: the strengths, and that no queries were counted, or nothing drawn."""
    lacking = [name for name in ("queries", "typical") if getattr(outcome, name) is None]
    nothing = "".join(f", CAST(NULL AS DOUBLE[]) AS {name}" for name in lacking)
    return f"{nothing}, {doubles(outcome.strengths.tolist())} AS strengths"


def _certified(run: str, held: CertifiedSizes) -> str:
    texts = {"run": run, "attack": held.attack, "of": held.of, "unit": held.unit}
    return f"SELECT {', '.join(f'{quoted(value)} AS {identifier(key)}' for key, value in texts.items())}"


def _nothing(columns: str) -> str:
    """A SELECT without rows that has the columns, such as `run VARCHAR, index BIGINT`."""
    typed = (column.split(" ") for column in columns.split(", "))
    return f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {identifier(name)}' for name, kind in typed)} WHERE false"


def _registered(
    connection: duckdb.DuckDBPyConnection,
    numbers: Iterator[int],
    begin: str,
    columns: Mapping[str, NDArray[Any]],
    end: str = "",
) -> str:
    """A SELECT of arrays [N] and, as lists, [N, S]; NaN in lists is NULL. The table has the next of ``numbers``."""
    expressions, flat = expressions_of(columns, nullable=True)
    relation = f"t{next(numbers)}"
    connection.register(relation, flat)
    return f"{', '.join([begin, *expressions])}{end} FROM {relation}"


def doubles(values: Sequence[float]) -> str:
    """Numbers as a list of SQL."""
    return f"CAST([{', '.join(map(repr, values))}] AS DOUBLE[])"
