"""Rooms stay small: files that one reads in a sitting, functions that fit a screen."""

import ast
from pathlib import Path

import robustatlas

ROOT = Path(robustatlas.__file__).parent
LINES, BODY = 400, 40


def test_no_file_is_longer_than_one_reads_in_a_sitting() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert not {str(path): lines for path, lines in lengths.items() if lines > LINES}


def test_no_function_is_longer_than_a_screen() -> None:
    bodies = {
        f"{path.relative_to(ROOT)}:{function.name}": _lines(function)
        for path in ROOT.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: lines for name, lines in bodies.items() if lines > BODY}


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of its body, without signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body and function.end_lineno else 0
