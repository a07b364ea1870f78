"""JSON files of users: read, validated by pydantic, and refused in one sentence."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.files import read_text

T = TypeVar("T")


def read_json(path: str | Path) -> Any:
    """Parse a JSON file.

    Raises:
        UserError: the file cannot be read, is not JSON, or has the same key twice in one object.
    """
    try:
        return json.loads(read_text(path), object_pairs_hook=_reject_duplicate_keys)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not a JSON file: {error}.") from error


def validate(adapter: TypeAdapter[T], value: Any, what: str) -> T:
    """Return the value converted to the adapter's type.

    Args:
        adapter: of the expected type.
        value: of a user.
        what: the value is called in a message.

    Raises:
        UserError: it names the first entry that does not fit.

    Example:
        >>> validate(TypeAdapter(dict[str, float]), {"linf": "weak"}, "the list of strengths")
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: linf of the list of strengths: input should be a valid number, unable to \
parse string as a number; given: 'weak'.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise UserError(validation_message(error, what)) from error


def validation_message(error: ValidationError, what: str) -> str:
    """Return a sentence about the first entry of ``what`` that does not fit."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"{what} is not complete JSON: {first['ctx']['error']}."
    place = ".".join(str(part) for part in first["loc"])
    owner = f"{place} of {what}" if place else what
    if first["type"] == "value_error":
        reason = str(first["ctx"]["error"]).rstrip(".")
        return f"{owner}: {reason[:1].lower()}{reason[1:]}."
    if first["type"] == "missing":
        return f"{owner} is missing."
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{owner} is not known; a misspelt entry?"
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"{owner}: {message}; given: {shorten(repr(first['input']))}."


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise UserError(f"The key {repeated!r} appears twice in one JSON object.")
    return data
