"""Functions in files and in packages."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import parse_path
from robustatlas.common.wording import list_names, suggestion
from robustatlas.models.sources.source import Source


def function_named(place: str, function: str) -> Source:
    """The ``function`` of a file (``place`` ends in ``.py``) or of a package; its neighbours can be imported."""
    name = f"{place}:{function}"
    if place.endswith(".py"):
        path = parse_path(place)
        folder = path.parent.resolve()
        return Source(name, _function_in(_module_of_file(path), function, name), path, partial(_importable, folder))
    make = _function_in(_module_of_package(place), function, name)
    return Source(name, make, _file_of(make, place), partial(_importable, Path.cwd()))


def object_named(name: str) -> Any:
    """Whatever ``path/file.py:NAME`` names, as it stands there; :class:`UserError` where there is nothing."""
    place, _, wanted = name.rpartition(":")
    module = _module_of_file(parse_path(place))
    if not hasattr(module, wanted):
        there = [name for name in vars(module) if not name.startswith("_")]
        raise UserError(f"{place} has no {wanted!r}{suggestion(wanted, there, f'it has {list_names(there) or None}')}")
    return getattr(module, wanted)


def modules_of_files() -> list[ModuleType]:
    """The modules that files of models and attacks are, and those that they imported from beside them: no other process
    can import them by their names."""
    return [module for name, module in sys.modules.items() if name.startswith(_PREFIX) or name in _NEIGHBOURS]


def _function_in(module: ModuleType, function: str, source: str) -> Callable[..., Any]:
    make = getattr(module, function, None)
    if callable(make):
        return make  # type: ignore[no-any-return]
    known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    there = f"it has {list_names(known) or 'none'}"
    raise UserError(f"{source!r} has no function {function!r}{suggestion(function, known, there)}")


def _file_of(make: Callable[..., Any], module: str) -> Path | None:
    """The file that ``make`` is written in, or else that of the module it was asked from."""
    for name in (getattr(make, "__module__", None), module):
        file = getattr(sys.modules.get(str(name)), "__file__", None)
        if file is not None and Path(file).is_file():
            return Path(file)
    return None


_PREFIX = "robustatlas_model_"

_NEIGHBOURS: dict[str, Path] = {}
"""Modules that files of models imported from their own folder: another folder may have others of the same name."""


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    for name, home in list(_NEIGHBOURS.items()):
        top = folder / name.partition(".")[0]
        if home != folder and (top.with_suffix(".py").is_file() or top.is_dir()):
            sys.modules.pop(name, None)
            del _NEIGHBOURS[name]
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(folder):
                _NEIGHBOURS[name] = folder


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    spec = importlib.util.spec_from_file_location(f"{_PREFIX}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be imported as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        with _importable(path.parent.resolve()):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{path} failed while it was imported: {first_line(error)}.") from error
    return module


def _module_of_package(name: str) -> ModuleType:
    try:
        with _importable(Path.cwd()):  # as python -m does
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"There is no Python module {name!r}; give a module, or a file as path/file.py:function."
            ) from error
        raise UserError(f"Module {name!r} needs {error.name!r}, which is not installed.") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"Module {name!r} failed while it was imported: {first_line(error)}.") from error
