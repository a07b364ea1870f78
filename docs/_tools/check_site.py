"""Follow every link inside a built site; ask whether all that is public is in its API reference, and whether every cell
that draws shows what it drew.

python docs/_tools/check_site.py docs/_build/html
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import robustatlas as ra
from robustatlas import training
from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.search import SEARCHES

SOURCES = Path(__file__).parents[1]
RESERVED = ("genindex", "py-modindex", "search")


CELL = re.compile(r"^```\{code-cell\}.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TAGS = re.compile(r"^:tags: \[(.*)\]$", re.MULTILINE)
DRAWS = re.compile(r"plot\w*|subplots|imshow")
"""What a function is called that draws."""


class Page(HTMLParser):
    """Links and anchors of a page, what says nothing to those who do not see it or have no mouse, and the cells of a
    notebook: whether each one's output holds a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.mute = 0
        self.unreached: set[str] = set()
        self.cells: list[bool] = []
        self.inside: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "div":
            self.inside.append((values.get("class") or "").split())
            self.cells += [False] * ("cell" in self.inside[-1])
        if tag in ("img", "svg") and any("cell_output" in classes for classes in self.inside):
            self.cells[-1] = True
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        for key in ("href", "src", "srcset"):
            if value := values.get(key):
                self.links.add(value)
        self.mute += tag == "img" and values.get("alt") is None
        if tag == "pre" and "tabindex" not in values:
            self.unreached.add("code that scrolls and that the keyboard does not reach")
        if values.get("role") == "heading" and "aria-level" not in values:
            self.unreached.add("a heading without its level")

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self.inside:
            self.inside.pop()


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_links(site: Path) -> list[str]:
    pages = {path.resolve(): read(path) for path in site.rglob("*.html")}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                wrong.append(f"{path.relative_to(site.resolve())}: {link} leads nowhere")
        if page.mute:
            wrong.append(f"{path.relative_to(site.resolve())}: {page.mute} images without alternative text")
        wrong += [f"{path.relative_to(site.resolve())}: {what}" for what in page.unreached]
    return sorted(wrong)


def overwritten(sources: Path) -> list[str]:
    """Pages that Sphinx replaces by its own of the same name."""
    return [f"{name}.md: Sphinx has a page of that name" for name in RESERVED if (sources / f"{name}.md").exists()]


def drawing_cells(source: str) -> list[bool]:
    """Of the cells that a page's source shows: whether each one draws."""
    shown = []
    for cell in CELL.findall(source):
        tags = {tag.strip() for found in TAGS.findall(cell) for tag in found.split(",")}
        if "remove-cell" not in tags and not {"remove-input", "remove-output"} <= tags:
            calls = [node.func for node in ast.walk(ast.parse(TAGS.sub("", cell))) if isinstance(node, ast.Call)]
            names = [getattr(call, "attr", getattr(call, "id", "")) for call in calls]
            shown.append("remove-output" not in tags and any(DRAWS.fullmatch(name) for name in names))
    return shown


def pictureless(site: Path, sources: Path) -> list[str]:
    """Cells that draw, and whose page does not show it."""
    wrong = []
    for source in sorted(sources.rglob("*.md")):
        page = site / source.relative_to(sources).with_suffix(".html")
        drawn = drawing_cells(source.read_text(encoding="utf-8"))
        if not page.exists() or not any(drawn):
            continue
        cells = read(page).cells
        name = page.relative_to(site)
        if len(cells) != len(drawn):
            wrong.append(f"{name}: {len(drawn)} cells in its source, {len(cells)} on the page")
        for number, (draws, pictured) in enumerate(zip(drawn, cells, strict=False), 1):
            if draws and not pictured:
                wrong.append(f"{name}: cell {number} draws, and no picture is on the page")
    return wrong


def public() -> set[str]:
    """Names that the API reference must have."""
    names = {f"robustatlas.{name}" for name in ra.__all__ if name not in ("callbacks", "metrics", "__version__")}
    names |= {f"robustatlas.callbacks.{name}" for name in ra.callbacks.__all__}
    names |= {f"robustatlas.metrics.{name}" for name in ra.metrics.__all__}
    names |= {f"robustatlas.training.{name}" for name in training.__all__}
    kinds = {type(stage.optimizer) for attack in catalogue().values() for stage in attack.stages}
    kinds |= {type(attack.threat) for procedure in ("default", "paper") for attack in catalogue(procedure).values()}
    kinds |= {*training.RECIPES.values(), *SEARCHES.values()}
    return names | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if inspect.isclass(kind)}


def undocumented(site: Path) -> list[str]:
    from sphinx.util.inventory import InventoryFile  # here, as tests ask for `public` without Sphinx

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind, objects in inventory.data.items() if kind.startswith("py:") for name in objects}
    return [f"{name} is public and not in the API reference" for name in sorted(public() - known)]


def main(site: Path) -> int:
    wrong = [*broken_links(site), *overwritten(SOURCES), *undocumented(site), *pictureless(site, SOURCES)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 2**20
    print(f"{site}: {len(list(site.rglob('*.html')))} pages, {size:.1f} MiB, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
