"""A Sphinx extension: the reference of the command line, written from the commands themselves.

A page that holds the line ``<!-- every command -->`` has there a part for each command: what it does, examples, and
its arguments and options by subject, as ``robustatlas COMMAND --help`` says them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from robustatlas.cli import app as program
from robustatlas.cli._help import HelpEntry, commands_of, continued, paragraphs, parameters_of, usage_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WIDTH = 84
PLACE = "<!-- every command -->"


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
    parts[0] += "".join(
        f"\n| [`{' '.join(names)}`](#command-{'-'.join(names)}) | {_first(one)} |" for names, one in found
    )
    parts += [_part(names, one) for names, one in found]
    return "\n\n".join(parts)


def _first(command: Any) -> str:
    return next(text for is_code, text in paragraphs(command.help) if not is_code)


def _part(names: tuple[str, ...], command: Any) -> str:
    called = f"robustatlas {' '.join(names)}"
    lines = [f"(command-{'-'.join(names)})=\n## {' '.join(names)}", f":::{{program}} {called}\n:::"]
    lines.append(f"```text\n{called} {' '.join(usage_of(command))}\n```")
    for is_code, text in paragraphs(command.help):
        lines.append(_example(text) if is_code else text)
    for subject, entries in parameters_of(command).items():
        lines.append(f"**{subject}**")
        lines += [_entry(entry) for entry in entries]
    return "\n\n".join(lines)


def _example(text: str) -> str:
    return "\n".join(["```console", *("$ " * (not k) + line for k, line in enumerate(continued(text, WIDTH))), "```"])


def _entry(entry: HelpEntry) -> str:
    ends = [" Required." * entry.required, f" Default: `{entry.default}`." if entry.default else ""]
    about = entry.about + "".join(ends)
    if not entry.name.startswith("-"):
        return f"`{entry.name}`\n: {about}"
    names = ", ".join(f"{name} {entry.value}".strip() for name in entry.name.split(", "))
    return f"::::{{option}} {names}\n{about}\n::::"


def write(app: Sphinx, page: str, source: list[str]) -> None:
    if PLACE in source[0]:
        source[0] = source[0].replace(PLACE, reference())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
