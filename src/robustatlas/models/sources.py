"""Where a model's function stands: in a file, in a package, or among what is shipped."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from robustatlas.errors import UserError
from robustatlas.models.builtin import load_builtin


@dataclass(frozen=True)
class Source:
    """A function that makes a model, and the file it stands in (None: shipped with robustatlas).

    ``folder``: its neighbours can be imported while it runs.
    """

    name: str
    make: Callable[..., Any]
    file: Path | None = None
    folder: Path | None = None

    def made(self, arguments: Mapping[str, Any]) -> Any:
        """What the function returns; :class:`UserError` where it does not take ``arguments`` or fails."""
        _check_arguments(self, arguments)
        try:
            with _importable(self.folder):
                return self.make(**arguments)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"{self.name!r} failed ({_first_line(error)}); "
                + (f"it was called with {dict(arguments)}." if arguments else "it was called without arguments.")
            ) from error

    def sha256(self, arguments: Mapping[str, Any]) -> str | None:
        """Of the bytes of the file (as ``sha256sum`` has it) and, where there are any, of ``arguments``."""
        if self.file is None:
            return None
        digest = hashlib.sha256(self.file.read_bytes())
        if arguments:
            digest.update(json.dumps(dict(arguments), sort_keys=True, default=_class_name).encode())
        return digest.hexdigest()


def source_named(name: str) -> Source:
    """What ``path/file.py:function``, ``package.module:function`` or ``builtin:NAME`` names.

    Raises:
        UserError: no such file, module or function, or a file that cannot be imported.
    """
    if not isinstance(name, str):
        raise UserError(
            f"A model is loaded by its name, not from a {type(name).__name__}; give a network to Classifier."
        )
    place, separator, function = name.rpartition(":")
    if not separator or not place or not function:
        raise UserError(
            f"The model {name!r} must be path/file.py:function, package.module:function or builtin:NAME, "
            "for example builtin:digits-standard."
        )
    if place == "builtin":
        return Source(name, partial(load_builtin, function))
    if place.endswith(".py"):
        path = Path(place)
        return Source(name, _function_in(_module_of_file(path), function, name), path, path.parent.resolve())
    make = _function_in(_module_of_package(place), function, name)
    return Source(name, make, _file_of(make, place), Path.cwd())


def object_named(name: str) -> Any:
    """Whatever ``path/file.py:NAME`` names, as it stands there; :class:`UserError` where there is nothing."""
    place, _, wanted = name.rpartition(":")
    module = _module_of_file(Path(place))
    if not hasattr(module, wanted):
        close = difflib.get_close_matches(wanted, vars(module), n=1)
        raise UserError(f"{place} has no {wanted!r}" + (f"; did you mean {close[0]!r}?" if close else "."))
    return getattr(module, wanted)


def _check_arguments(source: Source, arguments: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(source.make).parameters
    except (TypeError, ValueError):  # made in C
        return
    kinds = inspect.Parameter
    named = [p for p in parameters.values() if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    known = [p.name for p in named]
    unknown = [name for name in arguments if name not in known]
    if unknown and not any(p.kind is kinds.VAR_KEYWORD for p in parameters.values()):
        raise UserError(
            f"{source.name!r} has no parameter {', '.join(map(repr, unknown))}; "
            + (f"its parameters are {', '.join(known)}." if known else "it takes none.")
        )
    needed = [p.name for p in named if p.default is kinds.empty and p.name not in arguments]
    needed += [p.name for p in parameters.values() if p.kind is kinds.POSITIONAL_ONLY and p.default is kinds.empty]
    if needed:
        raise UserError(
            f"{source.name!r} needs {', '.join(map(repr, needed))}; give "
            f"arguments={{{', '.join(f'{name!r}: ...' for name in needed)}}} "
            f"({' '.join(f'--set {name}=VALUE' for name in needed)}), or let the function have a default."
        )


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _function_in(module: ModuleType, function: str, source: str) -> Callable[..., Any]:
    make = getattr(module, function, None)
    if callable(make):
        return make  # type: ignore[no-any-return]
    known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = difflib.get_close_matches(function, known, n=1)
    raise UserError(
        f"{source!r} has no function {function!r}"
        + (f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(known) or 'none'}.")
    )


def _file_of(make: Callable[..., Any], module: str) -> Path | None:
    """The file that ``make`` is written in, or else that of the module it was asked from."""
    for name in (getattr(make, "__module__", None), module):
        file = getattr(sys.modules.get(str(name)), "__file__", None)
        if file is not None and Path(file).is_file():
            return Path(file)
    return None


_NEIGHBOURS: dict[str, Path] = {}
"""Modules that files of models imported from their own folder: another folder may have others of the same name."""


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """Let code import what lies in ``folder``."""
    if folder is None:
        yield
        return
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
    spec = importlib.util.spec_from_file_location(f"robustatlas_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be imported as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        with _importable(path.parent.resolve()):
            spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} failed while it was imported: {_first_line(error)}.") from error
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
    except Exception as error:
        raise UserError(f"Module {name!r} failed while it was imported: {_first_line(error)}.") from error
