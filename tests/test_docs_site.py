"""The check of a built site, on small sites: what is missing on a page is a fault."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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
