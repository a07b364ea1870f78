"""The pages as a code host shows them, and what a site needs besides."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

import robustatlas as ra
from robustatlas import training
from robustatlas.cli import app

ROOT = Path(__file__).parents[2]

PLACES = ("README.md", "docs/*.md", "docs/api/cli.md", "docs/research/*.md")
PAGES = [page for place in PLACES for page in sorted(ROOT.glob(place))]
REFERENCES = {"attacks", "changelog", "cite", "glossary", "index", "troubleshooting"}
"""Pages to look something up. All others in `docs` are guides, to be read."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_plain_markdown(page: Path) -> None:
    """No directive, role or substitution that a code host would show as it is."""
    text = re.sub(r"^(```.*)\n(?:.*\n)*?```$|`[^`\n]*`", r"\1", page.read_text("utf-8"), flags=re.MULTILINE)
    assert re.findall(r"^`{3,}\{.*|^:::.*|\{\w+\}`|\{\{.*\}\}|^: .*|^\(.*\)=$|^---$", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """As a code host reads them: to files, and to headings by the words of these."""
    text = re.sub("<!-- site.*?-->", "", page.read_text("utf-8"))
    for place, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), place
        if anchor:
            heads = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}, anchor


def test_pages_are_short_and_few() -> None:
    """25 guides of at most 1,200 words, 8 pages of research, 30,000 words in all but the API reference."""
    words = {page: len(re.findall(r"\S*\w\S*", page.read_text("utf-8"))) for page in PAGES if page.parent.name != "api"}
    guides = {
        page: count for page, count in words.items() if page.parent.name == "docs" and page.stem not in REFERENCES
    }
    assert len(guides) <= 25
    assert {page.stem: count for page, count in guides.items() if count > 1_200} == {}
    assert len([page for page in words if page.parent.name == "research"]) <= 8
    assert sum(words.values()) <= 30_000, "take away as many words as you added, tables that are generated among them"


def test_every_page_is_in_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").glob("*.md")}
    pages |= {f"research/{path.stem}" for path in (ROOT / "docs" / "research").glob("*.md")}
    contents = import_module("plain").contents((ROOT / "docs" / "index.md").read_text("utf-8"))
    assert pages - {"index"} - set(contents.splitlines()) == set(), "each is in docs/index.md"


def test_the_index_names_all_that_is_public() -> None:
    """By topic, each name once."""
    index = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
    named, module = [], ""
    for line in index.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif re.fullmatch(r"   ~?[A-Za-z][\w.]+", line):
            named.append(f"{module}.{line.strip().removeprefix('~')}")
    assert len(named) == len(set(named))
    public = {getattr(ra, name) for name in ra.__all__ if name not in ("callbacks", "metrics", "__version__")}
    public |= {
        getattr(part, name)
        for part in (ra.callbacks, ra.metrics, training)
        for name in part.__all__
        if name != "RECIPES"
    }
    lacking = {thing.__name__ for thing in public} - {name.rpartition(".")[2] for name in named}
    assert lacking == set(), "each is in docs/api/index.md"


def test_the_command_line_reference_has_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    written = (ROOT / "docs" / "api" / "cli.md").read_text("utf-8")

    for names, command in import_module("commands").list_commands(get_command(app)):
        begin = written.index(f"\n## {' '.join(names)}\n")
        part = written[begin : written.find("\n## ", begin + 1)]
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.expose_value:
                assert re.search(rf"^- `.*{parameter.opts[-1]}\b", part, re.MULTILINE), parameter.opts
            assert not parameter.expose_value or parameter.help in part


def test_every_heading_is_smaller_than_the_one_above_it() -> None:
    """On wide screens, and on narrow ones, where some sizes are others."""
    style = (ROOT / "docs" / "_static" / "site.css").read_text("utf-8")
    wide, narrow = ({name: float(size) for name, size in re.findall(r"--ra-(h\d): ([\d.]+)rem", rule)} for rule in
                    re.findall(r"article \{ (--ra-h1[^}]*)\}", style))  # fmt: skip
    for sizes in (wide, wide | narrow):
        assert sorted(sizes, key=sizes.__getitem__, reverse=True) == ["h1", "h2", "h3", "h4"]
        assert len(set(sizes.values())) == 4
    assert all(f"article {name} {{ font-size: var(--ra-{name});" in style for name in wide)
