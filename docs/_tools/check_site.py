"""Follow every link inside a built site, and ask whether all that is public is in its API reference.

python docs/_tools/check_site.py docs/_build/html
"""

import inspect
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


class Page(HTMLParser):
    """Links and anchors of a page, and what says nothing to those who do not see it or have no mouse."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.mute = 0
        self.unreached: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        for key in ("href", "src", "srcset"):
            if value := values.get(key):
                self.links.add(value)
        self.mute += tag == "img" and values.get("alt") is None
        if tag == "pre" and "tabindex" not in values:
            self.unreached.add("code that scrolls and that the keyboard does not reach")
        if values.get("role") == "heading" and "aria-level" not in values:
            self.unreached.add("a heading without its level")


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


def public() -> set[str]:
    """Names that the API reference must have."""
    names = {f"robustatlas.{name}" for name in ra.__all__ if name not in ("callbacks", "metrics", "__version__")}
    names |= {f"robustatlas.callbacks.{name}" for name in ra.callbacks.__all__}
    names |= {f"robustatlas.metrics.{name}" for name in ra.metrics.__all__}
    names |= {f"robustatlas.training.{name}" for name in training.__all__}
    kinds = {type(run.optimizer) for attack in catalogue().values() for run in attack.runs}
    kinds |= {type(attack.threat) for protocol in ("default", "paper") for attack in catalogue(protocol).values()}
    kinds |= {*training.RECIPES.values(), *SEARCHES.values()}
    return names | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if inspect.isclass(kind)}


def undocumented(site: Path) -> list[str]:
    from sphinx.util.inventory import InventoryFile  # here, as tests ask for `public` without Sphinx

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind, objects in inventory.data.items() if kind.startswith("py:") for name in objects}
    return [f"{name} is public and not in the API reference" for name in sorted(public() - known)]


def main(site: Path) -> int:
    wrong = [*broken_links(site), *overwritten(SOURCES), *undocumented(site)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 2**20
    print(f"{site}: {len(list(site.rglob('*.html')))} pages, {size:.1f} MiB, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
