"""Settings of a model as they are typed: ``bits=3``."""

import ast
from collections.abc import Sequence
from typing import Any

from robustatlas.common.errors import UserError

_WORDS = {"true": True, "false": False, "none": None}


def parse_settings(items: Sequence[str]) -> dict[str, Any]:
    """Names and values of ``NAME=VALUE``, where a value is a Python literal, true, false, none, or else text.

    Args:
        items: such as ``bits=3``.

    Returns:
        name -> value.

    Raises:
        UserError: no ``=``, no name, or a name given twice.

    Example:
        >>> parse_settings(["bits=3", "name=foo", "flag=true", "mean=(0.5, 0.4)"])
        {'bits': 3, 'name': 'foo', 'flag': True, 'mean': (0.5, 0.4)}
    """
    settings: dict[str, Any] = {}
    for item in items:
        name, separator, value = item.partition("=")
        name = name.strip()
        if not separator or not name.isidentifier():
            raise UserError(f"The setting {item!r} must be NAME=VALUE, for example bits=3.")
        if name in settings:
            raise UserError(f"The setting {name!r} is given twice; give it once.")
        settings[name] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
