"""JSON that others wrote: read whole, checked by pydantic, and refused in one sentence."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from robustatlas.common.errors import UserError, brief
from robustatlas.common.files import read_text

T = TypeVar("T")


def read_json(path: str | Path) -> Any:
    """Parse a JSON file; a `UserError` says what is wrong with it, a key that stands twice included."""
    try:
        return json.loads(read_text(path), object_pairs_hook=_without_duplicates)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not a JSON file: {error}.") from error


def checked(adapter: TypeAdapter[T], value: Any, what: str) -> T:
    """The value as the adapter's type; a `UserError` names the first entry of `what` that does not fit.

    Example:
        >>> checked(TypeAdapter(dict[str, float]), {"linf": "weak"}, "the list of strengths")
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: linf of the list of strengths: input should be a valid number, unable to \
parse string as a number; given: 'weak'.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise UserError(fault(error, what)) from error


def fault(error: ValidationError, what: str) -> str:
    """The first entry of ``what`` that does not fit, as a sentence."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"{what} is not complete JSON: {first['ctx']['error']}."
    place = ".".join(str(part) for part in first["loc"])
    owner = f"{place} of {what}" if place else what
    if first["type"] == "value_error":
        said = str(first["ctx"]["error"]).rstrip(".")
        return f"{owner}: {said[:1].lower()}{said[1:]}."
    if first["type"] == "missing":
        return f"{owner} is missing."
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{owner} is not known; a misspelt entry?"
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"{owner}: {message}; given: {brief(repr(first['input']))}."


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise UserError(f"The key {repeated!r} appears twice in one JSON object.")
    return data
