"""What can be extended: things by name, each imported when it is first asked for, here and from other packages.

A new one is one file, and one line that names it. In this package the line stands where the :class:`Registry` is made.
In another package it is an entry point of the registry's ``group`` in its ``pyproject.toml``::

    [project.entry-points."robustatlas.recipes"]
    mine = "my_package.recipes:Mine"
"""

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from robustatlas.common.errors import UserError, first_line, unknown, warn
from robustatlas.common.wording import listed

T = TypeVar("T")


class Registry(MutableMapping[str, T], Generic[T]):
    """Things of one kind by name: this package's in their order, then those of installed packages, then those that were
    entered in this process, as in ``RECIPES["mine"] = Mine``.

    Args:
        kind: what one is called in a sentence, such as ``"recipe"``.
        group: of the entry points of other packages.
        own: those of this package: name -> the thing, or where it is (``"training.recipes.pgd:Pgd"``).
        expected: what it must be, in a sentence.
        fits: whether a thing is that.

    A thing that has a ``name`` itself has the same one.

    Raises:
        UserError: on asking for a name that there is not, that cannot be imported, or that names something else.

    Example:
        >>> shapes = Registry("shape", "robustatlas.shapes", {"list": list}, "a class", lambda it: isinstance(it, type))
        >>> shapes["set"] = set
        >>> list(shapes), shapes["list"]
        (['list', 'set'], <class 'list'>)
        >>> shapes["lsit"]
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: There is no shape 'lsit'; did you mean 'list'?
    """

    def __init__(
        self, kind: str, group: str, own: Mapping[str, T | str], expected: str, fits: Callable[[Any], bool]
    ) -> None:
        self.kind, self.group, self._expected, self._fits = kind, group, expected, fits
        self._own = dict(own)
        self._entered: dict[str, T] = {}
        self._left_out: set[str] = set()

    @property
    def own(self) -> tuple[str, ...]:
        """The names of this package's."""
        return tuple(self._own)

    def __getitem__(self, name: str) -> T:
        if name in self._entered:
            return self._entered[name]
        if name in self._own:
            found = self._own[name]
            if isinstance(found, str):
                module, _, attribute = found.partition(":")
                found = getattr(import_module(f"robustatlas.{module}"), attribute)
            return found
        points = self._others().get(name, [])
        if len(points) > 1:
            packages = listed([_package(point) for point in points])
            raise UserError(f"The {self.kind} {name!r} is named by the packages {packages}; uninstall all but one.")
        if points:
            return self._of_package(points[0])
        raise self.unknown(name)

    def __setitem__(self, name: str, thing: T) -> None:
        self._entered[name] = self._checked(name, thing, f"The {self.kind} {name!r}")

    def __delitem__(self, name: str) -> None:
        del self._entered[name]

    def get(self, name: str, default: Any = None) -> Any:
        """What ``name`` stands for, or ``default`` where there is no such name."""
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._entered or name in self._own or name in self._others())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *sorted(self._others()), *self._entered)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def usable(self) -> dict[str, T]:
        """All by name, but for those of other packages that cannot be had, of which a warning tells once.

        >>> Registry("shape", "robustatlas.shapes", {"list": list}, "a class", callable).usable()
        {'list': <class 'list'>}
        """
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except UserError as error:
                if name not in self._left_out:
                    warn(f"{error} It is left out.")
                self._left_out.add(name)
        return found

    def unknown(self, name: object) -> UserError:
        """The error of a name that there is not."""
        return unknown(self.kind, name, self)

    def _others(self) -> Mapping[str, list[EntryPoint]]:
        return _advertised(self.group, frozenset(self._own), tuple(sys.path))

    def _of_package(self, point: EntryPoint) -> T:
        where = f"The {self.kind} {point.name!r} of the package {_package(point)} ({point.value})"
        try:
            found: T = point.load()
        except (Exception, SystemExit) as error:
            raise UserError(f"{where} cannot be imported: {first_line(error)}.") from error
        return self._checked(point.name, found, where)

    def _checked(self, name: str, thing: T, which: str) -> T:
        if not self._fits(thing):
            raise UserError(f"{which} is a {type(thing).__name__}; expected {self._expected}.")
        if (own := getattr(thing, "name", name)) != name:
            raise UserError(f"{which} has the name {own!r} itself; give it one name in both places.")
        return thing


def subclass_of(base: type) -> Callable[[Any], bool]:
    """Whether a thing is a class derived from ``base``."""
    return lambda thing: isinstance(thing, type) and issubclass(thing, base)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


@lru_cache
def _advertised(group: str, taken: frozenset[str], path: tuple[str, ...]) -> Mapping[str, list[EntryPoint]]:
    """Entry points of a group by name, found along ``path`` (``sys.path``), but for names that this package has."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        if point.name in taken:
            warn(f"The package {_package(point)} names {point.name!r} in {group}, as robustatlas does; it is left out.")
        else:
            found.setdefault(point.name, []).append(point)
    return found
