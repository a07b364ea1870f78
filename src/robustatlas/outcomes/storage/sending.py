"""What a run has written here on its way to a store: in the background, whatever the store does meanwhile."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from robustatlas.common.errors import UserError, warn
from robustatlas.common.wording import counted
from robustatlas.outcomes.storage.objects import Objects
from robustatlas.outcomes.storage.packing import LEAST_BYTES, packed, packs

LINGER = 60.0
"""Seconds that small parts wait for others, to be one object: what a machine loses that never comes back."""

MOST_WAITING = 2**30
"""Bytes that may wait on this machine; beyond that the evaluation waits for the store."""

PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until what could not be sent is tried again, at first and at most; doubled each time."""

PATIENCE = 300.0
"""Seconds that the end of a command waits for a store that fails."""

TICK = 0.5
"""Seconds between looks at what waits."""

LOOK_EVERY = 30.0
"""Seconds between looks at what others have written meanwhile."""

_MARKS, _PACKED = ".waiting", ".packed"
_ORDER = ("samples", "adversarial")
"""Folders whose files are sent before those that count on them."""


class Sending:
    """Sends the files below ``root`` that are marked as waiting, also those that an earlier process left behind.
    ``look``: is called now and then, to see what others have written."""

    def __init__(self, objects: Objects, root: Path, look: Callable[[], None]) -> None:
        self._objects, self._root, self._look = objects, root, look
        self._marks = root / _MARKS
        self._stop, self._hurry = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._since: float | None = None
        self._failure: Exception | None = None

    def mark(self, name: str) -> None:
        """Say that a file is about to be written that has to be sent."""
        mark = self._marks / name
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()

    def waiting(self) -> list[str]:
        """The files that are whole and were not sent yet, in the order in which they will be."""
        marks = [path for path in self._marks.rglob("*.*") if path.is_file()]
        names = [path.relative_to(self._marks).as_posix() for path in marks]
        whole = [name for name in names if (self._root / name).exists()]
        return sorted(whole, key=lambda name: (_place(name), name))

    def packs(self) -> dict[str, list[str]]:
        """Objects that were put together here, by name, and the files that they hold."""
        folder = self._root / _PACKED
        return {
            path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8").splitlines()
            for path in folder.rglob("*.list")
        }

    def begin(self) -> None:
        """A file was written: have it sent. Waits while too much is waiting already."""
        if self._since is None:
            self._since = time.monotonic()
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._work, name="uploads", daemon=True)
            self._thread.start()
        while self._bytes() > MOST_WAITING:
            self._hurry.set()
            time.sleep(TICK)

    def send_now(self, name: str) -> bool:
        """Try once to send a file in the foreground; whether that worked. If not, it waits."""
        try:
            self._send([name], patient=False)
        except UserError as error:
            self._failed(error)
            return False
        return True

    def flush(self) -> None:
        """Wait until nothing waits; :class:`UserError` where the store fails for longer than :data:`PATIENCE`."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        begun, pause = time.monotonic(), PAUSE
        while True:
            try:
                self._send_all()
                self._since = self._failure = None
                return
            except UserError as error:
                self._failed(error)
                if time.monotonic() - begun + pause > PATIENCE:
                    raise UserError(f"{error} The next command on this run sends {self._told()}.") from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _work(self) -> None:
        pause, looked = PAUSE, time.monotonic()
        while not self._stop.wait(TICK):
            try:
                if time.monotonic() - looked > LOOK_EVERY:
                    looked = time.monotonic()
                    self._look()
                if self._is_due():
                    self._send_all()
                    self._since = time.monotonic() if self.waiting() else None
                    self._failure = None
                    self._hurry.clear()
                pause = PAUSE
            except UserError as error:
                self._failed(error)
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _is_due(self) -> bool:
        if self._since is None:
            return False
        return self._hurry.is_set() or time.monotonic() - self._since > LINGER or self._bytes() >= LEAST_BYTES

    def _send_all(self) -> None:
        waiting = self.waiting()
        texts = [name for name in waiting if name.endswith(".json")]
        for name in texts:
            self._send([name])
        for names in _by_kind(name for name in waiting if name not in texts):
            for pack in packs(self._root, names):
                self._send(pack)

    def _send(self, names: list[str], patient: bool = True) -> None:
        if len(names) == 1:
            self._objects.put(names[0], (self._root / names[0]).read_bytes(), patient)
        else:
            self._send_packed(names, patient)
        for name in names:
            (self._marks / name).unlink(missing_ok=True)

    def _send_packed(self, names: list[str], patient: bool) -> None:
        whole = self._root / _PACKED / f"whole-{threading.get_ident()}.parquet"
        try:
            name = packed(self._root, names, whole)
            listed = self._root / _PACKED / f"{name}.list"
            listed.parent.mkdir(parents=True, exist_ok=True)
            listed.write_text("\n".join(names), encoding="utf-8")
            self._objects.put(name, whole.read_bytes(), patient)
        finally:
            whole.unlink(missing_ok=True)

    def _bytes(self) -> int:
        return sum((self._root / name).stat().st_size for name in self.waiting())

    def _failed(self, error: UserError) -> None:
        if self._failure is None:
            warn(f"The run cannot be sent at the moment: {error} Until that works there are {self._told()}.")
        self._failure = error

    def _told(self) -> str:
        waiting = self.waiting()
        return f"{counted(len(waiting), 'file')} ({self._bytes() / 2**20:.1f} MB) waiting in {self._root}"


def _place(name: str) -> int:
    folder = name.partition("/")[0]
    return _ORDER.index(folder) if folder in _ORDER else len(_ORDER)


def _by_kind(names: Iterable[str]) -> list[list[str]]:
    kinds: dict[int, list[str]] = {}
    for name in names:
        kinds.setdefault(_place(name), []).append(name)
    return [kinds[kind] for kind in sorted(kinds)]
