"""Downloads into a cache folder, checked against the publisher's checksum."""

import functools
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pooch
from requests import RequestException
from rich.console import Console
from rich.progress import Progress, TaskID

from robustatlas.common.errors import UserError
from robustatlas.common.files import explain_write_errors, write_atomically

_TIMEOUT_SECONDS = 20.0


def download(address: str, path: Path, md5: str) -> None:
    """Download ``address`` to ``path``, with a progress bar on standard error.

    Raises:
        UserError: the address cannot be reached, or the file has another MD5.
    """
    with (
        explain_write_errors(path),
        Progress(console=Console(stderr=True, highlight=False), transient=True) as progress,
    ):
        bar = _Bar(progress, progress.add_task(path.name))
        fetch = pooch.HTTPDownloader(progressbar=bar, timeout=_TIMEOUT_SECONDS)
        try:
            pooch.retrieve(address, f"md5:{md5}", path.name, path.parent, downloader=fetch)
        except RequestException as error:
            raise UserError(f"{address} cannot be reached: {_describe_failure(error)}.") from error
        except ValueError as error:
            raise UserError(f"{address} is not the file that it was: its MD5 is not {md5}; try again later.") from error


class _Bar:
    """Progress bar with the interface that pooch expects."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress, self.task, self.total = progress, task, 0

    def update(self, count: int) -> None:
        self.progress.update(self.task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self.progress.reset(self.task)

    def close(self) -> None:
        pass


def _describe_failure(error: RequestException) -> str:
    if error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    cause = error.args[0] if error.args else error
    return str(getattr(cause, "reason", cause)).splitlines()[0].rstrip(".")


def download_members(address: str, folder: Path, members: Sequence[str], md5: str) -> None:
    """Download the archive at ``address`` and extract its regular files ``members`` below ``folder``."""
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
