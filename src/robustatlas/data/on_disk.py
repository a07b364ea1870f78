"""Data sets that stay on disk, by the names that they are asked for."""

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
from robustatlas.data.folders import AS_NAMED, Order, class_folders, folder_names
from robustatlas.data.formats import names_of_classes, read_npz
from robustatlas.data.labels import class_numbers
from robustatlas.data.loaders import (
    FromHuggingFace,
    Mapped,
    PictureFiles,
    has_member,
    huggingface_parts,
    mapped,
    parquet_parts,
)
from robustatlas.data.pictures import AS_THEY_ARE, Sizing
from robustatlas.data.rows import Rows, check_scale
from robustatlas.data.unpacked import ACTIVITIES, UNPACKED, gtsrb, har, sizing_of, tiny_imagenet

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
_LARGE = 2**28
"""Bytes of an archive above which its images stay on disk."""
_IMAGENET100 = 100


@dataclass(frozen=True)
class Shown:
    """How pictures become rows. ``channels``: None, as they are; ``order``: of the classes of class folders."""

    sizing: Sizing = AS_THEY_ARE
    channels: int | None = None
    order: Order = AS_NAMED

    def refuse_for(self, name: str) -> None:
        """Raise :class:`UserError` where something is asked of the data set ``name``, which holds no pictures."""
        if self != Shown():
            raise UserError(
                f"{name!r} has one size and numbered classes already; resize, crop, channels and classes are for "
                "folders of pictures."
            )


def load_on_disk(name: str, split: str, shown: Shown, roots: Sequence[Path]) -> Dataset | None:
    """The data set of that name, None where it is none of those that stay on disk."""
    scheme, _, rest = name.partition(":")
    if scheme == "imagefolder" and rest:
        return image_folder(parse_path(rest), shown, split=split)
    if shown.order != AS_NAMED:
        raise UserError(f"{name!r} numbers its classes itself; classes are for imagefolder:FOLDER.")
    if scheme == "hf" and rest:
        return _huggingface(parse_path(rest), split, shown)
    path = parse_path(name)
    if path.suffix in (".npz", ".npy"):
        shown.refuse_for(name)
        return _npz(path) if path.suffix == ".npz" else _npy(path, _labels_beside(path), path.stem)
    kind, *details = name.split("/")
    if kind in _CIFAR_C:
        return _cifar_c(kind, details, roots)
    if kind in ("imagenet-c", "imagenet-c-100"):
        return _imagenet_c(kind, details, roots, shown)
    if name in UNPACKED:
        return _unpacked(name, split, roots, shown)
    if name in ("imagenet", "imagenet100"):
        return _imagenet(name, split, roots, shown)
    return None


def without_splits(name: str) -> bool:
    """Whether the images of that name are the same whatever split is asked for: files, and folders of pictures.

    Args:
        name: of a data set, as :func:`load_dataset` takes it.

    Returns:
        True where there is one split; the file or folder need not be there.

    Example:
        >>> without_splits("mine.npz"), without_splits("imagefolder:mine"), without_splits("digits")
        (True, True, False)
    """
    return Path(name).suffix in (".npz", ".npy") or name.startswith(("imagefolder:", "imagenet-c/", *_CIFAR_C))


def image_folder(
    folder: Path, shown: Shown, *, split: str = "test", only: Sequence[str] | None = None, name: str = ""
) -> Dataset:
    """Pictures in one folder a class; ``only``: in the folders of these names."""
    found = class_folders(folder, shown.order, split, only)
    name = name or folder.resolve().name
    rows = PictureFiles(found.files, shown.sizing, name, shown.channels)
    settings = f"pictures {shown.sizing} {rows.channels} channels"
    return _remembered(rows, found.labels, name, found.classes, found.files, settings)


def _remembered(
    rows: Rows,
    labels: Sequence[int] | NDArray[Any],
    name: str,
    classes: Sequence[str] | None,
    files: Iterable[Path],
    settings: str,
) -> Dataset:
    if isinstance(rows, Mapped):
        check_scale(rows, name)
    data = Dataset.of_rows(rows, labels, name, classes)
    fingerprint = partial(remembered_fingerprint, rows, data.labels, list(files), settings)
    return Dataset.of_rows(rows, data.labels, name, data.classes, fingerprint)


def _npz(path: Path) -> Dataset:
    if path.is_file() and path.stat().st_size > _LARGE:
        names = names_of_classes(mapped(path, "classes")) if has_member(path, "classes") else None
        rows, truth = Mapped(mapped(path, "images"), path.stem), mapped(path, "labels")
        return _remembered(rows, truth, path.stem, names, [path], "npz")
    images, labels, classes = read_npz(path)
    return Dataset.of(images, labels, path.stem, classes)


