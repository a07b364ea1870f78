"""The local files that a model, an architecture or the features of a distance are made of, and their hashes."""

import ast
import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Sequence
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


def hashes_of_files(files: Sequence[Path], sha256_of: Callable[[Path], str] | None = None) -> dict[str, str]:
    """Return the SHA-256 of the bytes of each file, by its name; of several files of one name that of their hashes.

    Names and not paths, so that a folder can move.

    Args:
        files: the files.
        sha256_of: instead of :func:`sha256_of_file`, such as a cache of it.

    Raises:
        UserError: a file cannot be read.
    """
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(file.name, []).append((sha256_of or sha256_of_file)(file))
    return {name: hashes[0] if len(hashes) == 1 else _sha256_of_hashes(hashes) for name, hashes in found.items()}


def _sha256_of_hashes(hashes: Sequence[str]) -> str:
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def sha256_of_file(file: Path) -> str:
    """Return the SHA-256 of the bytes of a file.

    Raises:
        UserError: it cannot be read.
    """
    found = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while part := opened.read(_CHUNK):
                found.update(part)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"The file {file} cannot be read ({why}); give the path of one that can.") from error
    return found.hexdigest()
