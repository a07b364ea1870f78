"""Files that are written whole or not at all."""

import codecs
import io
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PosixPath

from robustatlas.common.errors import UserError, brief

_STALE_SECONDS = 600.0
_LONGEST_NAME = 255
"""Bytes of a file's or folder's name that file systems allow."""
_SCHEME = re.compile(r"(?!https?:|file:)[a-z][a-z0-9+.-]+:/")


class Address(PosixPath):
    """Where a store of objects keeps something, such as ``s3://bucket/run``: a path in all but the slash after its
    scheme that pathlib takes away and this puts back.

    >>> str(Address("s3://bucket/run") / "run.json"), Address("s3://bucket/run").name
    ('s3://bucket/run/run.json', 'run')
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)


def cache_folder() -> Path:
    """Where downloads and copies are kept: the system's folder for caches, ``~/.cache/robustatlas`` on Linux."""
    import pooch  # takes a while, and most commands keep nothing there

    return Path(pooch.os_cache("robustatlas"))


def named(path: object, expected: str = "the path of a file or folder") -> Path:
    """``path``, where a file can have such a name; an :class:`Address` where it begins with the scheme of one. ``~`` is
    the home of the user, and ``./~`` a file of that name. Raises :class:`UserError`: it is not a path, or none that a
    file system and DuckDB can take."""
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{brief(repr(path))} is given; expected {expected}.")
    found = Path(at_home(os.fspath(path)))
    try:
        encoded = [part.encode() for part in found.parts]
    except UnicodeEncodeError as error:
        raise UserError(
            f"{brief(repr(str(found)))} is not a name in UTF-8; rename it, or set PYTHONUTF8=1 where it is one."
        ) from error
    if any(len(part) > _LONGEST_NAME or b"\0" in part for part in encoded):
        raise UserError(
            f"{brief(repr(str(found)))} is not a name that a file can have (at most {_LONGEST_NAME} bytes between "
            "slashes); give another one."
        )
    return Address(found) if _SCHEME.match(str(found)) else found


def inside(root: Path, path: Path) -> Path:
    """``path``, which stands below ``root``, where it lies there too. Raises :class:`UserError`: a symbolic link or
    ``..`` leads out of ``root``, to what is nobody's to read or to write."""
    step = root
    for name in path.relative_to(root).parts:
        step = step / name
        if name == ".." or (step.is_symlink() and not _resolved(step).is_relative_to(_resolved(root))):
            raise UserError(
                f"{step} leads out of {root}, which is not followed; put what it leads to in its place, or delete it."
            )
    return path


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links in a circle, which lead nowhere
        return Path(os.path.devnull)


def at_home(path: str) -> str:
    """``path`` with the home of the user in place of a ``~`` at its beginning, as a shell has it.

    >>> at_home("~/runs") == str(Path.home() / "runs"), at_home("runs/~"), at_home("~nobody-here/runs")
    (True, 'runs/~', '~nobody-here/runs')
    """
    return path if "\0" in path else os.path.expanduser(path)  # noqa: PTH111  # of Path raises where nobody has that name


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Turn the failures of writing ``path`` (read-only, full disk, a file in the way) into one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror or error}. Everything written before is kept; give a folder that "
            "can be written or free some space, and run the same command again to go on."
        ) from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to the disk and rename it to ``path``.

    Whoever is killed in between leaves the old ``path`` (or none) and a temporary file that nobody reads.
    """
    path = named(path)
    if not path.name:
        raise UserError(f"{path} is a folder; give the name of a file.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with one_sentence(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            _flush(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def publish_once(path: Path, text: str) -> bool:
    """Write ``text`` to ``path``, whole, unless the file exists; whether it was: of several writers one wins."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    with one_sentence(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8")
            _flush(temporary)
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        _flush(path.parent)
    return True


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(path: Path) -> bool:
    """Whether ``path`` is a temporary file of :func:`write_atomically`."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def remove_stale_temporaries(root: Path) -> None:
    """Remove what killed writers left below ``root``; files young enough to be in the making are left alone."""
    found = list(root.rglob(".*.tmp"))
    if not found:
        return
    with one_sentence(root):
        now = _clock_of(root)
        for path in found:
            with suppress(FileNotFoundError):  # whoever was writing it has finished
                if now - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()


def _clock_of(folder: Path) -> float:
    """The time by which files in ``folder`` are dated: on a shared file system not that of this machine."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock.", suffix=".tmp") as file:
        return os.fstat(file.fileno()).st_mtime


def files_below(folder: Path) -> list[Path]:
    """Return all files in ``folder`` and in the folders below it, in order; folders that are linked count as folders.

    A link to a folder that holds it is not followed again.

    Raises:
        UserError: a folder that cannot be read.
    """
    found: list[Path] = []
    waiting = [(folder, frozenset({folder.resolve(), *folder.resolve().parents}))]
    while waiting:
        place, above = waiting.pop()
        try:
            entries = list(place.iterdir())
        except OSError as error:
            raise UserError(f"The folder {place} cannot be read: {error.strerror}.") from error
        for entry in entries:
            if not entry.is_dir():
                found.append(entry)
            elif (target := entry.resolve()) not in above:
                waiting.append((entry, above | {target}))
    return sorted(found)


_MARKED = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Byte order marks with which editors begin text files, and the encodings that they stand for."""


def read_text(path: str | Path) -> str:
    """Return the text of a file that a user wrote: UTF-8, or what its byte order mark says.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read, or is no text.
    """
    content = named(path).read_bytes()
    encoding = next((name for mark, name in _MARKED.items() if content.startswith(mark)), "utf-8")
    return io.StringIO(content.decode(encoding), newline=None).read()


_PICTURES = ("png", "pdf", "svg")


def picture_kind(path: Path) -> str:
    """The format that a picture of this name is written in; :class:`UserError` for a name that ends otherwise.

    >>> picture_kind(Path("curves.PDF"))
    'pdf'
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _PICTURES:
        raise UserError(f"No picture can be written as {path.name!r}; give a name that ends in .png, .pdf or .svg.")
    return kind
