"""Where a run is: a folder, or an address in a store of objects."""

import hashlib
from pathlib import Path
from typing import Protocol

from robustatlas.common.errors import UserError
from robustatlas.common.files import (
    Address,
    cache_folder,
    inside,
    is_temporary,
    named,
    one_sentence,
    publish_once,
    remove_stale_temporaries,
)
from robustatlas.outcomes.storage.base import Storage
from robustatlas.outcomes.storage.bucket import Bucket
from robustatlas.outcomes.storage.directory import Directory, text_of
from robustatlas.outcomes.storage.objects import Objects

ABOUT = "run.json"


class RunPlace(Protocol):
    """A place that a run may be at."""

    def about(self) -> str | None:
        """The text of its ``run.json``; None: no run is there."""

    def begin(self, about: str) -> str:
        """Keep this text unless there is one; which one there is. Raises :class:`UserError`: what is there is no run,
        or nothing can be written."""

    def storage(self, about: str) -> Storage:
        """Of the run that is there."""


class Folder:
    """A directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def about(self) -> str | None:
        file = inside(self._root, self._root / ABOUT)
        return text_of(file) if file.is_file() else None

    def begin(self, about: str) -> str:
        with one_sentence(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            held = [entry for entry in self._root.iterdir() if not is_temporary(entry)]
        if held and not (self._root / ABOUT).exists():
            raise UserError(f"{self._root} is not empty and is not a run (no {ABOUT}); give a new or an empty folder.")
        publish_once(self._root / ABOUT, about)
        remove_stale_temporaries(self._root)
        return text_of(inside(self._root, self._root / ABOUT))

    def storage(self, about: str) -> Storage:
        return Directory(self._root)


class ObjectStore:
    """An address. The copy on this machine belongs to one run: a later one at the same address has another."""

    def __init__(self, address: Address) -> None:
        self._objects = Objects(address)

    def about(self) -> str | None:
        found = self._objects.read(ABOUT)
        return None if found is None else found.decode(errors="replace")

    def begin(self, about: str) -> str:
        if self.about() is None and self._objects.listed() and self.about() is None:  # nor did another begin meanwhile
            raise UserError(
                f"{self._objects.address} is not empty and is not a run (no {ABOUT}); give an address of its own."
            )
        return self._objects.create(ABOUT, about.encode()).decode(errors="replace")

    def storage(self, about: str) -> Storage:
        return Bucket(self._objects, _beside(self._objects.address, about))


def place_of(path: object) -> tuple[Path, RunPlace]:
    """Where a run is, as a path and with what can be done there.

    >>> place_of("runs/a")[0].name, place_of("memory://runs/a")[1].about()
    ('a', None)
    """
    root = named(path, "the folder of a run")
    return root, (ObjectStore(root) if isinstance(root, Address) else Folder(root))


def is_run(path: str | Path) -> bool:
    """Whether there is a run."""
    return place_of(path)[1].about() is not None


def _beside(address: Address, about: str) -> Path:
    digest = hashlib.sha256(f"{address}\n{about}".encode()).hexdigest()[:16]
    return cache_folder() / "runs" / f"{address.name}-{digest}"
