"""What is said and named in one way everywhere, seen in the sources."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def sources() -> dict[str, ast.Module]:
    """The syntax tree of each file."""
    files = sorted((ROOT / "src").rglob("*.py"))
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for file, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(file)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}, "rename all but one of each"


def test_consoles_colour_nothing_by_themselves() -> None:
    """rich's highlighter would paint the numbers in the name of a model."""
    plain: set[ast.Call] = set()
    for tree in sources().values():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            made = call.func.value if isinstance(call.func, ast.Attribute) else call
            if any(keyword.arg == "highlight" for keyword in call.keywords) and isinstance(made, ast.Call):
                plain.add(made)
    consoles = [
        (file, node.lineno, node)
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console"
    ]
    assert len(consoles) > 20
    assert not [(file, line) for file, line, node in consoles if node not in plain]


def test_one_place_finds_the_name_that_was_meant() -> None:
    using = [
        file
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) and any(name.name == "difflib" for name in node.names)
    ]
    assert using == ["src/robustatlas/common/wording.py"]


def raised(tree: ast.AST) -> list[ast.expr]:
    """What the errors of users that are made here say."""
    return [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("UserError", "UnsupportedInputError")
        and node.args
    ]


def ends(message: ast.expr) -> tuple[str | None, str | None]:
    """The first and the last text of a message; None where that is only known when it is raised."""
    if isinstance(message, ast.Constant):
        return str(message.value), str(message.value)
    if isinstance(message, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else None for part in message.values]
        return parts[0], parts[-1]
    if isinstance(message, ast.BinOp):
        return ends(message.left)[0], ends(message.right)[1]
    return None, None


def given_names() -> set[str]:
    """Names of arguments and attributes, and of the packages and attacks that a sentence may begin with."""
    found = {"timm", "torchvision", "ray", "jpeg", "snow", "corruption", "trades"}
    for tree in sources().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def test_every_error_is_a_sentence() -> None:
    """It begins with a capital, a value or a name, and ends with a stop."""
    names, bad, counted = given_names() - {"a", "an", "one", "the", "there"}, [], 0
    for file, tree in sources().items():
        for message in raised(tree):
            first, last = ends(message)
            counted += last is not None
            begun = first is None or not first[:1].islower() or re.split(r"\W", first)[0] in names
            if not begun or not (last is None or last.endswith((".", "?"))):
                bad.append(f"{file}:{message.lineno} {first} ... {last}")
    assert bad == []
    assert counted > 400
