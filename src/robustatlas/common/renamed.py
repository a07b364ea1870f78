"""Names that were others in earlier versions: files and calls that have the old ones are still understood."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

NOW = {"procedure": "protocol", "cells": "entries"}
"""What was called so before, and what it is called now."""

P = ParamSpec("P")
T = TypeVar("T")


def now_named(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same under the names of today.

    >>> now_named({"procedure": "paper", "seed": 0})
    {'protocol': 'paper', 'seed': 0}
    """
    return {NOW.get(name, name): value for name, value in given.items()}


def takes_old_names(function: Callable[P, T]) -> Callable[P, T]:
    """Have ``function`` take keywords under their old names as well.

    >>> takes_old_names(lambda *, protocol: protocol)(procedure="paper")
    'paper'
    """

    @wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **now_named(kwargs))

    return taking
