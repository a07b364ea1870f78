"""Evidence for auditors and other tools: per sample and attack what was found, and everything that says how.

The schema stands beside this file, ``evidence.schema.json``; a change that a reader has to know raises its version.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError
from robustatlas.files import write_text
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.tables import write_parquet
from robustatlas.result import Result
from robustatlas.tabular import objects
from robustatlas.version import __version__

VERSION = 1
SCHEMA = Path(__file__).with_name("evidence.schema.json")
"""JSON Schema (draft 2020-12) of what :func:`evidence_of` gives."""


def about_of(result: Result) -> dict[str, Any]:
    """What the outcomes are of, and what made them."""
    identity = result.identity
    if identity is None:
        raise UserError("These numbers came as arrays, which say nothing of model and data; export a run.")
    return {
        "format": "robustatlas-evidence",
        "version": VERSION,
        "tool": {"name": "robustatlas", "version": __version__},
        "created": identity.created,
        "model": identity.model.model_dump(mode="json", exclude={"probe"}),
        "data": identity.data.model_dump(mode="json"),
        "samples": result.samples,
        "clean_accuracy": result.clean_accuracy,
        "complete": result.complete,
        "attacks": [record.model_dump(mode="json") | {"key": key} for key, record in result.records.items()],
        "circumstances": [dict(place) for place in result.circumstances],
        "void": dict(result.void),
        "diagnosis": None if result.diagnosis is None else result.diagnosis.to_dict(),
        "warnings": list(result.warnings),
    }


def evidence_of(result: Result) -> dict[str, Any]:
    """All evidence of a run as plain data, in the form of :data:`SCHEMA`.

    Raises:
        UserError: numbers that are of no run.

    Example:
        >>> import robustatlas as ra
        >>> result = ra.evaluate(ra.load_model("builtin:digits-linf"), ra.load_dataset("digits"), "linf",
        ...                      strengths={"linf": [0.3]}, samples=2, progress=False)
        >>> [row["attack"] for row in evidence_of(result)["outcomes"]]
        ['linf', 'linf']
    """
    columns = _columns(result)
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return about_of(result) | {"outcomes": [_row(dict(zip(columns, row, strict=True))) for row in rows]}


def _columns(result: Result) -> dict[str, NDArray[Any]]:
    """One row for each attack and sample. What is verified was judged once more, by the model itself in full precision;
    every example is, and inputs that are misclassified clean are their own."""
    outcomes = [result.outcome(attack) for attack in result.attacks]

    def all_of(values: Callable[[Outcome], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([values(outcome) for outcome in outcomes])

    sizes = all_of(lambda outcome: outcome.minimal_size)
    return {
        "attack": np.repeat(objects(list(result.attacks)), result.samples),
        "index": all_of(lambda _: result.index),
        "label": all_of(lambda _: result.labels),
        "clean_prediction": all_of(lambda _: result.clean_prediction),
        "minimal_size": sizes,
        "minimal_strength": all_of(lambda outcome: outcome.minimal_strength),
        "found_class": all_of(lambda outcome: outcome.found_class),
        "verified": np.isfinite(sizes),
        "forward": all_of(lambda outcome: outcome.forward),
        "backward": all_of(lambda outcome: outcome.backward),
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    if not row["verified"]:
        return dict(row) | {"minimal_size": None, "minimal_strength": None, "found_class": None}
    return dict(row) | {"minimal_strength": _finite(row["minimal_strength"])}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write_json(result: Result, path: Path) -> None:
    """Write :func:`evidence_of` a run to ``path``."""
    write_text(path, json.dumps(evidence_of(result), indent=1, allow_nan=False) + "\n")


def write_table(result: Result, path: Path) -> None:
    """Write the outcomes of a run to a Parquet file at ``path`` (no example: an infinite size), with everything else of
    :func:`evidence_of` as JSON in its metadata, under ``robustatlas``."""
    about = {"robustatlas": json.dumps(about_of(result), allow_nan=False)}
    columns = _columns(result)
    write_parquet(path, columns | {"attack": columns["attack"].astype(str)}, about)
