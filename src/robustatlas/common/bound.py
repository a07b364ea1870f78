"""Methods that a class of a lower room gets from a room above, named in one place and imported at first use."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

WHERE: dict[str, str] = {}
"""``"Class.method"`` -> the function, as in ``"robustatlas.report.card:card_of_result"``; the package fills it."""


class Bound:
    """A method whose function is named in :data:`WHERE`.

    >>> WHERE["Word.long"] = "textwrap:fill"
    >>> class Word(str):
    ...     long = Bound()
    >>> Word("two words").long(width=5)
    'two\\nwords'
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, instance: object | None, owner: type) -> Callable[..., Any]:
        module, _, name = WHERE[self._name].partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function if instance is None else function.__get__(instance)
