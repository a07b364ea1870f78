"""What is said and named in one way everywhere, seen in the sources."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {
    str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8"))
    for file in sorted((ROOT / "src").rglob("*.py"))
}


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for file, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(file)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_one_place_finds_the_name_that_was_meant() -> None:
    using = [
        file
        for file, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) and any(name.name == "difflib" for name in node.names)
    ]
    assert using == ["src/robustatlas/wording.py"]
