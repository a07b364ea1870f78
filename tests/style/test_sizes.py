"""Files and functions stay short enough to be read as one subject."""

import ast
from pathlib import Path

import robustatlas

ROOT = Path(robustatlas.__file__).parent
LINES, BODY = 600, 60


def test_no_file_is_too_long() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert not {str(path): lines for path, lines in lengths.items() if lines > LINES}


def test_no_function_is_too_long() -> None:
    bodies = {
        f"{path.relative_to(ROOT)}:{function.name}": count_lines(function)
        for path in ROOT.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: lines for name, lines in bodies.items() if lines > BODY}


def count_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of the body, without signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body and function.end_lineno else 0
