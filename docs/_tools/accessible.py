"""A Sphinx extension: what the theme leaves out of its pages for those who listen to them or have no mouse.

python docs/_tools/accessible.py docs/_build/html
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

CORRECTIONS = (
    (re.compile(r'<p class="caption" role="heading">'), '<p class="caption" role="heading" aria-level="2">'),
    (re.compile(r'<aside class="sidebar-drawer">'), '<aside class="sidebar-drawer" aria-label="All pages">'),
    (re.compile(r'<aside class="toc-drawer'), '<aside aria-label="On this page" class="toc-drawer'),
    # What scrolls inside of itself is reached by the keyboard.
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (re.compile(r'<div class="(table-wrapper[^"]*)">'), r'<div class="\1" tabindex="0">'),
    # Parameters on lines of their own are no list of definitions.
    (re.compile(r'<dl>\n(?=<dd><em class="sig-param">)'), '<dl role="none">\n'),
)


def corrected(text: str) -> str:
    """A page with all that."""
    for found, instead in CORRECTIONS:
        text = found.sub(instead, text)
    return text


def correct_all(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if (better := corrected(text)) != text:
            page.write_text(better, encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        correct_all(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    correct_all(Path(sys.argv[1]))
