"""Each constant of the attacks, their searches and the certificates says where it comes from."""

import ast
from collections.abc import Iterator
from pathlib import Path

import robustatlas

ROOT = Path(robustatlas.__file__).parent


def has_number(node: ast.AST) -> bool:
    """Return if a number other than 0 and 1 stands below a node, outside of strengths: the calls of ``grid``."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "grid":
        return False
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and node.value not in (0, 1)
    return any(map(has_number, ast.iter_child_nodes(node)))


def groups_of(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield the statements that stand together, without an empty line between them."""
    group: list[ast.stmt] = []
    for node in body:
        if group and node.lineno > (group[-1].end_lineno or 0) + 1:
            yield group
            group = []
        group.append(node)
    yield group


def unexplained(text: str) -> Iterator[str]:
    """Yield the first line of each group with a constant that has neither a comment above or in it nor a docstring."""
    lines = text.splitlines()
    for group in groups_of(ast.parse(text).body):
        constants = [node for node in group if isinstance(node, ast.Assign | ast.AnnAssign) and has_number(node)]
        first, last = group[0].lineno, group[-1].end_lineno
        has_comment = any("#" in line for line in lines[max(0, first - 2) : last])
        has_docstring = any(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in group)
        if constants and not (has_comment or has_docstring):
            yield lines[constants[0].lineno - 1]


def test_each_constant_says_where_it_comes_from() -> None:
    files = sorted([*ROOT.glob("attacks/*.py"), *ROOT.glob("attacks/search/*.py"), *ROOT.glob("certificates/*.py")])
    assert len(files) > 20
    found = {path.name: list(unexplained(path.read_text(encoding="utf-8"))) for path in files}
    bare = {name: constants for name, constants in found.items() if constants}
    assert bare == {}, "a docstring below or a comment above each says where it comes from"


def test_a_constant_without_a_word_is_noticed() -> None:
    assert list(unexplained("STEPS = 20\n")) == ["STEPS = 20"]
    assert not list(unexplained("# Madry et al. 2018\nSTEPS = 20\n")) and not list(
        unexplained('STEPS = 20\n"""Why."""\n')
    )
