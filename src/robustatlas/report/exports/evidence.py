"""Evidence for auditors and other tools: per sample and attack what was found, and everything that says how.

Its JSON schema is ``docs/schemas/evidence.schema.json``. A change that a reader has to know raises the version.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.files import write_text
from robustatlas.common.tabular import object_column
from robustatlas.common.typed_strengths import unit_as_typed, value_as_typed
from robustatlas.common.version import __version__
from robustatlas.metrics.audit import Audited
from robustatlas.outcomes.bounds import strengths_by_attack
from robustatlas.outcomes.display import columns_of
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.tables import write_parquet
from robustatlas.report.numbers.plain import finite
from robustatlas.results.result import Result

VERSION = 1


def run_description(result: Result) -> dict[str, Any]:
    """Return what the outcomes are of, and what made them."""
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
        "attacks": [_attack(record) | {"key": key} for key, record in result.records.items()],
        "unsearched": strengths_by_attack(result.unsearched),
        "certificates": [record.description() for held in result.certified_sizes.values() for record in held.records],
        "circumstances": [dict(place) for place in result.circumstances],
        "invalid": dict(result.invalid),
        "diagnosis": None if result.diagnosis is None else result.diagnosis.to_dict(),
        "audits": [_audit(attack, result.audited(attack)) for attack in result.audit_sentences()],
        "warnings": list(result.warnings),
    }


def _attack(record: AttackRecord) -> dict[str, Any]:
    strengths = [value_as_typed(record.name, strength) for strength in record.strengths]
    unit = unit_as_typed(record.unit, attack=record.name)
    return record.model_dump(mode="json") | {"strengths": strengths, "unit": unit}


def _audit(attack: str, audit: Audited) -> dict[str, Any]:
    numbers = {name: getattr(audit, name).tolist() for name in ("found", "estimate", "low", "high", "fallen")}
    numbers = {"strengths": audit.strengths.tolist()} | numbers
    mean = dict(zip(("estimate", "low", "high"), audit.mean, strict=True))
    return {"attack": attack, "audited": audit.audited, "confidence": audit.confidence, **numbers, "mean": mean}


def evidence_of(result: Result) -> dict[str, Any]:
    """All evidence of a run as plain data; :class:`UserError` for numbers that are of no run."""
    columns = _columns(result)
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    return run_description(result) | {
        "outcomes": [_row(row) for row in found if row["attack"] in result.attacks],
        "certified": [_certified(row) for row in found if not math.isnan(row["certified_size"])],
    }


_OUTCOME = ("minimal_size", "minimal_strength", "found_class", "verified", "forward", "backward")
_SAMPLE = ("attack", "index", "label", "clean_prediction")
_CERTIFIED = ("certified_size", "certified_by")


def _columns(result: Result) -> dict[str, NDArray[Any]]:
    """One row for each attack and sample. What is verified was judged once more, by the model itself in full precision;
    every example is, and inputs that are misclassified clean are their own."""
    columns = columns_of(result)
    count = len(columns["index"])
    columns["verified"] = np.isfinite(columns["minimal_size"])
    columns = {"certified_size": np.full(count, np.nan), "certified_by": object_column([""] * count)} | columns
    return {name: columns[name] for name in (*_SAMPLE, *_OUTCOME, *_CERTIFIED)}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in (*_SAMPLE, *_OUTCOME)}
    if not row["verified"]:
        return found | {"minimal_size": None, "minimal_strength": None, "found_class": None}
    return found | {"minimal_strength": finite(row["minimal_strength"])}


def _certified(row: Mapping[str, Any]) -> dict[str, Any]:
    found, size = {name: row[name] for name in (*_SAMPLE, *_CERTIFIED)}, row["certified_size"]
    return found | {"certified_size": finite(size), "at_every_size": math.isinf(size)}


def write_json(result: Result, path: Path) -> None:
    """Write :func:`evidence_of` a run to ``path``."""
    write_text(path, json.dumps(evidence_of(result), indent=1, allow_nan=False) + "\n")


def write_table(result: Result, path: Path) -> None:
    """Write the outcomes of a run to a Parquet file at ``path`` (no example: an infinite size; not run, or not
    certified: NULL), with everything else of :func:`evidence_of` as JSON in its metadata, under ``robustatlas``."""
    about = {"robustatlas": json.dumps(run_description(result), allow_nan=False)}
    columns = _columns(result)
    write_parquet(path, columns | {name: columns[name].astype(str) for name in ("attack", "certified_by")}, about)
