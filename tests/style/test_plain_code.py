"""Names and docstrings say by themselves what they are; the limits of rooms that do not can only fall."""

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def tool() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        return import_module("plain_code")


def test_no_room_has_more_faults_than_its_limit(tool) -> None:  # type: ignore[no-untyped-def]
    faults, limits = tool.all_faults(), tool.read_limits()
    rooms = tool.counts_by_room(faults)
    above = [
        (room, kind, count, limits.get(room, {}).get(kind, 0))
        for room, kinds in rooms.items()
        for kind, count in kinds.items()
        if count > limits.get(room, {}).get(kind, 0)
    ]
    places = [
        str(fault) for fault in faults if any((fault.room, fault.kind) == (room, kind) for room, kind, _, _ in above)
    ]
    assert not above, "\n".join(
        ["more faults than the limit (room, kind, count, limit):", *map(str, above), *places[:40]]
    )


def test_limits_name_rooms_that_there_are(tool) -> None:  # type: ignore[no-untyped-def]
    root = tool.ROOT / "src" / "robustatlas"
    rooms = {path.name for path in root.iterdir() if path.is_dir()} | {"robustatlas", "all rooms", *tool.PLACES}
    assert set(tool.read_limits()) <= rooms


def test_faults_are_found_and_sound_code_has_none(tool, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert doctest.testmod(tool).failed == 0 and doctest.testmod(tool).attempted >= 3
    path = tmp_path / "code.py"
    path.write_text(
        '''"""What it does."""


class Given:
    """Values of a request."""


def told(x):
    """Whether it was told."""


def seed_of(x):
    """Return the seed."""


def margins(x):
    """Return the margins."""
'''
    )
    assert ast.parse(path.read_text())
    found = [(fault.kind, fault.text) for fault in tool.faults_in_file(path)]
    assert sorted(found) == [
        ("docstrings", "What it does."),
        ("docstrings", "Whether it was told."),
        ("endings", "Given"),
        ("endings", "seed_of"),
        ("names", "told"),
    ]
