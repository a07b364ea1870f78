"""A source of a model: a function with settings that makes it, and the context that the function needs."""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustatlas.common.errors import UserError, first_line


@dataclass(frozen=True)
class Source:
    """A function that makes a model, and the file that determines it (None: shipped or installed).

    ``context``: the context manager that the function runs in.
    """

    name: str
    make: Callable[..., Any]
    file: Path | None = None
    context: Callable[[], AbstractContextManager[Any]] = nullcontext

    @property
    def pretrains(self) -> bool:
        """True if it makes published weights, unless ``pretrained=False`` is among its settings."""
        with suppress(TypeError, ValueError):
            return self.file is None and "pretrained" in inspect.signature(self.make).parameters
        return False

    def make_model(self, arguments: Mapping[str, Any]) -> Any:
        """Return what the function makes; :class:`UserError` if it does not take ``arguments`` or fails."""
        _check_arguments(self, arguments)
        try:
            with self.context():
                return self.make(**arguments)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"{self.name!r} failed ({first_line(error)}); "
                + (f"it was called with {', '.join(arguments)}." if arguments else "it was called without arguments.")
            ) from error

    def sha256(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the hash of the bytes of the file (as ``sha256sum`` has it) and of ``arguments`` if there are any."""
        if self.file is None or not self.file.is_file():
            return None
        digest = hashlib.sha256(self.file.read_bytes())
        if arguments:
            digest.update(json.dumps(dict(arguments), sort_keys=True, default=_class_name).encode())
        return digest.hexdigest()


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


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
