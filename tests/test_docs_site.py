"""The check of a built site, on small sites: what is missing on a page is a fault."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import robustatlas as ra
from robustatlas import training
from robustatlas.cli import app

ROOT = Path(__file__).parents[1]

SOURCE = """---
file_format: mystnb
---

```{code-cell} ipython3
:tags: [remove-cell]

import matplotlib.pyplot as plt
```

```{code-cell} ipython3
print("plot")
```

```{code-cell} ipython3
:tags: [hide-input]

curve.plot();
```
"""
PRINTED = '<div class="cell docutils container"><div class="cell_output"><pre tabindex="0">plot</pre></div></div>'
CURVE = (
    '<div class="cell docutils container"><div class="cell_input"><div><pre tabindex="0">curve.plot()</pre></div></div>'
)
DRAWN = f'{CURVE}<div class="cell_output"><div><img alt="_images/1.png" src="#"/></div></div></div>'
TOLD = f'{CURVE}<div class="cell_output"><div><pre tabindex="0">Axes</pre></div></div></div><img alt="" src="#"/>'


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    return import_module("check_site")


@pytest.mark.parametrize(
    ("page", "faults"),
    [
        (PRINTED + DRAWN, []),
        (PRINTED + TOLD, ["curve.html: cell 2 draws, and no picture is on the page"]),
        (PRINTED + CURVE + "</div>", ["curve.html: cell 2 draws, and no picture is on the page"]),
        (DRAWN, ["curve.html: 2 cells in its source, 1 on the page"]),
    ],
)
def test_a_cell_that_draws_needs_a_picture(checks: Any, tmp_path: Path, page: str, faults: list[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "docs" / "curve.md").write_text(SOURCE)
    (tmp_path / "site" / "curve.html").write_text(page)
    assert checks.pictureless(tmp_path / "site", tmp_path / "docs") == faults


def test_the_notebooks_draw(checks: Any) -> None:
    """Seen in their sources: these are the cells whose pictures a build must show."""
    notebooks = ROOT / "docs" / "notebooks"
    drawing = [page.stem for page in notebooks.glob("*.md") if any(checks.drawing_cells(page.read_text("utf-8")))]
    assert sorted(drawing) == ["first_curve", "own_threat", "two_models"]


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
    assert {thing.__name__ for thing in public} - {name.rpartition(".")[2] for name in named} == set()


def test_the_command_line_reference_has_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    written = import_module("commands").reference()

    for names, command in import_module("commands").every_command(get_command(app)):
        begin = written.index(f":::{{program}} robustatlas {' '.join(names)}\n")
        part = written[begin : written.find("\n## ", begin)]
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert re.search(rf"^::::\{{option\}} .*{parameter.opts[-1]}\b", part, re.MULTILINE), parameter.opts
            assert parameter.help in part


def test_every_heading_is_smaller_than_the_one_above_it() -> None:
    """On wide screens, and on narrow ones, where some sizes are others."""
    style = (ROOT / "docs" / "_static" / "site.css").read_text("utf-8")
    wide, narrow = ({name: float(size) for name, size in re.findall(r"--ra-(h\d): ([\d.]+)rem", rule)} for rule in
                    re.findall(r"article \{ (--ra-h1[^}]*)\}", style))  # fmt: skip
    for sizes in (wide, wide | narrow):
        assert sorted(sizes, key=sizes.__getitem__, reverse=True) == ["h1", "h2", "h3", "h4"]
        assert len(set(sizes.values())) == 4
    assert all(f"article {name} {{ font-size: var(--ra-{name});" in style for name in wide)
