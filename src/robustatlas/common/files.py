"""Paths of users, and files that are written completely or not at all."""

import codecs
import io
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PosixPath

from robustatlas.common.errors import UserError, shorten

_STALE_SECONDS = 600.0
"""Temporary files of this age belong to writers that were killed."""
_LONGEST_NAME = 255
"""Bytes that file systems allow for the name of a file or folder."""
_SCHEME = re.compile(r"(?!https?:|file:)[a-z][a-z0-9+.-]+:/")


class Address(PosixPath):
    """Path in an object store, such as ``s3://bucket/run``.

    pathlib removes the second slash after the scheme; ``str`` of an address restores it.

    >>> str(Address("s3://bucket/run") / "run.json"), Address("s3://bucket/run").name
    ('s3://bucket/run/run.json', 'run')
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)


def cache_folder() -> Path:
    """Return the system's folder for downloads and copies: ``~/.cache/robustatlas`` on Linux."""
    import pooch  # a slow import, and most commands do not need this folder

    return Path(pooch.os_cache("robustatlas"))


def parse_path(path: object, expected: str = "the path of a file or folder") -> Path:
    """Return the path that a user gave, or an :class:`Address` if it begins with a scheme such as ``s3:``.

    A ``~`` at its beginning is the user's home; ``./~`` is a file of that name.

    Args:
        path: text or path of a user.
        expected: what the message says is expected.

    Raises:
        UserError: it is not a path, or has a name that file systems or DuckDB refuse.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{shorten(repr(path))} is given; expected {expected}.")
    found = Path(expand_home(os.fspath(path)))
    try:
        encoded = [part.encode() for part in found.parts]
    except UnicodeEncodeError as error:
        raise UserError(
            f"{shorten(repr(str(found)))} is not a name in UTF-8; rename it, or set PYTHONUTF8=1 where it is one."
        ) from error
    if any(len(part) > _LONGEST_NAME or b"\0" in part for part in encoded):
        raise UserError(
            f"{shorten(repr(str(found)))} is not a name that a file can have (at most {_LONGEST_NAME} bytes between "
            "slashes); give another one."
        )
    return Address(found) if _SCHEME.match(str(found)) else found


def check_inside(root: Path, path: Path) -> Path:
    """Return ``path`` after checking that it lies inside of ``root`` when links are resolved.

    Raises:
        UserError: a symbolic link or ``..`` leads out of ``root``.
    """
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
    except (OSError, RuntimeError):  # links in a circle: such a path lies in no folder
        return Path(os.path.devnull)


def expand_home(path: str) -> str:
    """Return ``path`` with the user's home in place of a ``~`` at its beginning, as a shell expands it.

    >>> expand_home("~/runs") == str(Path.home() / "runs"), expand_home("runs/~"), expand_home("~nobody-here/runs")
    (True, 'runs/~', '~nobody-here/runs')
    """
    return path if "\0" in path else os.path.expanduser(path)  # noqa: PTH111  # Path.expanduser raises for an unknown user


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn a failure to write ``path`` (read-only, full disk, a file in the way) into a :class:`UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror or error}. Everything written before is kept; give a folder that "
            "can be written or free some space, and run the same command again to go on."
        ) from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a temporary file beside ``path`` with ``write``, flush it to the disk and rename it to ``path``.

    A process that is killed in between leaves the old ``path`` (or none) and a temporary file that nobody reads.
    """
    path = parse_path(path)
    if not path.name:
        raise UserError(f"{path} is a folder; give the name of a file.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            _flush_to_disk(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush_to_disk(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file completely or not at all."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def publish_once(path: Path, text: str) -> bool:
    """Write ``text`` to ``path`` unless the file exists, and return True if it was written.

    If several processes try at once, exactly one succeeds: creating a hard link is atomic and never overwrites.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8")
            _flush_to_disk(temporary)
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        _flush_to_disk(path.parent)
    return True


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(path: Path) -> bool:
    """Return True for a temporary file of :func:`write_atomically`."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def remove_stale_temporaries(root: Path) -> None:
    """Remove temporary files below ``root`` that killed writers left; recent ones may still be in use and stay."""
    found = list(root.rglob(".*.tmp"))
    if not found:
        return
    with explain_write_errors(root):
        now = _file_system_time(root)
        for path in found:
            with suppress(FileNotFoundError):  # its writer has finished and renamed it
                if now - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()


def _file_system_time(folder: Path) -> float:
    """Return the current time by which files in ``folder`` are dated.

    On a shared file system it can differ from the clock of this machine.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock.", suffix=".tmp") as file:
        return os.fstat(file.fileno()).st_mtime


def list_files(folder: Path) -> list[Path]:
    """Return all files in ``folder`` and below, sorted; links to folders are followed.

    A link to a folder that contains it is not followed.

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


_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Byte order mark at the beginning of a text file -> its encoding."""


def read_text(path: str | Path) -> str:
    """Return the text of a user's file: UTF-8, or the encoding that its byte order mark names.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read, or is not text.
    """
    content = parse_path(path).read_bytes()
    encoding = next((name for mark, name in _ENCODINGS.items() if content.startswith(mark)), "utf-8")
    return io.StringIO(content.decode(encoding), newline=None).read()


_PICTURES = ("png", "pdf", "svg")


def picture_kind(path: Path) -> str:
    """Return the format of a picture by the ending of its name.

    Raises:
        UserError: the ending is none of png, pdf and svg.

    >>> picture_kind(Path("curves.PDF"))
    'pdf'
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _PICTURES:
        raise UserError(f"No picture can be written as {path.name!r}; give a name that ends in .png, .pdf or .svg.")
    return kind
