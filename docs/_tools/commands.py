"""The reference of the command line, written from the commands themselves.

A part for each command: what it does, examples, and its arguments and options by subject, as ``robustatlas COMMAND --help``
says them.
"""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from robustatlas.cli import app as program
from robustatlas.cli._help import HelpEntry, commands_of, continued, paragraphs, parameters_of, usage_of

WIDTH = 84


def every_command(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands that do something, with the words that call them, in the order of help."""
    for entries in commands_of(command).values():
        for entry in entries:
            inner = command.commands[entry.name]
            if hasattr(inner, "commands"):
                yield from every_command(inner, *names, entry.name)
            else:
                yield (*names, entry.name), inner


def reference() -> str:
    """All of it, as Markdown."""
    whole = get_command(program)
    found = list(every_command(whole))
    parts = ["| command | |\n| --- | --- |"]
    parts[0] += "".join(f"\n| [`{' '.join(names)}`](#{'-'.join(names)}) | {_first(one)} |" for names, one in found)
    parts += [_part(names, one) for names, one in found]
    return "\n\n".join(parts)


def _first(command: Any) -> str:
    return next(text for is_code, text in paragraphs(command.help) if not is_code)


def _part(names: tuple[str, ...], command: Any) -> str:
    called = f"robustatlas {' '.join(names)}"
    lines = [f"## {' '.join(names)}"]
    lines.append(f"```text\n{called} {' '.join(usage_of(command))}\n```")
    for is_code, text in paragraphs(command.help):
        lines.append(_example(text) if is_code else text)
    for subject, entries in parameters_of(command).items():
        lines.append(f"**{subject}**")
        lines.append("\n".join(map(_entry, entries)))
    return "\n\n".join(lines)


def _example(text: str) -> str:
    return "\n".join(["```console", *("$ " * (not k) + line for k, line in enumerate(continued(text, WIDTH))), "```"])


def _entry(entry: HelpEntry) -> str:
    ends = [" Required." * entry.required, f" Default: `{entry.default}`." if entry.default else ""]
    names = ", ".join(f"`{f'{name} {entry.value}'.strip()}`" for name in entry.name.split(", "))
    shown = names if entry.name.startswith("-") else f"`{entry.name}`"
    return f"- {shown}: {entry.about}{''.join(ends)}"
