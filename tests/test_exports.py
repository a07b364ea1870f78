"""``robustatlas export``: what is written is what the run holds, in the form that the schema states."""

import json
from pathlib import Path

import duckdb
import jsonschema
import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from robustatlas.outcomes.tables import read_abouts
from robustatlas.report.exports import EXPORTERS
from robustatlas.report.exports.evidence import evidence_of

SCHEMA = Path(__file__).parents[1] / "docs" / "schemas" / "evidence.schema.json"


def test_evidence_keeps_its_schema_and_says_what_the_run_holds(evaluated_run: Path, tmp_path: Path) -> None:
    entered("export", evaluated_run, "-o", tmp_path / "e.json")
    told, result = json.loads((tmp_path / "e.json").read_text()), ra.load_result(evaluated_run)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert told == json.loads(json.dumps(evidence_of(result)))
    assert told["model"]["weights_sha256"] == result.identity.model.weights_sha256  # type: ignore[union-attr]
    for attack in ("linf", "l2", "rotation"):
        rows = [row for row in told["outcomes"] if row["attack"] == attack]
        sizes = [np.inf if row["minimal_size"] is None else row["minimal_size"] for row in rows]
        np.testing.assert_array_equal(sizes, result.minimal_size(attack))
        assert [row["verified"] for row in rows] == np.isfinite(sizes).tolist()
        assert [row["index"] for row in rows] == result.index.tolist()
        assert sum(row["forward"] for row in rows) == result.outcome(attack).forward.sum()
    assert {record["key"] for record in told["attacks"]} == set(result.records)


def test_evidence_has_the_audits() -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    result = ra.evaluate(model, data, "brightness", samples=9, audit=3, progress=False)
    told = evidence_of(result)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    (audit,), known = told["audits"], result.audited("brightness")
    assert audit["attack"] == "brightness" and audit["audited"] == 3 and audit["low"] == known.low.tolist()
    assert audit["mean"]["estimate"] == known.mean[0]


def test_the_schema_refuses_what_it_does_not_state(evaluated_run: Path) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == "urn:robustatlas:evidence:1", "a name, and no address that is not there"
    told = evidence_of(ra.load_result(evaluated_run))
    for wrong in ({"version": 2}, {"outcomes": [{"attack": "linf"}]}, {"clean_accuracy": 120}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(told | wrong, json.loads(SCHEMA.read_text()))


def test_the_table_holds_the_same_rows(evaluated_run: Path, tmp_path: Path) -> None:
    result, path = ra.load_result(evaluated_run), tmp_path / "e.parquet"
    EXPORTERS["parquet"].write(result, path)
    rows = duckdb.sql(f"SELECT minimal_size FROM '{path}' WHERE attack = 'l2' ORDER BY index").fetchnumpy()
    np.testing.assert_array_equal(rows["minimal_size"], result.minimal_size("l2"))
    about = json.loads(read_abouts([path])[path]["robustatlas"])
    assert about == {
        name: value for name, value in evidence_of(result).items() if name not in ("outcomes", "certified")
    }


def test_numbers_of_no_run_get_a_sentence() -> None:
    arrays = ra.Result.from_arrays([0], [0], {"linf": [0.1]}, {"linf": [0.1]})
    with pytest.raises(ra.UserError, match="arrays"):
        evidence_of(arrays)


def test_an_unknown_form_gets_a_sentence(evaluated_run: Path) -> None:
    assert "evidence" in entered("export", evaluated_run, "--to", "evidense", code=1).err
