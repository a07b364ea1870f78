"""Data sets in the folders of their unpacked archives: Tiny ImageNet, GTSRB, HAR."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.files import list_files, read_text
from robustatlas.common.wording import join_words
from robustatlas.data.folders import PICTURES
from robustatlas.data.pictures import NO_SIZING, Sizing

ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
SIGNS = 43
UNPACKED = ("tiny-imagenet", "gtsrb", "har")
"""Names of these data sets."""


@dataclass(frozen=True)
class LabelledFiles:
    """Picture ``files`` [N] with their ``labels`` [N] and the names of the ``classes``."""

    files: list[Path]
    labels: list[int]
    classes: list[str]


def default_sizing(name: str, given: Sizing) -> Sizing:
    """Return the sizing of the data set ``name``: ``given``, or 32 pixels for GTSRB if none is given."""
    return Sizing(resize=32, crop=32) if name == "gtsrb" and given == NO_SIZING else given


def read_tiny_imagenet(folder: Path, split: str) -> LabelledFiles:
    """Read ``tiny-imagenet-200``: 100,000 training pictures, or the 10,000 validation pictures as test images."""
    classes = read_text(_check_file(folder / "wnids.txt")).split()
    classes.sort()
    if split == "train":
        places = [(file, name) for name in classes for file in _list_pictures(folder / "train" / name)]
    else:
        annotations = read_text(_check_file(folder / "val/val_annotations.txt")).splitlines()
        rows = [line.split("\t") for line in annotations if line]
        places = [(folder / "val/images" / row[0], row[1]) for row in rows]
    numbers = {name: number for number, name in enumerate(classes)}
    if strange := sorted({name for _, name in places} - numbers.keys()):
        raise UserError(f"{folder} names the class {strange[0]}, which is not in its wnids.txt; unpack it anew.")
    return LabelledFiles([file for file, _ in places], [numbers[name] for _, name in places], classes)


def read_gtsrb(folder: Path, split: str) -> LabelledFiles:
    """Read German traffic signs: 39,209 training pictures in class folders, or 12,630 test pictures with a table."""
    classes = [str(number) for number in range(SIGNS)]
    if split == "train":
        places = [folder / "Final_Training/Images", folder / "Training"]
        root = next((place for place in places if place.is_dir()), None)
        if root is None:
            raise UserError(
                f"{folder} has neither Final_Training/Images nor Training; unpack the training images there."
            )
        found = [(file, number) for number in range(SIGNS) for file in _list_pictures(root / f"{number:05d}")]
        return LabelledFiles([file for file, _ in found], [number for _, number in found], classes)
    images = folder / "Final_Test/Images"
    tables = [folder / "GT-final_test.csv", folder.parent / "GT-final_test.csv", images / "GT-final_test.csv"]
    table = next((place for place in tables if place.is_file()), None)
    if table is None:
        raise UserError(f"The classes of the test images are missing: put GT-final_test.csv into {folder}.")
    rows = list(csv.DictReader(read_text(table).splitlines(), delimiter=";"))
    if strange := next((row for row in rows if not (row.get("Filename") and _is_number(row.get("ClassId")))), None):
        raise UserError(
            f"{table} has the row {shorten(repr(strange))}; expected a Filename and a whole ClassId in each."
        )
    return LabelledFiles([images / row["Filename"] for row in rows], [int(row["ClassId"]) for row in rows], classes)


def _is_number(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdecimal()


def read_har(folder: Path, split: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Read human activities from smartphones: 561 numbers for each sample, scaled to [0, 1], and the classes."""
    values, labels = (_check_file(folder / split / f"{what}_{split}.txt") for what in "Xy")
    try:
        x, y = np.loadtxt(values, dtype=np.float64, ndmin=2), np.loadtxt(labels, dtype=np.int64, ndmin=1)
    except ValueError as error:
        raise UserError(f"{values} or {labels} hold something else than numbers ({error}).") from error
    return ((x + 1) / 2).clip(0, 1).astype(np.float32), y - 1


def _check_file(file: Path) -> Path:
    if not file.is_file():
        raise UserError(f"{file} is missing; unpack the whole archive.")
    return file


def _list_pictures(folder: Path) -> Sequence[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder} is missing; unpack the whole archive.")
    found = [path for path in list_files(folder) if path.suffix.lower() in PICTURES]
    if not found:
        raise UserError(f"{folder} has no pictures ({join_words(sorted(PICTURES))}); unpack the whole archive.")
    return found
