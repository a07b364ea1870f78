"""A run in a store of objects, by way of a copy of it on this machine. Files of a run are whole, never change and have
names that no other writer shares. So a copy is never stale, only behind: what is in the store and not here is got, what
was written here is sent."""

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from robustatlas.common.files import write_atomically
from robustatlas.outcomes.storage.directory import Directory
from robustatlas.outcomes.storage.objects import Objects
from robustatlas.outcomes.storage.sending import Sending
from robustatlas.outcomes.tables import Columns

_ENDINGS = {
    **dict.fromkeys(("attacks", "plans", "cards", "diagnoses", "stops", "certificates"), ".json"),
    **dict.fromkeys(("outcomes", "samples", "certified"), ".parquet"),
    "adversarial": ".npz",
}
"""What is looked for in the folders of a run."""


class Bucket(Directory):
    """Of ``objects``, with the copy in ``root``."""

    def __init__(self, objects: Objects, root: Path) -> None:
        super().__init__(root)
        self._objects = objects
        self._sending = Sending(objects, root, partial(self.look, patient=False))
        self._counted: set[str] = set(self._sending.waiting())
        self.look()

    def look(self, patient: bool = True) -> None:
        """Get what others have written."""
        there = {name: size for name, size in self._objects.listed(patient).items() if _is_of_a_run(name)}
        for pack, names in self._sending.packs().items():
            if pack in there and all((self._root / name).exists() for name in names):
                del there[pack]
                self._counted.update(names)
        missing = {name: size for name, size in there.items() if not (self._root / name).exists()}
        self._objects.got(missing, self._keep, patient)
        self._counted.update(there)

    def files(self, folder: str, *endings: str) -> list[Path]:
        """Those that are in the store or on their way to it; a copy of what somebody took out of it does not count."""
        found = super().files(folder, *endings)
        return [path for path in found if path.relative_to(self._root).as_posix() in self._counted]

    def write(self, name: str, columns: Columns, about: Mapping[str, str]) -> None:
        with self._to_be_sent(self._path(name)):
            super().write(name, columns, about)
        self._sending.begin()

    def put_text(self, name: str, text: str) -> None:
        path = self._root / f"{name}.json"
        if self._is_there(path):
            return
        with self._to_be_sent(path):
            super().put_text(name, text)
        if not self._sending.send_now(f"{name}.json"):
            self._sending.begin()

    def drop(self, name: str) -> None:
        self.flush()
        for each in self._objects.listed():
            if each.startswith((f"{name}/", f"{name}.json")):
                self._objects.remove(each)
        super().drop(name)

    def adopt(self, file: Path, name: str) -> None:
        if not self._is_there(self._root / name):
            with self._to_be_sent(self._root / name):
                super().adopt(file, name)
            self._sending.begin()

    def flush(self) -> None:
        self._sending.flush()

    def _is_there(self, path: Path) -> bool:
        return path.exists() and path.relative_to(self._root).as_posix() in self._counted

    @contextlib.contextmanager
    def _to_be_sent(self, path: Path) -> Iterator[None]:
        """What is written inside is marked before, so that it is sent even where this process ends in between."""
        name = path.relative_to(self._root).as_posix()
        self._sending.mark(name)
        yield
        self._counted.add(name)

    def _keep(self, name: str, content: bytes) -> None:
        write_atomically(self._root / name, lambda temporary: temporary.write_bytes(content))


def _is_of_a_run(name: str) -> bool:
    """Whether an object is a file of a run; names come from the store, and none leads out of the folder."""
    path = PurePosixPath(name)
    return ".." not in path.parts and path.suffix == _ENDINGS.get(path.parts[0]) and 2 <= len(path.parts) <= 3
