"""Folders with one folder of pictures for each class: the classes, their numbers and their pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustatlas.common.errors import UserError, warn
from robustatlas.common.files import list_files
from robustatlas.common.wording import list_names, pluralise
from robustatlas.data.labels import MOST_CLASSES

PICTURES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
_SYSTEM_FOLDERS = frozenset(
    {"__MACOSX", "__pycache__", "@eaDir", "$RECYCLE.BIN", "System Volume Information", "lost+found"}
)
"""Folders that archives and operating systems create, besides hidden ones; they are no classes."""
_SPLITS = ("test", "val", "valid", "validation", "dev", "eval", "train", "training", "testing")


_GIVE_NAMES = "give the names of all classes in the order of their numbers (--classes FILE, classes in Python)"


@dataclass(frozen=True)
class ClassOrder:
    """Rule for numbering class folders.

    Attributes:
        names: of all classes in the order of their numbers; some may have no folder. None: folders named by integers
            have these numbers, and others are numbered in the order of their names.
        count: number of classes, if known; it decides if numbers begin with 0 or with 1.
    """

    names: Sequence[str] | None = None
    count: int | None = None


DEFAULT_ORDER = ClassOrder()


@dataclass(frozen=True)
class ClassFolders:
    """Picture ``files`` of class folders, their ``labels``, and the names of all ``classes``."""

    files: list[Path]
    labels: list[int]
    classes: list[str]


def class_folders(
    folder: Path, order: ClassOrder = DEFAULT_ORDER, split: str = "test", only: Sequence[str] | None = None
) -> ClassFolders:
    """Return the pictures in the class folders of ``folder``.

    Args:
        folder: that holds the class folders.
        order: rule for numbering the classes.
        split: that a message recommends if the folders are splits instead of classes.
        only: names of the class folders to use; default: all.

    Raises:
        UserError: there are no pictures, the folders are splits, or the order of the classes is unknown.
    """
    pictures = _find_pictures(folder, only)
    filled = [name for name, files in pictures.items() if files]
    if not filled:
        raise UserError(f"{folder} has no pictures; expected a folder for each class, such as {folder}/cat/1.png.")
    _check_no_splits(folder, filled, split)
    names = list(order.names) if order.names is not None else _class_order(folder, list(pictures), order.count)
    if other := [name for name in filled if name not in names]:
        raise UserError(
            f"The folder {other[0]!r} of {folder} is none of the classes {list_names(names)}; rename it, or "
            f"{_GIVE_NAMES}."
        )
    numbers = {name: number for number, name in enumerate(names)}
    ordered = [(file, numbers[name]) for name in sorted(filled, key=numbers.__getitem__) for file in pictures[name]]
    return ClassFolders([file for file, _ in ordered], [label for _, label in ordered], names)


def folder_names(folder: Path) -> list[str]:
    """Return the sorted names of the folders that may be classes."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; expected one with a folder of pictures for each class.")
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not _is_ignored(entry.name))


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in _SYSTEM_FOLDERS


def _find_pictures(folder: Path, only: Sequence[str] | None) -> dict[str, list[Path]]:
    """Return the pictures of each class folder (only of those in ``only``), and warn about files that are ignored."""
    found: dict[str, list[Path]] = {name: [] for name in only or folder_names(folder)}
    others = [path for path in folder.iterdir() if path.is_file() and not _is_ignored(path.name)]
    hidden: list[Path] = []
    for entry in folder.iterdir() if only is None else map(folder.joinpath, only):
        for path in list_files(entry) if entry.is_dir() else ():
            picture = path.suffix.lower() in PICTURES
            if any(map(_is_ignored, path.relative_to(folder).parts)):
                hidden += [path] if picture else []
            elif picture:
                found[entry.name].append(path)
            else:
                others.append(path)
    _warn_ignored(folder, others, "that are not pictures in class folders")
    _warn_ignored(folder, hidden, "that are hidden, or in hidden folders")
    empty = [name for name, files in found.items() if not files]
    if empty and len(empty) < len(found):
        warn(
            f"{folder} holds folders without pictures: {list_names(empty)}. Each counts as a class; delete what is "
            "none."
        )
    return found


def _warn_ignored(folder: Path, files: Sequence[Path], what: str) -> None:
    if files:
        example = files[0].relative_to(folder)
        warn(f"{folder} holds files that are left out, such as {example}: {pluralise(len(files), 'file')} {what}.")


def _check_no_splits(folder: Path, names: Sequence[str], split: str) -> None:
    splits = [name for known in _SPLITS for name in names if name.lower() == known]
    if splits and (len(splits) > 1 or len(names) == 1):
        asked = next((name for name in splits if name.lower().startswith("train") == (split == "train")), splits[0])
        raise UserError(
            f"{folder} holds splits of a data set ({', '.join(splits)}) and no classes; give one of them, such as "
            f"imagefolder:{folder / asked}."
        )


def _class_order(folder: Path, names: Sequence[str], count: int | None) -> list[str]:
    """Return the names of all classes in the order of their numbers, from the folders alone."""
    numbers = [name for name in names if name.isascii() and name.isdecimal()]
    if len(numbers) == len(names):
        return _numbered_classes(folder, {int(name): name for name in names}, len(names), count)
    if sorted(numbers) != sorted(numbers, key=int):
        raise UserError(
            f"The folders of {folder} are called by numbers and by names ({list_names(names)}), whose order is not "
            "known; "
            f"{_GIVE_NAMES}."
        )
    return list(names)


def _numbered_classes(folder: Path, numbered: Mapping[int, str], folders: int, count: int | None) -> list[str]:
    """Return the names of all classes for folders that are named by numbers from 0 or from 1."""
    first, last = min(numbered), max(numbered)
    if len(numbered) < folders:
        raise UserError(f"Two folders of {folder} are called by the same number; give each class one folder.")
    if last > MOST_CLASSES or (first > 0 and last != (folders if count is None else count)):
        of = "" if count is None else f" of {count} classes"
        raise UserError(
            f"The folders of {folder} are called by numbers from {first} to {last}{of}, and it is not known whether "
            f"0 or 1 is the first class; {_GIVE_NAMES}."
        )
    return [numbered.get(number, str(number)) for number in range(min(first, 1), last + 1)]
