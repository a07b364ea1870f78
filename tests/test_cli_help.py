"""Help as a reader meets it: narrow and wide terminals, terminals without colours or Unicode, and examples to copy."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from command_line import entered
from robustatlas.cli import app
from robustatlas.cli._help import ALL, SUBJECTS, USUAL, parameters_of


def commands(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield names, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *names, name)


EVERY = list(commands(get_command(app)))
LEAVES = [(names, command) for names, command in EVERY if not hasattr(command, "commands")]


def each_of(chosen: list[tuple[tuple[str, ...], Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("names", "command"), chosen, ids=[" ".join(names) or "-" for names, _ in chosen])


def help_of(*names: str, columns: int) -> str:
    return entered(*names, ALL if names[-1:] and names[-1] in USUAL else "--help", columns=columns).out


@pytest.mark.parametrize("columns", [60, 80, 120])
@each_of(EVERY)
def test_help_is_whole_at_every_width(names: tuple[str, ...], command: Any, columns: int) -> None:
    """No line is too long, nothing is cut off, and no option says the type that a program gives it."""
    shown = help_of(*names, columns=columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in shown and not re.search(r"<\w+>", shown)
    for entries in parameters_of(command).values():
        for entry in entries:
            assert f" {entry.written} " in shown
            assert entry.about[:12].split("`")[0] in shown
    assert f"Usage: robustatlas {' '.join(names)}".strip() in shown


@pytest.mark.parametrize("name", USUAL)
def test_the_help_of_many_options_is_one_screen(name: str) -> None:
    shown = entered(name, "--help").out
    assert len(shown.splitlines()) <= 55 and max(map(len, shown.splitlines())) <= 80
    assert len(USUAL[name]) <= 12 and all(f" {option} " in shown for option in USUAL[name])
    assert f"robustatlas {name} {ALL}" in shown
    assert len(get_command(app).commands[name].params) > 20  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("names", "command"), LEAVES, ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_every_option_stands_with_its_subject(names: tuple[str, ...], command: Any) -> None:
    for parameter in command.params:
        if parameter.param_type_name == "option":
            subject = getattr(parameter, "rich_help_panel", None)
            assert subject in SUBJECTS, (
                f"{' '.join(names)} {parameter.opts[-1]}: make it by a HelpPanel of cli/_help.py"
            )


@each_of(EVERY)
def test_every_sentence_stands_alone(names: tuple[str, ...], command: Any) -> None:
    """What an option does is said without the option above it, in a sentence that has an end."""
    for parameter in command.params:
        said = parameter.help or ""
        where = f"{' '.join(names)} {parameter.opts[-1]}: {said!r}"
        assert said, where
        assert not re.match(r"(Likewise|As |Of |Their |Such |Where |Or )", said), where
        assert said.endswith("."), where


def examples(text: str) -> list[str]:
    """What follows a ``$``-less command line of a help text, joined as a shell joins it."""
    joined = text.replace(" \\\n", " ")
    return [line.strip() for line in joined.splitlines() if re.match(r" {5}robustatlas ", line)]


@pytest.mark.parametrize("columns", [60, 80])
def test_examples_can_be_copied(columns: int) -> None:
    """Broken where the terminal ends, they are still commands that the program takes."""
    found = 0
    for names, command in LEAVES:
        shown = help_of(*names, columns=columns)
        shown = "\n".join(line.rstrip() for line in shown.splitlines())
        for line in examples(shown):
            words = shlex.split(line)[1:]
            inner: Any = get_command(app)
            while hasattr(inner, "commands"):
                inner, words = inner.commands[words[0]], words[1:]
            inner.make_context("robustatlas", list(words))
            found += 1
        assert "robustatlas" not in (command.help or "") or examples(shown), names
    assert found > 15


def test_help_of_a_terminal_without_colours_or_unicode() -> None:
    environment = os.environ | {"COLUMNS": "70", "NO_COLOR": "1", "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    command = [sys.executable, "-c", "from robustatlas.cli import main; main()", "evaluate", "--help"]
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment, check=True)
    assert done.stdout.isascii() and b"\x1b" not in done.stdout and b"--help-all" in done.stdout
    assert b"--attacks NAMES" in done.stdout


def test_the_attacks_are_grouped_by_family() -> None:
    shown = f"\n{entered('attacks').out}"
    families = {
        "Norms": ["linf", "l0"],
        "Norms, by one published attack": ["pgd-linf", "sigma-zero"],
        "Shape": ["stadv", "affine"],
        "Colour": ["recolor", "hue"],
        "Composed": ["carben"],
        "Common corruptions": ["gaussian-noise"],
        "Suites": ["multirobustbench"],
    }
    places = [shown.index(f"\n{family}\n") for family in families]
    ends = [*places[1:], len(shown)]
    for (family, names), begin, end in zip(families.items(), places, ends, strict=True):
        for name in names:
            assert re.search(rf"(^|[ ,]){name}\b", shown[begin:end], re.MULTILINE), (family, name)
    assert max(map(len, shown.splitlines())) <= 80
