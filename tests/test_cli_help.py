"""Help and arguments of every command: narrow terminals, examples to copy, lists, and what is refused."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from command_line import entered, list_commands
from robustatlas.cli import app

COMMANDS = list(list_commands(get_command(app)))


def each_command() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("names", "command"), COMMANDS, ids=[" ".join(names) for names, _ in COMMANDS])


def examples(command: Any) -> list[str]:
    """Return the lines of all examples in the help of a command."""
    blocks = re.findall(r"^```bash\n(.*?)^```", command.help, re.DOTALL | re.MULTILINE)
    return "".join(blocks).splitlines()


@pytest.mark.parametrize("columns", [60, 80, 100])
@each_command()
def test_help_is_whole_at_every_width(names: tuple[str, ...], command: Any, columns: int) -> None:
    shown = entered(*names, "--help", columns=columns).out
    has_more = any(getattr(parameter, "hidden", False) for parameter in command.params)
    full = entered(*names, "--help-all", columns=columns).out if has_more else shown
    for text in (shown, full):
        assert max(map(len, text.splitlines())) <= columns and "…" not in text
        assert all(line in text for line in examples(command))
    for parameter in command.params:
        written = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        assert f" {written} " in full
        assert getattr(parameter, "hidden", False) or f" {written} " in shown


@each_command()
def test_examples_are_taken(names: tuple[str, ...], command: Any) -> None:
    lines = "\n".join(examples(command)).replace(" \\\n", " ").splitlines()
    assert any(line.startswith(f"robustatlas {' '.join(names)}") for line in lines)
    for line in lines:
        words = shlex.split(line)[1:]
        inner: Any = get_command(app)
        while hasattr(inner, "commands"):
            inner, words = inner.commands[words[0]], words[1:]
        inner.make_context("robustatlas", list(words))


def test_help_of_a_terminal_without_colours_or_unicode() -> None:
    environment = os.environ | {"COLUMNS": "70", "NO_COLOR": "1", "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    command = [sys.executable, "-c", "from robustatlas.cli import main; main()", "evaluate", "--help"]
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment, check=True)
    assert done.stdout.isascii() and b"\x1b" not in done.stdout and b"--help-all" in done.stdout


@each_command()
def test_options_of_several_names_may_be_repeated(names: tuple[str, ...], command: Any) -> None:
    for parameter in command.params:
        if parameter.metavar in ("NAMES", "NAME=STRENGTH", "NAME@STRENGTH", "NAME=VALUE", "NAME=VALUES"):
            assert parameter.multiple, parameter.opts


def test_each_name_of_a_repeated_option_counts(tmp_path: Path) -> None:
    typed = "evaluate builtin:digits-linf --data digits --attacks linf --samples 2 --attacks l2 --dry-run --run"
    said = entered(*typed.split(), tmp_path / "run").out
    assert " linf " in said and " l2 " in said


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("evaluate net.py:f --data digits --data cifar10", "--data"),
        ("evaluate net.py:f --data digits --samples 10 --samples=100", "--samples"),
        ("card runs/a -o a.svg --output b.svg", "--output"),
        ("evaluate net.py:f --data digits --attacks linf l2", "l2"),
        ("certify net.py:f --data digits --attacks=linf, l2", "l2"),
        ("train mlp --data digits --out net --against linf=0.1 l2=1/2", "l2=1/2"),
        ("show runs/a --union linf=0.1 l2=1/2", "l2=1/2"),
        ("evaluate net.py:f --data digits --nothing", "--nothing"),
        ("evaluate net.py:f --data", "--data"),
        ("evaluate net.py:f", "--data"),
        ("evaluate net.py:f --data digits --samples few", "--samples"),
        ("nothing", "nothing"),
    ],
)
def test_what_would_be_lost_or_guessed_is_refused(typed: str, named: str) -> None:
    said = entered(*typed.split(), code=2)
    assert named in said.line and "Traceback" not in said.err


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
