"""What is public says what it takes, what it gives, what it raises, and shows it: as the code itself asks.

A parameter has its line in ``Args`` (a field of a class in ``Args`` or ``Attributes``), a function that returns
something has ``Returns``, an error that is raised on purpose has ``Raises``, and everything that can be called has an
example that runs.
"""

import ast
import builtins
import doctest
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

MODULES = (
    "robustatlas",
    "robustatlas.models.classifier",
    "robustatlas.data",
    "robustatlas.evaluation",
    "robustatlas.metrics",
    "robustatlas.outcomes",
    "robustatlas.metrics.references",
    "robustatlas.checks.sanity",
    "robustatlas.training",
)
FRAMEWORKS = ("jax", "tensorflow")
"""Optional packages that are too large for every test environment; ``make zoos`` tests what needs them."""
NEVER_TOLD = ("NotImplementedError", "StopIteration", "KeyboardInterrupt")
"""Raised for programs, and not for people."""


def public() -> dict[str, Any]:
    """Functions and classes by one of the names that they are public under."""
    found: dict[int, tuple[str, Any]] = {}
    for module in map(import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.setdefault(id(thing), (f"{module.__name__}.{name}", thing))
    return dict(found.values())


def methods(kind: type) -> dict[str, FunctionType]:
    """Those of a class that have a docstring of their own, inherited ones among them.

    Example:
        >>> from robustatlas.metrics import Band
        >>> list(methods(Band))
        ['at']
    """
    found = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("robustatlas."):
            plain = {name: getattr(method, "__func__", method) for name, method in vars(base).items()}
            found |= {name: method for name, method in plain.items() if isinstance(method, FunctionType)}
    return {name: method for name, method in found.items() if not name.startswith("_") and method.__doc__}


PUBLIC = public()


def section(thing: Any, title: str) -> str | None:
    """What stands under a heading of a docstring; None where there is no such heading."""
    text = inspect.getdoc(thing) or ""
    match = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)+)", text + "\n", re.MULTILINE)
    return match and match[1]


def told(thing: Any, *titles: str) -> set[str]:
    """The names that have a line of their own under these headings; ``low, high:`` are two."""
    found = set[str]()
    for title in titles:
        text = textwrap.dedent(section(thing, title) or "")
        for names in re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*):", text, re.MULTILINE):
            found |= {name.strip().lstrip("*") for name in names.split(",")}
    return found


def is_protocol(thing: Any) -> bool:
    return bool(getattr(thing, "_is_protocol", False))


def parameters(thing: Any) -> set[str]:
    """What a caller gives: arguments of a function, fields of a dataclass, arguments of a class."""
    if hasattr(thing, "model_fields"):  # of pydantic
        return set(thing.model_fields)
    if is_dataclass(thing):
        return {field.name for field in fields(thing) if field.init and not field.name.startswith("_")}
    if inspect.isclass(thing):
        if is_protocol(thing) or issubclass(thing, BaseException) or not isinstance(thing.__init__, FunctionType):
            return set()
        return set(list(inspect.signature(thing.__init__).parameters)[1:])
    return set(inspect.signature(thing).parameters)


@cache
def parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text("utf-8"))


def definition(file: str, line: int) -> ast.AST:
    """The function that begins, with its decorators, in this line."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.FunctionDef) and min([node, *node.decorator_list], key=_line).lineno == line:
            return node
    raise AssertionError(f"{file}:{line} begins no function")


def _line(node: Any) -> int:
    return int(node.lineno)


def raised(function: Callable[..., Any], seen: set[Any]) -> Iterator[str]:
    """Names of the errors that a function raises itself, by private helpers of its file, and by any ``check_...``."""
    function = inspect.unwrap(function)
    if function in seen or not isinstance(function, FunctionType) or "<string>" in function.__code__.co_filename:
        return  # a dataclass writes its own __init__
    seen.add(function)
    for node in ast.walk(definition(function.__code__.co_filename, function.__code__.co_firstlineno)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = getattr(node.exc.func, "id", "")
            kind = function.__globals__.get(name, getattr(builtins, name, None))
            if inspect.isclass(kind) and issubclass(kind, Exception):
                yield name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = function.__globals__.get(node.func.id)
            if isinstance(called, FunctionType):
                own = called.__module__ == function.__module__ and called.__name__.startswith("_")
                if own or called.__name__.lstrip("_").startswith("check_"):
                    yield from raised(called, seen)


def errors(thing: Any) -> set[str]:
    made = ("__init__", "__post_init__") if inspect.isclass(thing) else ()
    functions = [vars(thing)[name] for name in made if name in vars(thing)] if made else [thing]
    seen = set[Any]()
    return {name for function in functions for name in raised(function, seen)} - set(NEVER_TOLD)


def gives(thing: Any) -> bool:
    if not inspect.isfunction(thing):
        return False
    annotation = inspect.signature(thing).return_annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.removeprefix("collections.abc.")
    return text not in ("None", "NoReturn") and not text.startswith(("Iterator[None]", "Generator[None"))


def shown(thing: Any) -> bool:
    """Whether an example runs; one that imports another framework may be left out where tests run without it."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    if examples and re.match(rf"import ({'|'.join(FRAMEWORKS)})\b", examples[0].source):
        return True
    return any(doctest.SKIP not in example.options for example in examples)


each = pytest.mark.parametrize("name", sorted(PUBLIC))


@each
def test_every_argument_is_told(name: str) -> None:
    thing = PUBLIC[name]
    missing = parameters(thing) - told(thing, "Args", "Attributes")
    assert not missing, f"{name}: no line on {', '.join(sorted(missing))}"


@each
def test_no_argument_is_told_that_there_is_not(name: str) -> None:
    thing = PUBLIC[name]
    if not inspect.isclass(thing):
        assert told(thing, "Args") <= parameters(thing)


@each
def test_what_comes_back_is_told(name: str) -> None:
    thing = PUBLIC[name]
    assert not gives(thing) or section(thing, "Returns"), f"{name}: no Returns"


@each
def test_every_error_is_told(name: str) -> None:
    thing = PUBLIC[name]
    missing = errors(thing) - told(thing, "Raises")
    assert not missing, f"{name}: Raises says nothing of {', '.join(sorted(missing))}"


@each
def test_every_error_of_a_method_is_told(name: str) -> None:
    missing = {}
    for method, function in methods(PUBLIC[name]).items() if inspect.isclass(PUBLIC[name]) else ():
        if untold := errors(function) - told(function, "Raises"):
            missing[method] = untold
    assert not missing, f"{name}: Raises says nothing of {missing}"


@each
def test_everything_is_shown(name: str) -> None:
    assert shown(PUBLIC[name]), f"{name}: no example that runs"


def _halved(number: float, places: int = 2) -> float:
    """Half of it.

    Args:
        number: to halve.
    """
    if number < 0:
        _refuse(number)
    return round(number / 2, places)


def _refuse(number: float) -> None:
    raise ValueError(number)


def test_the_rules_see_what_is_missing() -> None:
    assert parameters(_halved) - told(_halved, "Args") == {"places"}
    assert gives(_halved) and section(_halved, "Returns") is None
    assert errors(_halved) == {"ValueError"} and not told(_halved, "Raises")
    assert not shown(_halved) and shown(methods)
