"""The examples of a page run from top to bottom; what they print is written, and what fails is a fault."""

import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS / "_tools"))

import examples  # noqa: E402

PAGE = """# A page

```python
# say.py
print("one\\ntwo\\nthree")
```

```python
known = 7
print("known", known)
```

<!-- prints -->
```text
old
```

<!-- runs: 2 lines -->
```console
$ python say.py
old
```

<!-- runs: silent -->
```console
$ python say.py
```
"""
WRITTEN = PAGE.replace("old\n```\n\n<!-- runs: 2", "known 7\n```\n\n<!-- runs: 2").replace("old", "one\ntwo\n...")


def test_what_is_printed_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert examples.ran(page) == (WRITTEN, [])
    page.write_text(WRITTEN)
    assert examples.ran(page) == (WRITTEN, [])


def test_what_fails_is_a_fault(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("known = 7", "unknown").replace("$ python say.py\n```", "$ robustatlas nothing\n```"))
    _, faults = examples.ran(page)
    assert len(faults) == 2
    assert "NameError: name 'unknown'" in faults[0]
    assert "robustatlas nothing" in faults[1]


def test_an_extra_that_is_absent_is_no_fault() -> None:
    absent = ModuleNotFoundError("No module named 'timm'", name="timm.models")
    assert examples.needs_extra(absent) == "timm.models"
    own = ModuleNotFoundError("No module named 'robustatlas.nothing'", name="robustatlas.nothing")
    assert examples.needs_extra(own) == ""
