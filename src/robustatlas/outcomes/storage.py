"""Files of a run, by fsspec: in a folder, in memory or in an object store."""

import io
import json
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from pydantic import TypeAdapter

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import (
    Address,
    check_inside,
    explain_write_errors,
    is_temporary,
    parse_path,
    publish_once,
    remove_stale_temporaries,
    write_atomically,
)
from robustatlas.outcomes.tables import (
    OUTCOME_COLUMNS,
    Arrays,
    Columns,
    CorruptFileError,
    fill_parquet,
    read_abouts,
    read_columns,
    read_parquet,
)

IDENTITY_FILE = "run.json"


class StoreError(UserError):
    """An object store or a folder cannot be read or written."""


class _PrivateMemory(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory that belong to one object and are freed with it; fsspec's own are shared by the whole process."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]


class Storage:
    """Tables and texts of a run, under names like ``outcomes/linf-0123456789ab/0-512-1b2c3d4e``.

    A file is written whole or not at all: to a temporary name and moved in a folder, in one request in an object store.
    It never changes afterwards, and no two writers share its name.

    Args:
        root: folder or address of the run; None: in memory, freed with this object.

    Raises:
        StoreError: an address that needs a package which is not installed, or that fsspec does not know.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self._filesystem, self._base = _open_filesystem(root)
        self._copies: Path | None = None
        self._texts: dict[str, str] = {}

    @property
    def folder(self) -> Path | None:
        """Folder on this machine or on a shared disk; None: the run is elsewhere."""
        return None if self.root is None or isinstance(self.root, Address) else self.root

    def identity(self) -> str | None:
        """Return the text of ``run.json``; None: no run is here."""
        return self._existing_text(IDENTITY_FILE)

    def begin(self, identity: str) -> str:
        """Create ``run.json`` with the text `identity` unless it exists, and return the text that is there afterwards.

        Raises:
            UserError: the place holds something else, or it cannot be written.
        """
        if self.folder is not None:
            with explain_write_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
        if (there := self.identity()) is None:
            self.check_is_free()
            there = self._create(IDENTITY_FILE, identity)
        if self.folder is not None:
            remove_stale_temporaries(self.folder)
        return there

    def check_is_free(self) -> None:
        """Raise where the place holds files and is not a run.

        Raises:
            UserError: it does.
        """
        held = [name for name in self._files("") if name != IDENTITY_FILE]
        if held and self.identity() is None:  # another command may have begun meanwhile
            raise UserError(
                f"{self.root} is not empty and is not a run (no {IDENTITY_FILE}); give a new or an empty place."
            )

    def names(self, folder: str) -> list[str]:
        """Return the names of the tables in a folder, sorted."""
        files = [Path(file) for file in self._files(folder)]
        return sorted(file.with_suffix("").as_posix() for file in files if file.suffix in (".parquet", ".npz"))

    def read(self, name: str) -> Arrays:
        """Return a table; CorruptFileError where it is damaged."""
        if _table_file(name).endswith(".npz"):
            return self._npz(name, ("index", "images"))
        (path,) = self._local_paths([name])
        return read_parquet(path, self.place(name))

    def gather(self, names: Sequence[str], wanted: Sequence[str], strengths: int) -> Arrays:
        """Return some of OUTCOME_COLUMNS of several tables together; CorruptFileError where one is damaged."""
        lists = {name: strengths for name, column in OUTCOME_COLUMNS.items() if column.per_strength}
        return read_columns(self._local_paths(names), wanted, lists, OUTCOME_COLUMNS)

    def metadata(self, names: Sequence[str]) -> list[dict[str, str]]:
        """Return the metadata of each of some tables of one folder; CorruptFileError where one is damaged."""
        if any(_table_file(name).endswith(".npz") for name in names):
            texts = [self._npz(name, ("about",), complete=False).get("about") for name in names]
            return [{} if text is None else _METADATA.validate_json(str(text)) for text in texts]
        paths = self._local_paths(names)
        found = read_abouts(paths)
        return [found[path] for path in paths]

    def write(self, name: str, columns: Columns, about: Mapping[str, str]) -> None:
        """Write a table with metadata, whole or not at all."""
        file = _table_file(name)
        fill = _fill_npz if file.endswith(".npz") else fill_parquet
        self._publish(file, partial(fill, columns=columns, about=about))

    def copy_tables(self, other: "Storage", folder: str) -> None:
        """Copy the tables of a folder of another run, all but those that are here."""
        for name in sorted(set(other.names(folder)) - set(self.names(folder))):
            file = _table_file(name)
            self._publish(file, partial(Path.write_bytes, data=other._content(file)))

    def texts(self, folder: str) -> dict[str, str]:
        """Return the texts in a folder, by what messages call them."""
        files = [file for file in self._files(folder) if file.endswith(".json")]
        return {self._place(file): text for file, text in zip(files, self._read_texts(files), strict=True)}

    def create_text(self, name: str, text: str) -> str:
        """Write a text unless there is one of that name, and return the text that is there afterwards."""
        return self._create(f"{name}.json", text)

    def delete(self, name: str) -> None:
        """Delete the tables of a folder, or a text."""
        files = [file for file in self._files(name) if file.endswith(".parquet")]
        with self._explain_errors():
            for file in [*files, f"{name}.json"]:
                with suppress(FileNotFoundError):
                    self._filesystem.rm_file(self._path(file))

    def place(self, name: str) -> str:
        """Return what messages call a table."""
        return self._place(_table_file(name))

    def _place(self, file: str) -> str:
        return file if self.root is None else str(self.root / file)

    def _path(self, file: str) -> str:
        """Return the path of a file on the file system; links that lead out of a folder are refused."""
        if self.folder is not None:
            check_inside(self.folder, self.folder / file)
        return f"{self._base}/{file}"

    def _files(self, folder: str) -> list[str]:
        """Return the names of the whole files in a folder, with their endings, sorted."""
        above = f"{folder}/" if folder else ""
        with self._explain_errors():
            try:
                found = self._filesystem.ls(self._path(folder), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
            names = [Path(path).name for path in found if Path(path).name != Path(folder).name]
            return sorted(f"{above}{name}" for name in names if not is_temporary(Path(name)))

    def _content(self, file: str) -> bytes:
        with self._explain_errors():
            content: bytes = self._filesystem.cat_file(self._path(file))
            return content

    def _read_texts(self, files: Sequence[str]) -> list[str]:
        """Return texts; an empty one for a file that is not in UTF-8, which its reader refuses by name."""
        unread = [file for file in files if file not in self._texts]
        with self._explain_errors():
            contents = self._filesystem.cat_ranges([self._path(file) for file in unread], None, None)
            for file, content in zip(unread, contents, strict=True):
                if isinstance(content, Exception):
                    raise content
                self._texts[file] = _decode(content)
        return [self._texts[file] for file in files]

    def _existing_text(self, file: str) -> str | None:
        with self._explain_errors():
            try:  # isfile() would say False where a store lets nobody in
                return _decode(self._filesystem.cat_file(self._path(file)))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def _local_paths(self, names: Sequence[str]) -> list[Path]:
        """Return a file on this machine for each table: the table's own, or a copy that is freed with this object."""
        files = [_table_file(name) for name in names]
        if self.folder is not None:
            return [check_inside(self.folder, self.folder / file) for file in files]
        if self._copies is None:
            self._copies = Path(tempfile.mkdtemp(prefix="robustatlas-"))
            weakref.finalize(self, shutil.rmtree, self._copies, ignore_errors=True)
        copies = [self._copies / file for file in files]
        missing = {self._path(file): copy for file, copy in zip(files, copies, strict=True) if not copy.exists()}
        if missing:
            with self._explain_errors():  # a copy that Ctrl-C cuts off never gets its name
                self._filesystem.get([*missing], [f"{copy}.new" for copy in missing.values()])
            for copy in missing.values():
                copy.with_name(f"{copy.name}.new").rename(copy)
        return copies

    def _npz(self, name: str, arrays: Sequence[str], complete: bool = True) -> Arrays:
        """Return some arrays of a file: those that it has, unless it has to be `complete`."""
        try:
            with np.load(io.BytesIO(self._content(_table_file(name))), allow_pickle=False) as file:
                return {array: file[array] for array in arrays if complete or array in file}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise CorruptFileError(
                f"{self.place(name)} cannot be read ({error}); delete it and run the same evaluation again."
            ) from error

    def _publish(self, file: str, fill: Callable[[Path], object]) -> None:
        """Let `fill` write a temporary file, and keep it as `file`."""
        if self.folder is not None:
            write_atomically(check_inside(self.folder, self.folder / file), fill)
            return
        with tempfile.TemporaryDirectory(prefix="robustatlas-") as folder:
            temporary = Path(folder, Path(file).name)
            with explain_write_errors(temporary):
                fill(temporary)
            self._write_bytes(file, temporary.read_bytes())

    def _write_bytes(self, file: str, content: bytes) -> None:
        with self._explain_errors():
            self._filesystem.pipe_file(self._path(file), content)

    def _create(self, file: str, text: str) -> str:
        """Write a text unless the file exists, and return the text that is there afterwards."""
        if self.folder is not None:
            is_new = publish_once(check_inside(self.folder, self.folder / file), text)
            return text if is_new else self._read_texts([file])[0]
        try:
            self._filesystem.pipe_file(self._path(file), text.encode(), mode="create")
            return text
        except Exception:  # each library has errors of its own for a file that exists
            there = self._existing_text(file)
        if there is None:  # a store that knows no conditional writes: of two writers at once the last one stays
            self._write_bytes(file, text.encode())
        return text if there is None else there

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn what a file system or a store raises into one sentence."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            raise StoreError(self._refusal(error)) from error

    def _refusal(self, error: Exception) -> str:
        if self.folder is not None:
            return f"{self.root} cannot be read ({first_line(error)}); give a folder that you may read."
        if isinstance(error, FileNotFoundError):
            return f"{self.root} is in no bucket that is there ({first_line(error)}); make the bucket first."
        if isinstance(error, PermissionError) or "Credential" in type(error).__name__:
            return (
                f"{self.root} does not let you in ({first_line(error)}); give the credentials of its owner, as the "
                "tools of that store take them (for s3:// AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)."
            )
        return (
            f"{self.root} does not answer ({first_line(error)}); what was written before is kept. Run the same command "
            "again to go on."
        )


def is_run(path: str | Path) -> bool:
    """Return if there is a run at a path or an address.

    >>> is_run("memory://nothing/here")
    False
    """
    return Storage(parse_path(path, "the folder of a run")).identity() is not None


_METADATA = TypeAdapter(dict[str, str])


def _open_filesystem(root: Path | None) -> tuple[Any, str]:
    """Return the file system of a place, and the place as it calls it."""
    if root is None:
        return _PrivateMemory(), "/run"
    if not isinstance(root, Address):
        return LocalFileSystem(), str(root.absolute())
    try:
        filesystem, base = fsspec.core.url_to_fs(str(root), use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        raise StoreError(
            f"{root} needs a package that is not installed ({first_line(error)}); "
            "pip install 'robustatlas[cloud]' brings s3://, gcsfs gs:// and adlfs az://."
        ) from error
    except ValueError as error:
        raise StoreError(f"{root} is the address of no store that fsspec knows ({error}).") from error
    return filesystem, base.rstrip("/")


def _decode(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""


def _table_file(name: str) -> str:
    return f"{name}{'.npz' if name.startswith('adversarial/') else '.parquet'}"


def _fill_npz(path: Path, columns: Columns, about: Mapping[str, str]) -> None:
    with path.open("wb") as file:
        np.savez(file, index=columns["index"], images=columns["images"], about=np.array(json.dumps(dict(about))))
