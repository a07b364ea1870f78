"""The objects below one address of a store, by fsspec: put and got whole, tried again where the store fails."""

import re
import time
from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeVar

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import Address

Answer = TypeVar("Answer")

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between the attempts of a request that somebody waits for."""

_BATCH_BYTES = 64 * 2**20
"""Of objects that are held in memory at once when many are got."""

_ONE_PUT = 4 * 2**30
"""Below what S3 takes in one request. An object that is put so is there or is not; one that is put in several requests
leaves a part behind, which costs money, where its writer is killed."""


class NoAccessError(UserError):
    """The store does not let this user in, or has no such place: trying again is of no use."""


class Objects:
    """What lies below ``address``."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.requests: Counter[str] = Counter()
        self._scheme, _, self._root = str(address).partition("://")

    @cached_property
    def _system(self) -> Any:
        try:
            import fsspec

            return fsspec.filesystem(self._scheme, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            raise UserError(
                f"{self.address} needs a package that is not installed ({first_line(error)}); "
                "pip install 'robustatlas[cloud]' brings s3://, gcsfs gs:// and adlfs az://."
            ) from error
        except ValueError as error:
            raise UserError(f"{self.address} is the address of no store that fsspec knows ({error}).") from error

    def listed(self, patient: bool = True) -> dict[str, int]:
        """The names of all objects below the address, with their bytes; ``patient``: as of :meth:`put`."""
        at = self._system._strip_protocol(str(self.address)).rstrip("/") + "/"
        found: dict[str, Any] = self._tried("list", lambda: self._system.find(at, detail=True), patient, absent={})
        return {name[len(at) :]: int(about.get("size") or 0) for name, about in found.items() if name.startswith(at)}

    def got(self, sizes: dict[str, int], keep: Callable[[str, bytes], None], patient: bool = True) -> None:
        """Hand some objects, by their names and bytes, to ``keep``."""
        for names in _batches(sizes, _BATCH_BYTES):
            paths = {self._system._strip_protocol(self._path(name)): name for name in names}
            for path, content in self._tried("get", partial(self._system.cat, list(paths)), patient).items():
                keep(paths[path], content)

    def read(self, name: str) -> bytes | None:
        """What an object holds; None where there is none."""
        found: bytes | None = self._tried("get", lambda: self._system.cat_file(self._path(name)), absent=None)
        return found

    def put(self, name: str, content: bytes, patient: bool = True) -> None:
        """Keep an object, in one request. ``patient``: try again where the store fails, for half a minute. Raises
        ``NoAccessError`` where there is no such store or this user may not write there, and :class:`UserError` where it
        fails."""
        self._tried("put", lambda: self._system.pipe_file(self._path(name), content, **self._whole), patient)

    def remove(self, name: str) -> None:
        """Take out an object, where there is one."""
        self._tried("remove", lambda: self._system.rm_file(self._path(name)), absent=None)

    def create(self, name: str, content: bytes) -> bytes:
        """Keep an object unless there is one of that name; what is there afterwards, read back."""
        if (there := self.read(name)) is not None:
            return there
        try:
            self.requests["put"] += 1
            self._system.pipe_file(self._path(name), content, mode="create", **self._whole)
        except Exception as error:
            if _refused(error):
                self._say(error)
            if self.read(name) is None:  # no other writer was quicker: a store without conditions, or one that fails
                self.put(name, content)
        there = self.read(name)
        return content if there is None else there

    @property
    def _whole(self) -> dict[str, Any]:
        return {"chunksize": _ONE_PUT} if self._scheme in ("s3", "s3a") else {}

    def _path(self, name: str) -> str:
        return f"{self._scheme}://{self._root.rstrip('/')}/{name}"

    def _tried(self, kind: str, request: Callable[[], Answer], patient: bool = True, **absent: Answer) -> Answer:
        """The answer of a request; ``absent``: where there is no such object."""
        for pause in (*(PAUSES if patient else ()), None):
            try:
                self.requests[kind] += 1
                return request()
            except Exception as error:
                if isinstance(error, FileNotFoundError) and absent:
                    return absent["absent"]
                if isinstance(error, UserError):
                    raise
                if pause is None or _refused(error):
                    self._say(error)
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _say(self, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):
            raise NoAccessError(f"{self.address} is in no bucket that is there; make the bucket first.") from error
        if _refused(error):
            raise NoAccessError(
                f"{self.address} does not let you in ({first_line(error)}); give the credentials of its owner, as the "
                "tools of that store take them (for s3:// AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)."
            ) from error
        raise UserError(
            f"{self.address} does not answer ({first_line(error)}); run the same command again when it does."
        ) from error


def _refused(error: Exception) -> bool:
    """Whether a store says that asking again is of no use; each library has errors of its own for that."""
    return (
        isinstance(error, (PermissionError, FileNotFoundError))
        or getattr(error, "code", None) in (401, 403)
        or re.search("Credential|Authenti|TokenRetrieval", type(error).__name__) is not None
    )


def _batches(sizes: dict[str, int], most: int) -> list[list[str]]:
    """Names whose objects have up to so many bytes together."""
    batches: list[list[str]] = [[]]
    held = 0
    for name, size in sizes.items():
        if batches[-1] and held + size > most:
            batches.append([])
            held = 0
        batches[-1].append(name)
        held += size
    return [batch for batch in batches if batch]
