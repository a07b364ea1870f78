"""A Sphinx extension: pages are plain Markdown, as a code host shows them; what a site needs besides is made here.

- The index lists the pages under headings; each such list is a part of the contents at the side.
- ``<!-- site: ... -->`` is shown on the site alone, where it leads to what only the site has.
- The page of changes is the changelog itself.
- A link to a file that is no page of the site is its text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.MULTILINE)
ENTRY = re.compile(r"^[-|] \[[^\]]+\]\(([\w/-]+)\.md\)", re.MULTILINE)
ONLY_HERE = re.compile(r"<!-- site: (.*?) -->")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)\)")


def contents(index: str) -> str:
    """Return the contents at the side, from the lists of the index."""
    trees = []
    for title, listed in SECTION.findall(index):
        if names := ENTRY.findall(listed):
            trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```"]))
    return "\n\n".join(trees)


def prepare_page(app: Sphinx, page: str, source: list[str]) -> None:
    folder = (Path(app.srcdir) / page).parent

    def text_or_link(link: re.Match[str]) -> str:
        place = (folder / link[2]).resolve()
        inside = place.is_relative_to(app.srcdir)
        known = inside and place.relative_to(app.srcdir).with_suffix("").as_posix() in app.env.found_docs
        return link[0] if known or (place.suffix != ".md" and inside) else link[1]

    if page == "changelog":
        source[0] = (Path(app.srcdir).parent / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    text = LINK.sub(text_or_link, ONLY_HERE.sub(r"\1", source[0]))
    source[0] = f"{text}\n\n{contents(text)}\n" if page == "index" else text


def prose(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In docstrings, bars and stars outside of code are bars and stars: |x| is no substitution, acc* no emphasis."""
    for k, line in enumerate(lines):
        if ">>>" not in line and "..." not in line[:12]:
            parts = line.split("`")
            parts[::2] = [re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in parts[::2]]
            lines[k] = "`".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", prepare_page)
    app.connect("autodoc-process-docstring", prose, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
