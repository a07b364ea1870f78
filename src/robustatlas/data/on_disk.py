"""Data sets that stay on disk, by their names."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.files import cache_folder, list_files, parse_path, write_text
from robustatlas.data.dataset import Dataset, Fingerprint
from robustatlas.data.folders import DEFAULT_ORDER, ClassOrder, class_folders, folder_names
from robustatlas.data.formats import class_names, read_npz
from robustatlas.data.labels import class_numbers
from robustatlas.data.loaders import (
    HuggingFacePictures,
    MappedArray,
    PictureFiles,
    has_member,
    open_array,
    read_huggingface,
    read_parquet,
)
from robustatlas.data.pictures import NO_SIZING, Sizing
from robustatlas.data.rows import Rows, check_scale
from robustatlas.data.unpacked import ACTIVITIES, UNPACKED, default_sizing, read_gtsrb, read_har, read_tiny_imagenet

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_CIFAR100 = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
    shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = tuple(_CIFAR100.split())

_CIFAR_C = {"cifar10-c": ("CIFAR-10-C", CIFAR10), "cifar100-c": ("CIFAR-100-C", CIFAR100)}
_SEVERITIES = 5
_IMAGENET = Sizing(resize=256, crop=224)
_LARGE_ARCHIVE_BYTES = 2**28
"""The images of larger archives stay on disk."""
_IMAGENET100 = 100


@dataclass(frozen=True)
class PictureOptions:
    """Options for loading pictures.

    Attributes:
        sizing: of the pictures.
        channels: 1 or 3; None: by the pictures themselves.
        order: of the classes of class folders.
    """

    sizing: Sizing = NO_SIZING
    channels: int | None = None
    order: ClassOrder = DEFAULT_ORDER

    def check_unused(self, name: str) -> None:
        """Raise :class:`UserError` if any option is set for the data set ``name``, which has no pictures."""
        if self != PictureOptions():
            raise UserError(
                f"{name!r} has one size and numbered classes already; resize, crop, channels and classes are for "
                "folders of pictures."
            )


def load_on_disk(name: str, split: str, options: PictureOptions, roots: Sequence[Path]) -> Dataset | None:
    """Return the data set ``name``, or None if it is not one that stays on disk."""
    scheme, _, rest = name.partition(":")
    if scheme == "imagefolder" and rest:
        return image_folder(parse_path(rest), options, split=split)
    if options.order != DEFAULT_ORDER:
        raise UserError(f"{name!r} numbers its classes itself; classes are for imagefolder:FOLDER.")
    if scheme == "hf" and rest:
        return _load_huggingface(parse_path(rest), split, options)
    path = parse_path(name)
    if path.suffix in (".npz", ".npy"):
        options.check_unused(name)
        return _load_npz(path) if path.suffix == ".npz" else _load_npy(path, _label_file(path), path.stem)
    kind, *details = name.split("/")
    if kind in _CIFAR_C:
        return _load_cifar_c(kind, details, roots)
    if kind in ("imagenet-c", "imagenet-c-100"):
        return _load_imagenet_c(kind, details, roots, options)
    if name in UNPACKED:
        return _load_unpacked(name, split, roots, options)
    if name in ("imagenet", "imagenet100"):
        return _load_imagenet(name, split, roots, options)
    return None


def has_single_split(name: str) -> bool:
    """Return True if a data set has the same images for every split, as files and folders of pictures have.

    Args:
        name: of a data set, see :func:`load_dataset`.

    Returns:
        True if there is one split; the file or folder need not exist.

    Example:
        >>> has_single_split("mine.npz"), has_single_split("imagefolder:mine"), has_single_split("digits")
        (True, True, False)
    """
    return Path(name).suffix in (".npz", ".npy") or name.startswith(("imagefolder:", "imagenet-c/", *_CIFAR_C))


def image_folder(
    folder: Path, options: PictureOptions, *, split: str = "test", only: Sequence[str] | None = None, name: str = ""
) -> Dataset:
    """Load pictures from one folder for each class; only from those named in ``only``, if it is given."""
    found = class_folders(folder, options.order, split, only)
    name = name or folder.resolve().name
    rows = PictureFiles(found.files, options.sizing, name, options.channels)
    settings = f"pictures {options.sizing} {rows.channels} channels"
    return _with_cached_fingerprint(rows, found.labels, name, found.classes, found.files, settings)


def _with_cached_fingerprint(
    rows: Rows,
    labels: Sequence[int] | NDArray[Any],
    name: str,
    classes: Sequence[str] | None,
    files: Iterable[Path],
    settings: str,
) -> Dataset:
    if isinstance(rows, MappedArray):
        check_scale(rows, name)
    data = Dataset.from_rows(rows, labels, name, classes)
    fingerprint = partial(cached_fingerprint, rows, data.labels, list(files), settings)
    return Dataset.from_rows(rows, data.labels, name, data.classes, fingerprint)


def _load_npz(path: Path) -> Dataset:
    if path.is_file() and path.stat().st_size > _LARGE_ARCHIVE_BYTES:
        names = class_names(open_array(path, "classes")) if has_member(path, "classes") else None
        rows, label_array = MappedArray(open_array(path, "images"), path.stem), open_array(path, "labels")
        return _with_cached_fingerprint(rows, label_array, path.stem, names, [path], "npz")
    images, labels, classes = read_npz(path)
    return Dataset.from_arrays(images, labels, path.stem, classes)


def _label_file(path: Path) -> Path:
    own, common = path.with_name(f"{path.stem}_labels.npy"), path.with_name("labels.npy")
    for labels in (own, common):
        if labels.is_file() and labels != path:
            return labels
    raise UserError(f"The labels of {path} are neither in {own.name} nor in {common.name} beside it; save them there.")


def _load_npy(path: Path, labels: Path, name: str) -> Dataset:
    label_array = class_numbers(open_array(labels), f"The labels in {labels}")
    return _with_cached_fingerprint(MappedArray(open_array(path), name), label_array, name, None, [path], "npy")


def _find_path(roots: Sequence[Path], places: Sequence[str], what: str) -> Path:
    for root in roots:
        for place in places:
            if (root / place).exists():
                return root / place
    raise UserError(
        f"{what} is in none of {', '.join(map(str, roots))}; set ROBUSTATLAS_DATA to the folder that holds {places[0]}."
    )


def _parse_corruption(what: str, details: Sequence[str]) -> tuple[str, int]:
    if len(details) != 2 or details[1] not in [str(level + 1) for level in range(_SEVERITIES)]:
        raise UserError(
            f"{what} is named with a corruption and a severity from 1 to 5, such as {what}/gaussian_noise/3."
        )
    return details[0].replace("-", "_"), int(details[1])


def _load_cifar_c(name: str, details: Sequence[str], roots: Sequence[Path]) -> Dataset:
    kind, severity = _parse_corruption(name, details)
    folder, classes = _CIFAR_C[name]
    path = _find_path(roots, [f"{folder}/{kind}.npy"], f"{folder}'s {kind}.npy")
    images, labels = open_array(path), open_array(path.with_name("labels.npy"))
    each = len(images) // _SEVERITIES
    rows = MappedArray(images, name).subset(torch.arange((severity - 1) * each, severity * each))
    label_array = labels[(severity - 1) * each : severity * each]
    return _with_cached_fingerprint(
        rows, label_array, f"{name}/{kind}/{severity}", classes, [path], f"severity {severity}"
    )


def _load_imagenet_c(name: str, details: Sequence[str], roots: Sequence[Path], options: PictureOptions) -> Dataset:
    kind, severity = _parse_corruption(name, details)
    folder = _find_path(
        roots, [f"ImageNet-C/{kind}/{severity}", f"imagenet-c/{kind}/{severity}"], f"ImageNet-C's {kind}"
    )
    only = _imagenet100_classes(folder_names(folder)) if name == "imagenet-c-100" else None
    return image_folder(folder, options, only=only, name=f"{name}/{kind}/{severity}")


def _imagenet100_classes(known: Sequence[str]) -> Sequence[str] | None:
    """Return the classes of ImageNet-100: every tenth by WordNet ID (Kang et al. 2019).

    None means all classes: there are at most a hundred.
    """
    return known[::10] if len(known) > _IMAGENET100 else None


def _load_unpacked(name: str, split: str, roots: Sequence[Path], options: PictureOptions) -> Dataset:
    if name == "har":
        options.check_unused(name)
        folder = _find_path(roots, ["UCI HAR Dataset", "har"], "The HAR data set")
        return Dataset.from_arrays(*read_har(folder, split), name, ACTIVITIES)
    if name == "gtsrb":
        found = read_gtsrb(_find_path(roots, ["GTSRB", "gtsrb/GTSRB"], "GTSRB"), split)
    else:
        found = read_tiny_imagenet(_find_path(roots, ["tiny-imagenet-200"], "Tiny ImageNet"), split)
    sizing = default_sizing(name, options.sizing)
    rows = PictureFiles(found.files, sizing, name, options.channels)
    return _with_cached_fingerprint(
        rows, found.labels, name, found.classes, found.files, f"{sizing} {rows.channels} channels"
    )


def _load_imagenet(name: str, split: str, roots: Sequence[Path], options: PictureOptions) -> Dataset:
    part = "val" if split == "test" else "train"
    folder = _find_path(
        roots, [f"{kind}/{part}" for kind in ("imagenet", "ImageNet", "ILSVRC2012")], f"{name} ({split})"
    )
    only = _imagenet100_classes(folder_names(folder)) if name == "imagenet100" else None
    return image_folder(
        folder,
        replace(options, sizing=_IMAGENET if options.sizing == NO_SIZING else options.sizing),
        only=only,
        name=name,
    )


def _load_huggingface(path: Path, split: str, options: PictureOptions) -> Dataset:
    if not path.is_dir():
        raise UserError(
            f"There is no folder {path}; expected a data set of Hugging Face on disk (save_to_disk, or Parquet files)."
        )
    if any(file.suffix == ".parquet" for file in list_files(path)):
        pictures, label_array, names, used = read_parquet(path, split, options.sizing, path.name, options.channels)
        settings = f"{split} {options.sizing} {pictures.channels} channels"
        return _with_cached_fingerprint(pictures, label_array, path.name, names, used, settings)
    data, column, labels, classes = read_huggingface(path, split, f"hf:{path}")
    rows = HuggingFacePictures(data, column, options.sizing, path.name, options.channels)
    files = list_files(path)
    settings = f"{split} {column} {options.sizing} {rows.channels} channels"
    return _with_cached_fingerprint(rows, labels, path.name, classes, files, settings)


_CACHE_VERSION = 1
"""Part of the key of cached fingerprints; to be raised if the way of reading pictures changes."""


def cached_fingerprint(rows: Rows, labels: Tensor, files: Iterable[Path], settings: str) -> Fingerprint:
    """Return the fingerprint of data that is read from ``files``; it is cached on disk.

    It is computed again if the name, size or time of a file changes, or the ``settings`` of reading.
    """
    digest = hashlib.sha256(f"{_CACHE_VERSION} {settings} {rows.shape} {labels.tolist()}".encode())
    for file in files:
        status = file.stat()
        digest.update(f"{file.resolve()} {status.st_size} {status.st_mtime_ns}\n".encode())
    cache = cache_folder() / "fingerprints" / f"{digest.hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, TypeError):
        return Fingerprint(**json.loads(cache.read_text(encoding="utf-8")))
    found = Fingerprint.compute(rows, labels)
    with suppress(UserError):  # the cache is not writable: compute it again next time
        write_text(cache, json.dumps(vars(found)))
    return found
