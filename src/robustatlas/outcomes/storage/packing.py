"""Small parts of a run as one larger object: stores, and those who pay for them, count requests."""

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from robustatlas.outcomes.tables import CorruptFileError, join_parquet, read_abouts, read_names

LEAST_BYTES, MOST_BYTES = 2**20, 16 * 2**20
"""Of an object: smaller parts wait for others for a while, and no more than so much is put together."""

_OWN = "created"
"""What parts may say differently and yet be joined: when they were computed."""


def packs(root: Path, waiting: Sequence[str]) -> Iterator[list[str]]:
    """The files ``waiting`` below ``root`` as they are to be sent: those that may be one together.

    These are parts of one attack, computed in the same way and place, that lack nothing of each other. Images lie
    beside the part that they are of, under the name of that part; it stays as it is.
    """
    small = [name for name in waiting if _is_small(root, name)]
    alike = _alike(root, small)
    yield from ([name] for name in waiting if name not in alike)
    groups: dict[object, list[str]] = {}
    for name, kind in alike.items():
        groups.setdefault(kind, []).append(name)
    for group in groups.values():
        yield from _up_to(MOST_BYTES, root, group)


def packed(root: Path, names: Sequence[str], target: Path) -> str:
    """Join parts in the file ``target``; the name of the whole, as of a part."""
    paths = [root / name for name in names]
    about = read_abouts(paths)[paths[-1]]
    rows = join_parquet(paths, target, about)
    folder, _, first = names[0].rpartition("/")
    return f"{folder}/{first.partition('-')[0]}-{rows}-{uuid.uuid4().hex[:8]}.parquet"


def _is_small(root: Path, name: str) -> bool:
    images = (root / name.replace("outcomes/", "adversarial/", 1)).with_suffix(".npz")
    return name.endswith(".parquet") and not images.exists() and (root / name).stat().st_size < LEAST_BYTES


def _alike(root: Path, names: Sequence[str]) -> dict[str, object]:
    """Of parts that can be read, what must agree in those that are joined."""
    paths = [root / name for name in names]
    if not paths:
        return {}
    try:
        abouts, columns = read_abouts(paths), read_names(paths)
    except CorruptFileError:  # told by those who read the part
        return {}
    return {
        name: (
            name.rpartition("/")[0],
            columns[path],
            frozenset((key, text) for key, text in abouts[path].items() if key != _OWN),
        )
        for name, path in zip(names, paths, strict=True)
    }


def _up_to(most: int, root: Path, names: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    held = 0
    for name in names:
        size = (root / name).stat().st_size
        if group and held + size > most:
            yield group
            group, held = [], 0
        group.append(name)
        held += size
    yield group
