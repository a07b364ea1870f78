"""An attack as plain data: what a run records of it, and what decides whether two runs' numbers belong together."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any

from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes.base import sha256_of_tensors


def to_plain_data(value: Any) -> Any:
    """``value`` with everything in it as dicts, lists, strings and numbers, equal for equal numbers.

    Dataclasses are their fields and their ``version``, networks their structure and a hash of their weights, functions
    their code. Anything else needs a method ``to_record()`` that returns such plain data.
    """
    if hasattr(value, "to_record") and not isinstance(value, type):
        return to_plain_data(value.to_record()) | _version(value)
    if is_dataclass(value) and not isinstance(value, type):
        said = {f.name: to_plain_data(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__} | said | _version(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain_data(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Tensor):
        return {"sha256": sha256_of_tensors({"": value})}
    if isinstance(value, Classifier):
        return {"network": to_plain_data(value.net), "normalisation": to_plain_data(value.normalisation())}
    if isinstance(value, nn.Module):
        return {"network": _hash(str(value)), "sha256": sha256_of_tensors(value.state_dict())}
    if isinstance(getattr(value, "__code__", None), CodeType):
        return _function(value)
    raise UserError(
        f"{type(value).__name__} in an attack's settings cannot be recorded: results could not be told from those with "
        "another one. Make it a dataclass, or give it a method to_record() that returns plain data."
    )


def _version(value: Any) -> dict[str, int]:
    """Return the version of an object's type, and nothing for a type without versions."""
    version = getattr(type(value), "version", None)
    return {} if version is None else {"version": version}


def _function(function: Callable[..., Any]) -> dict[str, Any]:
    """A function by its name, its code, and what it closes over."""
    cells = [to_plain_data(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    return {"function": function.__qualname__, "code": _code(function.__code__), "closure": cells}


def _code(code: CodeType) -> str:
    constants = [_code(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return _hash(repr((code.co_code.hex(), constants, code.co_names)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
