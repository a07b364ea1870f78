"""The references that come with robustatlas, and those in files of one's own."""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from robustatlas.common.documents import read_json
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.metrics.references.field import Field
from robustatlas.metrics.references.reference import Reference


def available_references() -> tuple[str, ...]:
    """Return names of the references that come with robustatlas.

    Returns:
        the names, sorted; `available_fields()` are among them.

    Example:
        >>> [name for name in available_references() if not name.startswith("robustbench")]
        ['multirobustbench-cifar10', 'uar-cifar10', 'uar-imagenet100']
    """
    return tuple(sorted(entry.name.removesuffix(".json") for entry in _data().iterdir()))


def available_fields() -> tuple[str, ...]:
    """Return names of the fields that come with robustatlas: published models at the one point that a benchmark
    asks for.

    Returns:
        the names, sorted.

    Example:
        >>> available_fields()[:3]
        ('robustbench-cifar10-corruptions', 'robustbench-cifar10-l2', 'robustbench-cifar10-linf')
    """
    return tuple(name for name in available_references() if name.startswith("robustbench-"))


@cache
def load_field(name: str) -> Field:
    """Return a field by its name.

    Args:
        name: one of `available_fields()`.

    Returns:
        its entries, best first.

    Raises:
        UserError: there is no field of that name.

    Example:
        >>> len(load_field("robustbench-cifar10-l2").entries)
        21
    """
    if name not in available_fields():
        raise UserError(f"There is no field {name!r}; give one of {', '.join(available_fields())}.")
    return Field.from_dict(read_json(_data() / f"{name}.json"), name)


def load_reference(name_or_path: str | Path) -> Reference:
    """Return a reference by its name, or from a JSON file of your own.

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
    file = parse_path(name_or_path, "the name or the file of a reference")
    shipped = _data() / f"{name_or_path}.json"
    if str(name_or_path) in available_fields():
        return load_field(str(name_or_path)).as_reference()
    if str(name_or_path) in available_references():
        return Reference.from_dict(read_json(shipped), str(name_or_path))
    if not file.is_file():
        raise UserError(
            f"There is no reference {str(name_or_path)!r}; give one of {', '.join(available_references())} "
            "or the path of a reference file."
        )
    return Reference.from_dict(read_json(file), str(name_or_path))


def _data() -> Path:
    return Path(str(files("robustatlas.metrics.references"))) / "data"


def has_dataset(reference: str, data: str) -> bool:
    """Return True if a shipped reference belongs to a data set, by their names.

    >>> has_dataset("uar-cifar10", "CIFAR-10 test"), has_dataset("robustbench-cifar10-linf", "cifar100")
    (True, False)
    """
    normalised = re.sub("[^a-z0-9]", "", data.lower())
    return re.search(rf"{reference.split('-')[1]}(?!\d)", normalised) is not None
