"""The rooms of the package: what is drawn of them is what the code is."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_picture_of_the_rooms_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grimp")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    drawing = import_module("rooms")
    rooms = drawing.rooms()
    assert {path.parent.name for path in (ROOT / "src" / "robustatlas").glob("*/__init__.py")} == set(rooms)
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.picture_text(rooms, drawing.imports(rooms)), (
        "draw it again: python docs/_tools/rooms.py"
    )


def test_the_walk_and_the_table_name_files_that_there_are() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests/|[a-z]+/)[\w/.]*)`", text)
    assert len(named) > 30
    for name in named:
        assert (ROOT / "src" / "robustatlas" / name).exists() or (ROOT / name).exists(), name
