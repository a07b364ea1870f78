"""The JSON schemas in docs/schemas hold for files that a run writes, and are those of the models that read them."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def test_files_of_a_run_keep_their_schemas(evaluated_run: Path) -> None:
    records = sorted((evaluated_run / "attacks").glob("*.json"))
    assert len(records) >= 3
    for name, paths in {"run": [evaluated_run / "run.json"], "attack": records}.items():
        for path in paths:
            content = json.loads(path.read_text(encoding="utf-8"))
            jsonschema.validate(content, schema(name))
            assert set(content) <= set(schema(name)["properties"])


@pytest.mark.parametrize(
    ("name", "wrong"), [("run", {"model": {}}), ("run", {"more": 1}), ("attack", {"strengths": []})]
)
def test_schemas_refuse_other_files(evaluated_run: Path, name: str, wrong: dict[str, Any]) -> None:
    path = evaluated_run / "run.json" if name == "run" else next((evaluated_run / "attacks").glob("*.json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(path.read_text(encoding="utf-8")) | wrong, schema(name))


def test_schemas_are_those_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCHEMAS.parents[0] / "_tools"))
    tool = import_module("schemas")
    for name in tool.MODELS:
        assert schema(name) == json.loads(tool.schema_text(name)), "write them again: python docs/_tools/schemas.py"
