"""The Python of docs/training.md runs, and its table names every recipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import robustatlas as ra
from robustatlas.training import RECIPES, Settings, network_for, train

PAGE = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_the_first_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    text = BLOCKS[0].replace("epochs=60", "epochs=2").replace("steps=10", "steps=1")
    text = text.replace('ra.load_dataset("digits"), ["linf", "l2"])', 'ra.load_dataset("digits").take(10), ["linf"])')
    assert "epochs=2" in text
    assert ".take(10)" in text
    exec(text, {})
    assert "'union'" in capsys.readouterr().out


def test_a_recipe_of_ones_own() -> None:
    scope: dict[str, type] = {"__name__": "robustatlas_example"}
    exec(BLOCKS[1], scope)
    from robustatlas.training import opponents_of

    data = ra.load_dataset("digits", "train").take(60)
    recipe = scope["Half"](against=opponents_of({"linf": 0.1}, steps=1))
    assert train(network_for("digits-cnn", data), data, recipe, settings=Settings(epochs=1)).card.trained_on == {
        "linf": 0.1
    }


def test_every_recipe_is_in_the_table() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert set(RECIPES) <= named
