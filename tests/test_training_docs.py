"""The Python of docs/training.md runs, and its table names every recipe."""

import re
from pathlib import Path

import pytest

from robustatlas.training import RECIPES

PAGE = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
EXAMPLE, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_the_first_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    text = EXAMPLE.replace("epochs=60", "epochs=2").replace("steps=10", "steps=1")
    text = text.replace('ra.load_dataset("digits"), ["linf", "l2"])', 'ra.load_dataset("digits").take(10), ["linf"])')
    assert "epochs=2" in text
    assert ".take(10)" in text
    exec(text, {})
    assert "'union'" in capsys.readouterr().out


def test_every_recipe_is_in_the_table() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert set(RECIPES) - named == set(), "each has a row in docs/training.md"
