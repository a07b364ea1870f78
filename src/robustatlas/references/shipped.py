"""The references that come with robustatlas, and those in files of one's own."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from robustatlas.documents import read_json
from robustatlas.errors import UserError
from robustatlas.files import named
from robustatlas.references.reference import Reference


def available_references() -> tuple[str, ...]:
    """Names of the references that come with robustatlas.

    Returns:
        the names, sorted.

    Example:
        >>> available_references()
        ('multirobustbench-cifar10', 'uar-cifar10', 'uar-imagenet100')
    """
    return tuple(sorted(entry.name.removesuffix(".json") for entry in _data().iterdir()))


def load_reference(name_or_path: str | Path) -> Reference:
    """A reference by its name, or from a JSON file of your own.

    Args:
        name_or_path: one of `available_references()`, or the path of a file that holds `Reference.to_dict()` as JSON.

    Returns:
        its accuracies, published defenses and notes.

    Raises:
        UserError: there is no reference of that name, or the file holds none.

    Example:
        >>> reference = load_reference("multirobustbench-cifar10")
        >>> reference.ranked
        ('linf', 'l2', 'l1', 'stadv', 'recolor', 'elastic', 'jpeg-linf', 'jpeg-l1', 'lpips')
        >>> len(reference.defenses)
        21
    """
    named(name_or_path, "the name or the file of a reference")
    shipped = _data() / f"{name_or_path}.json"
    if str(name_or_path) in available_references():
        return Reference.from_dict(read_json(shipped), str(name_or_path))
    if not Path(name_or_path).is_file():
        raise UserError(
            f"There is no reference {str(name_or_path)!r}; give one of {', '.join(available_references())} "
            "or the path of a reference file."
        )
    return Reference.from_dict(read_json(name_or_path), str(name_or_path))


def _data() -> Path:
    return Path(str(files("robustatlas.references"))) / "data"


def is_about(reference: str, data: str) -> bool:
    """Whether a shipped reference is about a data set, by their names.

    Example:
        >>> is_about("uar-cifar10", "CIFAR-10 test"), is_about("uar-cifar10", "cifar100")
        (True, False)
    """
    plain = re.sub("[^a-z0-9]", "", data.lower())
    return re.search(rf"{reference.rpartition('-')[2]}(?!\d)", plain) is not None