def _labels_beside(path: Path) -> Path:
    own, common = path.with_name(f"{path.stem}_labels.npy"), path.with_name("labels.npy")
    for labels in (own, common):
        if labels.is_file() and labels != path:
            return labels
    raise UserError(f"The labels of {path} are neither in {own.name} nor in {common.name} beside it; save them there.")


def _npy(path: Path, labels: Path, name: str) -> Dataset:
    truth = class_numbers(mapped(labels), f"The labels in {labels}")
    return _remembered(Mapped(mapped(path), name), truth, name, None, [path], "npy")


def _found(roots: Sequence[Path], places: Sequence[str], what: str) -> Path:
    for root in roots:
        for place in places:
            if (root / place).exists():
                return root / place
    raise UserError(
        f"{what} is in none of {', '.join(map(str, roots))}; set ROBUSTATLAS_DATA to the folder that holds {places[0]}."
    )


def _kind_and_severity(what: str, details: Sequence[str]) -> tuple[str, int]:
    if len(details) != 2 or details[1] not in [str(level + 1) for level in range(_SEVERITIES)]:
        raise UserError(
            f"{what} is named with a corruption and a severity from 1 to 5, such as {what}/gaussian_noise/3."
        )
    return details[0].replace("-", "_"), int(details[1])


def _cifar_c(name: str, details: Sequence[str], roots: Sequence[Path]) -> Dataset:
    kind, severity = _kind_and_severity(name, details)
    folder, classes = _CIFAR_C[name]
    path = _found(roots, [f"{folder}/{kind}.npy"], f"{folder}'s {kind}.npy")
    images, labels = mapped(path), mapped(path.with_name("labels.npy"))
    each = len(images) // _SEVERITIES
    rows = Mapped(images, name).chosen(torch.arange((severity - 1) * each, severity * each))
    truth = labels[(severity - 1) * each : severity * each]
    return _remembered(rows, truth, f"{name}/{kind}/{severity}", classes, [path], f"severity {severity}")


def _imagenet_c(name: str, details: Sequence[str], roots: Sequence[Path], shown: Shown) -> Dataset:
    kind, severity = _kind_and_severity(name, details)
    folder = _found(roots, [f"ImageNet-C/{kind}/{severity}", f"imagenet-c/{kind}/{severity}"], f"ImageNet-C's {kind}")
    only = _hundred(folder_names(folder)) if name == "imagenet-c-100" else None
    return image_folder(folder, shown, only=only, name=f"{name}/{kind}/{severity}")


def _hundred(known: Sequence[str]) -> Sequence[str] | None:
    """The classes of ImageNet-100: every tenth by WordNet ID (Kang et al. 2019); None of no more than a hundred."""
    return known[::10] if len(known) > _IMAGENET100 else None


def _unpacked(name: str, split: str, roots: Sequence[Path], shown: Shown) -> Dataset:
    if name == "har":
        shown.refuse_for(name)
        folder = _found(roots, ["UCI HAR Dataset", "har"], "The HAR data set")
        return Dataset.of(*har(folder, split), name, ACTIVITIES)
    if name == "gtsrb":
        found = gtsrb(_found(roots, ["GTSRB", "gtsrb/GTSRB"], "GTSRB"), split)
    else:
        found = tiny_imagenet(_found(roots, ["tiny-imagenet-200"], "Tiny ImageNet"), split)
    sizing = sizing_of(name, shown.sizing)
    rows = PictureFiles(found.files, sizing, name, shown.channels)
    return _remembered(rows, found.labels, name, found.classes, found.files, f"{sizing} {rows.channels} channels")


def _imagenet(name: str, split: str, roots: Sequence[Path], shown: Shown) -> Dataset:
    part = "val" if split == "test" else "train"
    folder = _found(roots, [f"{kind}/{part}" for kind in ("imagenet", "ImageNet", "ILSVRC2012")], f"{name} ({split})")
    only = _hundred(folder_names(folder)) if name == "imagenet100" else None
    return image_folder(
        folder, replace(shown, sizing=_IMAGENET if shown.sizing == AS_THEY_ARE else shown.sizing), only=only, name=name
    )


def _huggingface(path: Path, split: str, shown: Shown) -> Dataset:
    if not path.is_dir():
        raise UserError(
            f"There is no folder {path}; expected a data set of Hugging Face on disk (save_to_disk, or Parquet files)."
        )
    if any(file.suffix == ".parquet" for file in list_files(path)):
        pictures, truth, names, used = parquet_parts(path, split, shown.sizing, path.name, shown.channels)
        settings = f"{split} {shown.sizing} {pictures.channels} channels"
        return _remembered(pictures, truth, path.name, names, used, settings)
    data, column, labels, classes = huggingface_parts(path, split, f"hf:{path}")
    rows = FromHuggingFace(data, column, shown.sizing, path.name, shown.channels)
    files = list_files(path)
    settings = f"{split} {column} {shown.sizing} {rows.channels} channels"
    return _remembered(rows, labels, path.name, classes, files, settings)


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
