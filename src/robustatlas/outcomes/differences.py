"""Differences between two records, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from robustatlas.common.errors import shorten


def differences(known: Any, given: Any, where: str, place: str = "", there: str = "given") -> Iterator[str]:
    """Yield each number or text that differs, by its place; ``where`` the known one stands and ``there`` the given one.

    >>> list(differences({"steps": {"rate": 1}}, {"steps": {"rate": 2}}, "in the run"))
    ['steps.rate: 1 in the run, 2 given']
    """
    if isinstance(known, Mapping) and isinstance(given, Mapping):
        for key in dict.fromkeys([*known, *given]):
            inner = f"{place}.{key}" if place else str(key)
            yield from differences(known.get(key), given.get(key), where, inner, there)
    elif isinstance(known, list) and isinstance(given, list) and len(known) == len(given):
        for number, (one, other) in enumerate(zip(known, given, strict=True)):
            yield from differences(one, other, where, f"{place}.{number}", there)
    elif known != given:
        yield f"{place}: {_value_in_words(known)} {where}, {_value_in_words(given)} {there}"


def _value_in_words(value: object) -> str:
    if isinstance(value, list):
        return f"{len(value)} of them"
    return "nothing" if value is None else shorten(value)
