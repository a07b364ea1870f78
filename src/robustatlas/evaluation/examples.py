"""Adversarial examples as somebody hands them over: arrays, a ``.npz`` file, a folder of PNGs, another run."""

import hashlib
import re
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from robustatlas.common.errors import UserError
from robustatlas.common.files import Address, parse_path
from robustatlas.outcomes import Run, sha256_of_array
from robustatlas.outcomes.storage import is_run

Arrays = dict[str, NDArray[Any]]

_MODES = ("L", "RGB")
"""Modes of Pillow: grey and colour, eight bits a channel."""


@dataclass(frozen=True, eq=False)
class Examples:
    """M adversarial examples.

    Attributes:
        images: ``[M, ...]`` in [0, 1]; None where ``theta`` makes them.
        index: ``[M]``, positions of the clean images in the data set; None: all of the data set, or all of the run, in
            order.
        labels: ``[M]``, the true classes, as the finder knows them; None: not said.
        theta: parameters of the examples in an attack's threat model, each ``[M, ...]``: in the order of its
            tensors; empty: not said.
        attack: name of that attack.
    """

    images: NDArray[Any] | None
    index: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None
    theta: tuple[NDArray[Any], ...] = ()
    attack: str | None = None

    def __len__(self) -> int:
        return len(self.theta[0] if self.images is None else self.images)

    @property
    def sha256(self) -> str:
        """Select from all fields that are given."""
        parts = [self.images, self.index, self.labels, *self.theta]
        hashes = ["" if part is None else sha256_of_array(part) for part in parts]
        return hashlib.sha256("/".join([self.attack or "", *hashes]).encode()).hexdigest()


def read_examples(path: str | Path) -> Examples:
    """The examples in a ``.npz`` file, a folder of PNGs, or those that a run kept.

    A ``.npz`` file has ``images`` [M, ...] (uint8 0..255, or floating point in [0, 1]). It may have ``index`` [M],
    ``labels`` [M], ``theta`` [M, ...] (or ``theta_0``, ``theta_1``, ...) and ``attack``. Names of PNGs end in the
    position of the clean image, such as ``17.png`` or ``cat-0017.png``. A run is given by its folder.

    Raises:
        UserError: nothing there, or none of these.
    """
    place = parse_path(path)
    if isinstance(place, Address) or place.is_dir():
        return _read_run(place) if is_run(place) else _read_folder(place)
    if not place.is_file():
        raise UserError(f"There is no file or folder {place}; give a .npz file, a folder of PNGs, or a run.")
    return examples_from_arrays(_read_npz(place), str(place))


def examples_from_arrays(arrays: Arrays, place: str) -> Examples:
    """Examples from arrays under the names of :func:`read_examples`; ``place`` names them in errors."""
    names = [name for name in arrays if re.fullmatch(r"theta(_\d+)?", name)]
    theta = tuple(arrays[name] for name in sorted(names, key=lambda name: int(name[6:] or 0)))
    known = {"images", "index", "labels", "attack", *names}
    if unknown := sorted(set(arrays) - known):
        raise UserError(
            f"{place} holds {', '.join(map(repr, unknown))}, which is not known here; expected images, index, labels, "
            "theta and attack."
        )
    if "images" not in arrays and not theta:
        raise UserError(f"{place} holds no examples; expected an array 'images' [M, ...], or 'theta' and 'attack'.")
    if theta and "attack" not in arrays:
        raise UserError(f"{place} holds 'theta' without 'attack', the name of the attack that it belongs to.")
    images = _pixels(arrays["images"], place) if "images" in arrays else None
    examples = Examples(
        images=images,
        index=_integers(arrays, "index", place),
        labels=_integers(arrays, "labels", place),
        theta=theta,
        attack=str(arrays["attack"]) if "attack" in arrays else None,
    )
    for what, values in (("index", examples.index), ("labels", examples.labels), *(("theta", t) for t in theta)):
        if values is not None and len(values) != len(examples):
            raise UserError(
                f"{place} holds {len(examples)} examples and {what} of length {len(values)}; give one each."
            )
    return examples


def _pixels(images: NDArray[Any], place: str) -> NDArray[Any]:
    if images.ndim < 2 or not len(images):
        raise UserError(f"The images of {place} have shape {images.shape}; expected at least one, [M, ...].")
    if images.dtype == np.uint8:
        return (images / np.float32(255)).astype(np.float32)
    if not np.issubdtype(images.dtype, np.floating):
        raise UserError(f"The images of {place} are {images.dtype}; expected uint8 in 0..255 or floats in [0, 1].")
    return images if images.dtype == np.float64 else images.astype(np.float32)


def _integers(arrays: Arrays, name: str, place: str) -> NDArray[np.int64] | None:
    if name not in arrays:
        return None
    values = arrays[name]
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise UserError(
            f"The {name} of {place} is {values.dtype} of shape {values.shape}; expected one integer an example."
        )
    return values.astype(np.int64)


def _read_npz(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, ValueError, EOFError, TypeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be read as a NumPy .npz archive without pickled objects: {error}") from error


def _read_folder(folder: Path) -> Examples:
    files = sorted(folder.glob("*.png"))
    if not files:
        raise UserError(f"{folder} holds no PNGs and is not a run; give a .npz file, a folder of PNGs, or a run.")
    positions = [re.search(r"(\d+)$", file.stem) for file in files]
    for file, position in zip(files, positions, strict=True):
        if position is None:
            raise UserError(f"{file} does not say which image it changes; expected names such as 17.png or cat-17.png.")
    images = [_read_png(file) for file in files]
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise UserError(f"The PNGs of {folder} differ in size: {', '.join(map(str, sorted(shapes)))}.")
    index = np.array([int(position.group(1)) for position in positions if position], np.int64)
    return Examples(_pixels(np.stack(images), str(folder)), index)


def _read_png(path: Path) -> NDArray[np.uint8]:
    """``[C, H, W]``."""
    try:
        with Image.open(path) as image:
            if image.mode not in _MODES:
                raise UserError(f"{path} is of mode {image.mode}; expected grey or RGB with 8 bits a channel.")
            pixels = np.asarray(image)
    except (OSError, UnidentifiedImageError) as error:
        raise UserError(f"{path} cannot be read as a PNG: {error}.") from error
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _read_run(path: Path) -> Examples:
    """All the examples that a run kept, of whatever attack."""
    run = Run.open(path)
    records = run.records().values()
    everywhere = np.unique(np.concatenate([np.zeros(0, np.int64), *(run.stored_samples(record) for record in records)]))
    found = []
    for name in dict.fromkeys(record.name for record in records):
        with suppress(UserError):  # some attacks of a run may have kept their examples, others not
            index, images = run.adversarial(name, everywhere)
            found += [(index, images)] * bool(len(index))
    if not found:
        raise UserError(f"{path} kept no adversarial examples; evaluate with --keep-adversarial.")
    return Examples(np.concatenate([images for _, images in found]), np.concatenate([index for index, _ in found]))
