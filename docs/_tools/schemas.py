"""Write the JSON schemas of run.json and of attack records into docs/schemas, from the models that read these files.

    python docs/_tools/schemas.py

The schema of the evidence export, ``evidence.schema.json``, is written by hand.
"""

import json
from pathlib import Path
from typing import Any

from robustatlas.outcomes.identity import Identity
from robustatlas.outcomes.records import AttackRecord

SCHEMAS = Path(__file__).parents[1] / "schemas"
MODELS = {"run": Identity, "attack": AttackRecord}
_ABOUT_PYTHON = ("title", "description")
"""Keys of pydantic's schemas that repeat names and docstrings of Python, which are no part of the format."""


def schema_text(name: str) -> str:
    """Return the schema of one kind of file, as it is committed."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:robustatlas:{name}:1",
        **_drop_keys(MODELS[name].model_json_schema(mode="serialization"), _ABOUT_PYTHON),
    }
    return json.dumps(schema, indent=1) + "\n"


def _drop_keys(value: Any, keys: tuple[str, ...], *, is_schema: bool = True) -> Any:
    """Return a schema without some keywords; a property may have such a name."""
    if isinstance(value, list):
        return [_drop_keys(item, keys) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _drop_keys(item, keys, is_schema=key not in ("properties", "$defs"))
        for key, item in value.items()
        if not is_schema or key not in keys
    }


if __name__ == "__main__":
    for name in MODELS:
        (SCHEMAS / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")
