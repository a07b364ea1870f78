"""Registries of extensions by name, from this package and others; each is imported when it is first used.

A new extension is one file and one line that names it. In this package the line is where the :class:`Registry` is
constructed. In another package it is an entry point of the registry's ``group`` in its ``pyproject.toml``::

    [project.entry-points."robustatlas.recipes"]
    mine = "my_package.recipes:Mine"
"""

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from robustatlas.common.errors import UserError, first_line, unknown_name_error, warn
from robustatlas.common.wording import join_words

T = TypeVar("T")


class Registry(MutableMapping[str, T], Generic[T]):
    """Mapping from names to extensions of one kind.

    Those of this package come first, then those of installed packages, then those that this process added, as in
    ``RECIPES["mine"] = Mine``.

    Args:
        kind: word for one extension in a sentence, such as ``"recipe"``.
        group: entry point group of other packages.
        builtin: this package's, by name: the extension, or its place (``"training.recipes.pgd:Pgd"``).
        expected: what an extension must be, in a sentence.
        is_valid: predicate that an extension must satisfy.

    If an extension has an attribute ``name``, it must be the name in the registry.

    Raises:
        UserError: on lookup, if the name is unknown, cannot be imported, or is not an extension of this kind.

    Example:
        >>> shapes = Registry("shape", "robustatlas.shapes", {"list": list}, "a class", subclass_test(object))
        >>> shapes["set"] = set
        >>> list(shapes), shapes["list"]
        (['list', 'set'], <class 'list'>)
        >>> shapes["lsit"]
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: There is no shape 'lsit'; did you mean 'list'?
    """

    def __init__(
        self, kind: str, group: str, builtin: Mapping[str, T | str], expected: str, is_valid: Callable[[Any], bool]
    ) -> None:
        self.kind, self.group, self._expected, self._is_valid = kind, group, expected, is_valid
        self._builtin = dict(builtin)
        self._added: dict[str, T] = {}
        self._reported: set[str] = set()

    @property
    def builtin_names(self) -> tuple[str, ...]:
        """Names of the extensions that this package contains."""
        return tuple(self._builtin)

    def __getitem__(self, name: str) -> T:
        if name in self._added:
            return self._added[name]
        if name in self._builtin:
            found = self._builtin[name]
            if isinstance(found, str):
                module, _, attribute = found.partition(":")
                found = getattr(import_module(f"robustatlas.{module}"), attribute)
            return found
        points = self._entry_points().get(name, [])
        if len(points) > 1:
            packages = join_words([_package_name(point) for point in points])
            raise UserError(f"The {self.kind} {name!r} is named by the packages {packages}; uninstall all but one.")
        if points:
            return self._load(points[0])
        raise self.unknown_name_error(name)

    def __setitem__(self, name: str, thing: T) -> None:
        self._added[name] = self._validate(name, thing, f"The {self.kind} {name!r}")

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the extension ``name``, or ``default`` if the name is unknown."""
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._added or name in self._builtin or name in self._entry_points())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._builtin, *sorted(self._entry_points()), *self._added)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def load_usable(self) -> dict[str, T]:
        """Return all extensions by name, without those of other packages that cannot be imported or are not valid.

        Each of these is named in one warning.

        >>> Registry("shape", "robustatlas.shapes", {"list": list}, "a class", callable).load_usable()
        {'list': <class 'list'>}
        """
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except UserError as error:
                if name not in self._reported:
                    warn(f"{error} It is left out.")
                self._reported.add(name)
        return found

    def unknown_name_error(self, name: object) -> UserError:
        """Return the error for a name that is not registered."""
        return unknown_name_error(self.kind, name, self)

    def _entry_points(self) -> Mapping[str, list[EntryPoint]]:
        return _find_entry_points(self.group, frozenset(self._builtin), tuple(sys.path))

    def _load(self, point: EntryPoint) -> T:
        where = f"The {self.kind} {point.name!r} of the package {_package_name(point)} ({point.value})"
        try:
            found: T = point.load()
        except (Exception, SystemExit) as error:
            raise UserError(f"{where} cannot be imported: {first_line(error)}.") from error
        return self._validate(point.name, found, where)

    def _validate(self, name: str, thing: T, subject: str) -> T:
        if not self._is_valid(thing):
            raise UserError(f"{subject} is a {type(thing).__name__}; expected {self._expected}.")
        if (own := getattr(thing, "name", name)) != name:
            raise UserError(f"{subject} has the name {own!r} itself; give it one name in both places.")
        return thing


def subclass_test(base: type) -> Callable[[Any], bool]:
    """Return a predicate that holds for subclasses of ``base``."""
    return lambda thing: isinstance(thing, type) and issubclass(thing, base)


def _package_name(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


@lru_cache
def _find_entry_points(group: str, taken: frozenset[str], path: tuple[str, ...]) -> Mapping[str, list[EntryPoint]]:
    """Return the entry points of a group by name, without the names that this package has.

    ``path`` is ``sys.path``: it is an argument so that a changed search path is searched again.
    """
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        if point.name in taken:
            warn(
                f"The package {_package_name(point)} names {point.name!r} in {group}, as robustatlas does; it is left "
                "out."
            )
        else:
            found.setdefault(point.name, []).append(point)
    return found
