"""Every option of every command, given twice; and lists with spaces where commas are meant."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import robustatlas as ra
from command_line import entered
from robustatlas.cli import app

LISTS = {
    "evaluate": {"attacks", "exclude", "devices"},
    "field": {"attacks", "exclude"},
    "certify": {"attacks", "devices"},
    "diagnose": {"attacks"},
    "verify": {"attacks"},
    "figure": {"attacks"},
    "gallery": {"attacks"},
    "distances": {"norms"},
    "show": {"trained_on", "union"},
    "compare": {"union"},
    "train": {"against"},
}
"""Options that hold several values with commas between them, by command."""


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name), command


OPTIONS = [
    (" ".join(names), command, option)
    for names, command in commands(get_command(app))
    for option in command.params
    if option.param_type_name == "option" and not option.is_flag
]


def read(command: Any, words: list[str]) -> dict[str, Any]:
    """What a command takes from words; those that it needs may be missing."""
    found: dict[str, Any] = command.make_context("command", words, resilient_parsing=True).params
    return found


@pytest.mark.parametrize(("name", "command", "option"), OPTIONS, ids=lambda value: str(getattr(value, "name", value)))
def test_nothing_that_is_typed_is_passed_over(name: str, command: Any, option: Any) -> None:
    """Given twice, by any of its names and with or without ``=``: lists and what may be repeated are taken whole, and
    all others are refused."""
    numbers = option.metavar in ("N", "PIXELS", "R", "SHARE", "NUMBER", "PERCENT", "POINTS", "STRENGTH")
    one, other = ("1", "1") if numbers else ("a=1", "b=2")
    typed = [option.opts[0], one, f"{option.opts[-1]}={other}" if "--" in option.opts[-1] else option.opts[-1] + other]
    if option.multiple:
        assert read(command, typed)[option.name] == [one, other]
    elif option.name in LISTS.get(name, ()):
        assert read(command, typed)[option.name] == "a=1,b=2"
    else:
        with pytest.raises(ra.UserError, match=f"is given twice, as '{one}' and as '{other}'; give it once"):
            read(command, typed)


@pytest.mark.parametrize(
    "typed",
    [
        "evaluate net.py:f --data digits --attacks linf l2",
        "evaluate net.py:f --data digits --attacks linf, l2",
        "evaluate --attacks linf l2 net.py:f --data digits",
        "evaluate net.py:f --exclude linf l2 l1 --data digits",
        "certify net.py:f --attacks=linf l2",
        "verify runs/a --attacks linf l2",
        "distances digits -n linf l2",
        "compare runs/a runs/b --union linf=0.1 l2=1/2",
        "show runs/a --union linf=0.1 l2=1/2",
        "train mlp --against linf=0.1 l2=1/2 --data digits",
    ],
)
def test_a_list_with_spaces_is_asked_for_with_commas(typed: str) -> None:
    said = entered(*typed.split(), code=1).line
    assert "takes a list with commas and no spaces" in said and "l2" in said


@pytest.mark.parametrize(
    "typed",
    [
        "evaluate --attacks linf,l2 net.py:f",
        "distances -n linf cifar10",
        "verify runs/a --attacks linf examples.npz",
        "compare --union linf=0.1 runs/a runs/b",
        "compare runs/a --union linf=0.1 runs/b",
        "evaluate net.py:f --attacks linf --strengths linf=0.1 --set a=1",
    ],
)
def test_arguments_behind_a_list_stay_what_they_are(typed: str) -> None:
    name, *words = typed.split()
    values = read(get_command(app).commands[name], words).values()  # type: ignore[attr-defined]
    flat = [str(each) for value in values for each in (value if isinstance(value, list) else [value])]
    assert {word for word in words if not word.startswith("-")} <= set(flat)


def test_each_of_two_names_is_run(tmp_path: Path) -> None:
    typed = "evaluate builtin:digits-linf --data digits --attacks linf --samples 2 --attacks l2 --dry-run --run"
    said = entered(*typed.split(), tmp_path / "run").out
    assert " linf " in said and " l2 " in said
