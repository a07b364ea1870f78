"""The local files that a model, an architecture or the features of a distance are made of, and their hashes."""

import ast
import hashlib
import importlib.util
import inspect
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.common.files import at_home, named
from robustatlas.models.card import WEIGHTS
from robustatlas.models.schemes import SCHEMES

_CHUNK = 2**20
"""Bytes of a file that are hashed at once."""


def features_file(features: str | None) -> list[Path]:
    """Return the file in ``ARCHITECTURE=FILE``."""
    file = (features or "").partition("=")[2]
    return [named(file)] if file else []


def source_files(source: str) -> list[Path]:
    """Return the local files that the source of a model, or an architecture, is made of; shipped and published ones
    have none.

    Example:
        >>> source_files("builtin:digits-linf"), source_files("nets/mine.py:net")
        ([], [PosixPath('nets/mine.py')])
    """
    scheme, colon, rest = source.partition(":")
    if not colon:
        return []
    if scheme == "defended":
        return source_files(rest.partition(",")[2])
    if scheme in SCHEMES:
        takes, place = next(iter(inspect.signature(SCHEMES[scheme]).parameters), ""), Path(at_home(rest))
        if takes == "folder":
            return [place / WEIGHTS]
        if takes == "file":
            return [place]
        return sorted(file for file in place.iterdir() if file.is_file()) if scheme == "hf" and place.is_dir() else []
    module, _, _ = source.rpartition(":")
    return _with_neighbours([named(module)] if module.endswith(".py") else _module_file(module))


def _with_neighbours(files: list[Path]) -> list[Path]:
    """Return files of Python with those that they import from beside them."""
    found = list(files)
    for file in found:  # grows meanwhile
        with suppress(OSError, SyntaxError, ValueError):
            for node in ast.walk(ast.parse(file.read_bytes())):
                modules = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                beside = [file.parent / f"{module.replace('.', '/')}.py" for module in modules]
                found += [each for each in dict.fromkeys(beside) if each not in found and each.is_file()]
    return found


def _module_file(module: str) -> list[Path]:
    """Return the file of a module that can be imported; the run says it where none can."""
    with suppress(ImportError, AttributeError, ValueError):
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None and Path(found.origin).is_file():
            return [Path(found.origin)]
    return []


def hashes_of_files(files: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of the bytes of each file, by its name.

    Raises:
        UserError: a file cannot be read.
    """
    return {file.name: _sha256_of_file(file) for file in files}


def _sha256_of_file(file: Path) -> str:
    found = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while part := opened.read(_CHUNK):
                found.update(part)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"The file {file} cannot be read ({why}); give the path of one that can.") from error
    return found.hexdigest()
