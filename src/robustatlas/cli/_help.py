"""The help of every command: what it takes, by subject, and examples that can be copied."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from robustatlas.cli._words import settled
from robustatlas.common.files import named


class HelpPanel(str):
    """A panel of help; what it makes stands there."""

    def option(self, metavar: str, about: str, *names: str, **settings: Any) -> Any:
        """An option with a value that help calls ``metavar``; ``names``: where the parameter's own is not meant."""
        return typer.Option(*names, metavar=metavar, help=about, rich_help_panel=self, **settings)

    def flag(self, name: str, about: str, *names: str, **settings: Any) -> Any:
        """An option without a value."""
        return typer.Option(name, *names, help=about, rich_help_panel=self, **settings)


MODEL = HelpPanel("Model")
DATA = HelpPanel("Data")
ATTACKS = HelpPanel("Attacks")
TRAINING = HelpPanel("Training")
REFERENCE = HelpPanel("Reference")
OUTPUT = HelpPanel("Output")
COMPUTE = HelpPanel("Compute")
DISTRIBUTED = HelpPanel("Distributed")

ARGUMENTS = "Arguments"
GENERAL = HelpPanel("Options")
SUBJECTS = (ARGUMENTS, MODEL, DATA, ATTACKS, TRAINING, REFERENCE, OUTPUT, COMPUTE, DISTRIBUTED, GENERAL)
"""Panels in the order that help has them; each option is made by its own."""

MEASURE = "Measure"
LOOK = "Look at results"
TRAIN = "Train and calibrate"

CALL = "robustatlas "
"""How an example begins."""

ALL = "--help-all"
"""Shows every option, where ``--help`` shows those that most people use."""

USUAL = {
    "evaluate": (
        "--weights", "--mean", "--std", "--data", "--samples", "--attacks", "--strengths", "--effort", "--run",
        "--dry-run", "--batch-size", "--workers",
    ),
    "certify": (
        "--weights", "--mean", "--std", "--data", "--samples", "--attacks", "--method", "--effort", "--run",
        "--dry-run", "--workers",
    ),
    "field": (
        "--data", "--samples", "--attacks", "--exclude", "--strengths", "--protocol", "--effort", "--dry-run",
        "--workers", "--device",
    ),
    "train": (
        "--data", "--out", "--recipe", "--against", "--preset", "--epochs", "--set", "--seed", "--seeds", "--device",
        "--recipes", "--presets",
    ),
    "reference": (
        "--data", "--strengths", "--out", "--recipe", "--epochs", "--steps", "--seeds", "--samples", "--device",
        "--workers",
    ),
}  # fmt: skip
"""Of commands with many options, those that most people use, in the order of help."""

_WIDEST = 100
_NARROW = 72
"""In fewer columns than this, what an option does stands below its name instead of beside it."""


@dataclass(frozen=True)
class HelpEntry:
    """An argument, an option or a command as help shows it."""

    name: str
    about: str
    value: str = ""
    required: bool = False
    default: str = ""

    @property
    def written(self) -> str:
        """As it is typed: ``MODEL``, ``--data NAME``, ``-v, --verbose``."""
        return f"{self.name} {self.value}".strip()


def parameters_of(command: Any, context: Any = None) -> dict[str, list[HelpEntry]]:
    """What a command takes, by subject.

    Args:
        command: as ``typer.main.get_command`` makes it.
        context: of its call; without it, ``--help`` itself is left out.
    """
    found: dict[str, list[HelpEntry]] = {}
    for parameter in command.params if context is None else command.get_params(context):
        if not getattr(parameter, "hidden", False):
            subject = ARGUMENTS if _is_argument(parameter) else getattr(parameter, "rich_help_panel", None) or GENERAL
            found.setdefault(subject, []).append(_entry(parameter))
    return dict(sorted(found.items(), key=lambda item: SUBJECTS.index(item[0])))


def commands_of(group: Any) -> dict[str, list[HelpEntry]]:
    """The commands of a group by their panels, each with its first paragraph."""
    found: dict[str, list[HelpEntry]] = {}
    for name, command in group.commands.items():
        first = next(text for is_code, text in paragraphs(command.help or "") if not is_code)
        found.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append(HelpEntry(name, first))
    return found


def usage_of(command: Any) -> list[str]:
    """What follows a command's name: its arguments, the options that it needs, and that there are others.

    Example:
        >>> from typer.main import get_command
        >>> from robustatlas.cli import app
        >>> usage_of(get_command(app).commands["evaluate"])
        ['MODEL', '--data NAME', '[OPTIONS]']
    """
    needed = sorted((p for p in command.params if p.required or _is_argument(p)), key=_is_argument, reverse=True)
    pieces = [_entry(parameter).written.split(", ")[-1] for parameter in needed]
    return [*pieces, "[OPTIONS]"] if len(needed) < len(command.params) else pieces


def paragraphs(text: str) -> Iterator[tuple[bool, str]]:
    """The paragraphs of a help text; whether each is code (indented by four, or a call), and its text in one line.

    Example:
        >>> list(paragraphs("Measure\\nit.\\n\\n    robustatlas show runs/a"))
        [(False, 'Measure it.'), (True, 'robustatlas show runs/a')]
    """
    for paragraph in re.split(r"\n\s*\n", textwrap.dedent(text).strip("\n")):
        if paragraph.strip():
            yield paragraph.startswith(("    ", CALL)), " ".join(paragraph.split())


