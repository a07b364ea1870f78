"""Readers of the files of arrays that data sets come in. Nothing here is unpickled."""

from __future__ import annotations

import gzip
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.wording import some

Arrays = tuple[NDArray[Any], NDArray[Any]]
_IDX_UBYTE = 0x08
_CIFAR_PIXELS = 3 * 32 * 32


def read_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...] | None]:
    """``images``, ``labels`` and, where there is one, ``classes`` of a NumPy archive."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if missing := {"images", "labels"} - set(archive.files):
                raise UserError(
                    f"{path} must hold arrays named 'images' and 'labels'; it lacks {', '.join(sorted(missing))} "
                    f"and has {some(map(repr, archive.files)) or 'nothing'}."
                )
            classes = tuple(map(str, archive["classes"])) if "classes" in archive.files else None
            return archive["images"], archive["labels"], classes
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except UserError:
        raise
    except (
        OSError,
        ValueError,
        EOFError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:  # encrypted: RuntimeError
        raise UserError(f"{path} cannot be read as a NumPy .npz archive without pickled objects: {error}") from error


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the IDX format of MNIST, gzipped where the name ends in .gz."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        zeros, kind, dimensions = struct.unpack_from(">HBB", content)
        shape = struct.unpack_from(f">{dimensions}I", content, 4)
    except (OSError, EOFError, struct.error, zlib.error) as error:
        raise UserError(f"{path} cannot be read as an IDX file: {error}.") from error
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
    if zeros != 0 or kind != _IDX_UBYTE or data.size != np.prod(shape):
        raise UserError(f"{path} is not a whole IDX file of unsigned bytes; download it again.")
    return data.reshape(shape)


def read_cifar_binary(paths: Sequence[Path], labels: int = 1) -> Arrays:
    """Images (NCHW) and labels of the binary version of CIFAR-10 (per image one byte of ``labels`` and 3,072 of pixels)
    or CIFAR-100 (two, of which the second, fine one is taken)."""
    parts = []
    for path in paths:
        try:
            records = np.fromfile(path, np.uint8)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
        if records.size == 0 or records.size % (labels + _CIFAR_PIXELS):
            raise UserError(f"{path} is not a whole file of CIFAR's binary version; download it again.")
        parts.append(records.reshape(-1, labels + _CIFAR_PIXELS))
    records = np.concatenate(parts)
    return records[:, labels:].reshape(-1, 3, 32, 32), records[:, labels - 1]
