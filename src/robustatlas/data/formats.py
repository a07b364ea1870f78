"""Readers for the array files of published data sets. Code that a pickle names is never run."""

import gzip
import hashlib
import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, first_line, shorten, warn
from robustatlas.common.wording import list_names

Arrays = tuple[NDArray[Any], NDArray[Any]]
_IDX_UBYTE = 0x08
_CIFAR_PIXELS = 3 * 32 * 32


def class_names(values: NDArray[Any]) -> tuple[str, ...]:
    """Return the names of classes as texts; an array may hold them as bytes.

    >>> class_names(np.array([b"cat", b"dog"]))
    ('cat', 'dog')
    """
    return tuple(each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in values.tolist())


def read_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...] | None]:
    """Return ``images``, ``labels`` and ``classes`` (or None) of a NumPy archive."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if missing := {"images", "labels"} - set(archive.files):
                raise UserError(
                    f"{path} must hold arrays named 'images' and 'labels'; it lacks {', '.join(sorted(missing))} "
                    f"and has {list_names(map(repr, archive.files)) or 'nothing'}."
                )
            classes = class_names(archive["classes"]) if "classes" in archive.files else None
            return archive["images"], archive["labels"], classes
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except UserError:
        raise
    # RuntimeError: the archive is encrypted
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be read as a NumPy .npz archive without pickled objects: {error}") from error


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes in MNIST's IDX format; a file whose name ends in .gz is decompressed."""
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
    """Read images (NCHW) and labels of the binary version of CIFAR-10 or CIFAR-100.

    An image has ``labels`` bytes of labels and 3,072 bytes of pixels. CIFAR-100 has two labels; the second, fine one is
    returned.
    """
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


_NUMBER_KINDS = "biuf"
_NDARRAY = object()


class _TypeStandIn:
    """Replacement for ``numpy.dtype`` in a pickle; it accepts types of numbers only."""

    def __init__(self, code: object, *_: object) -> None:
        code = code.decode("latin1") if isinstance(code, bytes) else code
        found = np.dtype(code) if isinstance(code, str) else None
        if found is None or found.kind not in _NUMBER_KINDS:
            raise pickle.UnpicklingError(f"it holds arrays of {shorten(repr(code))}")
        self.dtype = found

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode() if isinstance(state[1], bytes) else state[1]
        if order == ">":
            self.dtype = self.dtype.newbyteorder(">")
        elif order not in ("<", "|", "="):
            raise pickle.UnpicklingError("it holds numbers in an order of bytes that there is not")


class _ArrayStandIn:
    """Replacement for an array in a pickle; its size is checked against its bytes."""

    def __init__(self, kind: object, *_: object) -> None:
        if kind is not _NDARRAY:
            raise pickle.UnpicklingError("it holds arrays of a kind of their own")
        self.array: NDArray[Any] = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(kind, _TypeStandIn) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("it holds arrays of something else than numbers")
        self.array = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if fortran else "C")


def _encode_latin1(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("it holds text in an encoding of its own")
    return text.encode("latin1")


_STAND_INS: Mapping[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _ArrayStandIn,
    ("numpy._core.multiarray", "_reconstruct"): _ArrayStandIn,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _TypeStandIn,
    ("_codecs", "encode"): _encode_latin1,
}
"""Names that a pickle may contain -> our replacement; the named code itself is never run."""


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler of dictionaries, lists, tuples, texts, numbers and arrays of numbers; it refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}") from None


def read_plain_pickle(path: Path) -> Any:
    """Return the content of a pickle of dictionaries, lists, texts, numbers and arrays.

    Arrays are of the type :class:`_ArrayStandIn`.
    """
    try:
        return _PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except Exception as error:  # a damaged pickle may raise anything
        raise UserError(
            f"{path} is not a pickle of plain numbers and texts ({first_line(error)}), and nothing else is "
            "unpickled here."
        ) from error


def read_cifar_pickle(path: Path, published: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images [N, 3, 32, 32] and labels [N] of one file of CIFAR's Python version.

    It warns if the md5 of the file is not the ``published`` one.
    """
    content = read_plain_pickle(path)
    entries = (
        {_decode_key(key): _unwrap_array(value) for key, value in content.items()} if isinstance(content, dict) else {}
    )
    images, labels = entries.get("data"), entries.get("fine_labels", entries.get("labels"))
    label_array = np.asarray(labels if isinstance(labels, list | np.ndarray) else [None])
    if (
        not isinstance(images, np.ndarray)
        or images.dtype != np.uint8
        or images.shape != (len(label_array), _CIFAR_PIXELS)
        or label_array.dtype.kind not in "iu"
    ):
        raise UserError(
            f"{path} is not a file of CIFAR's Python version: expected 'data' [N, 3072] and labels [N] in it."
        )
    if hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() != published:
        warn(f"{path} is not the file that CIFAR's authors published (another md5); it is read as it is.")
    return images.reshape(-1, 3, 32, 32), label_array.astype(np.int64)


def _decode_key(key: object) -> object:
    return key.decode("latin1") if isinstance(key, bytes) else key


def _unwrap_array(value: object) -> object:
    return value.array if isinstance(value, _ArrayStandIn) else value