def continued(command: str, width: int) -> list[str]:
    """A command in lines that a shell joins again; an option stays beside its value.

    Example:
        >>> print(*continued("robustatlas evaluate net.py:make --data cifar10 --samples 100", 40), sep="\\n")
        robustatlas evaluate net.py:make \\
            --data cifar10 --samples 100
    """
    bound = re.sub(r"( --?[a-z-]+) (?!-)", "\\1\0", command)
    lines = textwrap.wrap(
        bound, width - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )  # two columns for the sign that the line goes on
    return [line.replace("\0", " ") + " \\" * (line is not lines[-1]) for line in lines]


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ALL in args and not ctx.resilient_parsing:
            _print_help(self, ctx)
            ctx.exit()
        left = super().parse_args(ctx, settled(self.params, args))
        ctx.params = {name: _named(value) for name, value in ctx.params.items()}
        return left

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return usage_of(self)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _print_help(self, ctx, USUAL.get(self.name or ""))


class Group(TyperGroup):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["COMMAND", "..."]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _print_help(self, ctx)


def _named(value: Any) -> Any:
    """Paths as they are meant, whatever an option takes beside them."""
    if isinstance(value, list):
        return [_named(each) for each in value]
    return named(value) if isinstance(value, Path) else value


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _entry(parameter: Any) -> HelpEntry:
    default = parameter.default
    hidden = default is None or callable(default) or getattr(parameter, "show_default", True) is False
    given = "" if hidden else str(default)
    if _is_argument(parameter):
        name = parameter.metavar or parameter.name.upper()
        name = (name if parameter.required else f"[{name}]") + "..." * (parameter.nargs != 1)
        return HelpEntry(name, parameter.help or "", default=given)
    names = ", ".join(sorted((*parameter.opts, *parameter.secondary_opts), key=len))
    if parameter.is_flag:
        return HelpEntry(names, parameter.help or "")
    return HelpEntry(names, parameter.help or "", parameter.metavar or "TEXT", parameter.required, given)


def _print_help(command: Any, context: Any, usual: Sequence[str] | None = None) -> None:
    """All that help says; with ``usual``, what the command does, one example, and these options in short."""
    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    usage = " ".join((*_called(context), *command.collect_usage_pieces(context)))
    console.print(Padding(Text.assemble(("Usage: ", "bold"), usage), 1))
    said = list(paragraphs(command.help or ""))
    for is_code, text in _up_to_an_example(said) if usual else said:
        lines = continued(text, console.width - 6) if is_code else []
        shown = Text("\n".join(lines), style="cyan") if is_code else _prose(text)
        console.print(Padding(shown, (0, 1, 1, 5 if is_code else 1)))
    if usual:
        _print_panels(console, _in_short(parameters_of(command), usual))
        console.print(
            Text.assemble("Every option, and more examples: ", (f"{' '.join(_called(context))} {ALL}", "cyan"))
        )
    elif isinstance(command, TyperGroup):
        _print_panels(console, commands_of(command))
        _print_panels(console, parameters_of(command, context))
    else:
        _print_panels(console, parameters_of(command))


def _up_to_an_example(said: Sequence[tuple[bool, str]]) -> Sequence[tuple[bool, str]]:
    """The paragraphs of a help text up to the end of its first example."""
    codes = [is_code for is_code, _ in said]
    begun = codes.index(True) if True in codes else len(said)
    return said[: next((place for place in range(begun, len(said)) if not codes[place]), len(said))]


def _in_short(panels: dict[str, list[HelpEntry]], usual: Sequence[str]) -> dict[str, list[HelpEntry]]:
    """The arguments, and the ``usual`` options by one sentence each."""
    every = {name: entry for entries in panels.values() for entry in entries for name in entry.name.split(", ")}
    chosen = [replace(every[name], about=every[name].about.split(". ")[0].rstrip(".") + ".") for name in usual]
    return {ARGUMENTS: panels.get(ARGUMENTS, []), "Options that most people use": chosen}


def _called(context: Any) -> list[str]:
    """The words that call a command, however this process was started."""
    return ["robustatlas"] if context.parent is None else [*_called(context.parent), context.info_name]


def _print_panels(console: Console, panels: dict[str, list[HelpEntry]]) -> None:
    longest = max((len(entry.written) for entries in panels.values() for entry in entries), default=0)
    for title, entries in panels.items():
        rows = _below(entries) if console.width < _NARROW else _beside(entries, longest)
        console.print(Panel(rows, title=title, title_align="left", border_style="dim"))


def _beside(entries: Sequence[HelpEntry], longest: int) -> RenderableType:
    rows = Table.grid(padding=(0, 2), expand=True)
    rows.add_column(width=longest, no_wrap=True)
    rows.add_column(ratio=1)
    for entry in entries:
        rows.add_row(_name(entry), _about(entry))
    return rows


def _below(entries: Sequence[HelpEntry]) -> RenderableType:
    rows = Table.grid()
    for entry in entries:
        rows.add_row(_name(entry))
        rows.add_row(Padding(_about(entry), (0, 0, 0, 4)))
    return rows


def _name(entry: HelpEntry) -> Text:
    return Text.assemble((entry.name, "bold cyan"), " " * bool(entry.value), (entry.value, "yellow"))


def _about(entry: HelpEntry) -> Text:
    about = _prose(entry.about)
    if entry.required:
        about.append(" [required]", "red")
    if entry.default:
        about.append(f" [default: {entry.default}]", "dim")
    return about


def _prose(text: str) -> Text:
    """Text in which backticks mark code."""
    parts = text.split("`")
    return Text.assemble(*((part, "cyan" if position % 2 else "") for position, part in enumerate(parts)))
