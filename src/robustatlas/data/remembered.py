"""Fingerprints of data on disk, computed once and kept: hashing all pixels of a large data set takes minutes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.files import cache_folder, write_text
from robustatlas.data.dataset import Fingerprint
from robustatlas.data.rows import Rows

_VERSION = 1


def remembered_fingerprint(rows: Rows, labels: Tensor, files: Iterable[Path], settings: str) -> Fingerprint:
    """Of data that is read from ``files`` in a way that ``settings`` says. It is computed again when the name, size or
    time of any file changes, or the settings."""
    digest = hashlib.sha256(f"{_VERSION} {settings} {rows.shape} {labels.tolist()}".encode())
    for file in files:
        about = file.stat()
        digest.update(f"{file.resolve()} {about.st_size} {about.st_mtime_ns}\n".encode())
    kept = cache_folder() / "fingerprints" / f"{digest.hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, TypeError):
        return Fingerprint(**json.loads(kept.read_text(encoding="utf-8")))
    found = Fingerprint.of(rows, labels)
    with suppress(UserError):  # a folder that cannot be written: it is computed again next time
        write_text(kept, json.dumps(vars(found)))
    return found
