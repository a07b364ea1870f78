"""Downloads into a cache folder, checked against the publisher's checksum."""

from __future__ import annotations

import functools
import hashlib
import http.client
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import wrap_file

from robustatlas.errors import UserError
from robustatlas.files import write_atomically

_TIMEOUT_SECONDS = 20.0


def cache_folder() -> Path:
    """Where downloads are kept: ``$XDG_CACHE_HOME/robustatlas``, by default ``~/.cache/robustatlas``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "robustatlas"


def download(address: str, path: Path, md5: str) -> None:
    """Fetch ``address`` to ``path``, with a progress bar on standard error; :class:`UserError` where that fails."""

    def write(temporary: Path) -> None:
        digest = hashlib.md5(usedforsecurity=False)
        try:
            with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as response, temporary.open("wb") as file:
                size = int(response.headers.get("Content-Length", 0))
                with wrap_file(response, size, description=path.name, console=Console(stderr=True)) as body:
                    while block := body.read(1 << 20):
                        digest.update(block)
                        file.write(block)
        except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise UserError(f"{address} cannot be reached: {getattr(error, 'reason', error)}.") from error
        if digest.hexdigest() != md5:
            raise UserError(f"{address} has MD5 {digest.hexdigest()}, expected {md5}.")

    write_atomically(path, write)


def download_members(address: str, folder: Path, members: Sequence[str], md5: str) -> None:
    """Fetch the archive at ``address`` and keep the regular files ``members`` of it below ``folder``."""
    archive = folder / Path(address).name
    download(address, archive, md5)
    with tarfile.open(archive) as files:
        for member in members:
            content = files.extractfile(member)
            if content is None:
                raise UserError(f"{address} holds no file {member}.")
            write_atomically(folder / member, functools.partial(_write_bytes, content.read()))
    archive.unlink()


def _write_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)
