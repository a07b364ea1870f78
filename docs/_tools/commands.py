"""Reference of the command line as Markdown, written from Click's commands and parameters."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from robustatlas.cli import app


def list_commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command of a group and of the groups inside it, with its names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, *names, name)
        else:
            yield (*names, name), command


def reference() -> str:
    """Return a table of all commands, and a section for each."""
    commands = list(list_commands(get_command(app)))
    rows = [f"| [`{' '.join(names)}`](#{'-'.join(names)}) | {_summary(command)} |" for names, command in commands]
    table = "\n".join(["| command | |", "| --- | --- |", *rows])
    return "\n\n".join([table, *(_section(names, command) for names, command in commands)])


def _summary(command: Any) -> str:
    return " ".join(command.help.split("\n\n")[0].split())


def _section(names: tuple[str, ...], command: Any) -> str:
    called = " ".join(names)
    context = typer.Context(command, info_name=f"robustatlas {called}")
    usage = context.get_usage().removeprefix("Usage: ")
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if parameter.expose_value:
            panels.setdefault(_panel(parameter), []).append(_entry(parameter))
    listed = [f"**{panel}**\n\n" + "\n".join(entries) for panel, entries in panels.items()]
    return "\n\n".join([f"## {called}", f"```text\n{usage}\n```", command.help, *listed])


def _panel(parameter: Any) -> str:
    return "Arguments" if parameter.param_type_name == "argument" else str(parameter.rich_help_panel)


def _entry(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [parameter.metavar] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    value = "" if is_argument else parameter.metavar
    written = ", ".join(f"`{f'{name} {value}'.strip()}`" for name in names)
    required = " Required." if parameter.required else ""
    has_default = parameter.show_default and parameter.default not in (None, False)
    default = f" Default: `{parameter.default}`." if has_default else ""
    return f"- {written}: {parameter.help}{required}{default}"
