"""``make quick`` covers each room and each door: a room by a file that imports it, a door by a test that names it."""

import ast
from pathlib import Path
from typing import Any

from typer.main import get_command

import quick
import robustatlas as ra
from robustatlas.cli import app

ROOT = Path(__file__).parents[2]
FRAMEWORKS = {"from_jax", "from_tensorflow"}
"""Their packages are not there in every environment; ``make zoos`` tests them."""


def source(test: str) -> str:
    """Of a file, or of one test in it."""
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    if not name:
        return text
    (found,) = [it for it in ast.walk(ast.parse(text)) if isinstance(it, ast.FunctionDef) and it.name == name]
    return str(ast.get_source_segment(text, found))


def defining_room(name: str) -> str:
    """Return the room that defines a public name; empty if it is not a function or class."""
    return ".".join(getattr(getattr(ra, name), "__module__", "").split(".")[1:2])


def test_each_room_and_each_door_is_covered() -> None:
    listed = quick.listed()
    command: Any = get_command(app)
    functions = {name for name in ra.__all__ if name[0].islower()} - FRAMEWORKS - {"metrics"}
    rooms = {path.parent.name for path in (ROOT / "src" / "robustatlas").glob("*/__init__.py")}
    doors = {"rooms": rooms, "commands": set(command.commands), "functions": functions | {"drop_in"}}
    assert {kind: set(names) for kind, names in listed.items()} == doors, "tests/quick.toml has a test for each"


def test_each_test_of_it_is_there_and_is_about_what_it_stands_for() -> None:
    listed = quick.listed()
    for room, files in listed["rooms"].items():
        names = [
            f"robustatlas.{room}",
            f"robustatlas import {room}",
            *(f"ra.{name}(" for name in ra.__all__ if defining_room(name) == room),
        ]
        assert any(name in source(file) for file in files for name in names), room
    for door, test in (listed["commands"] | listed["functions"]).items():
        assert source(test), test
        assert door in (ROOT / test.partition("::")[0]).read_text(encoding="utf-8"), (door, test)
