"""The script that makes the board: the whole chain, on digits."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import robustatlas as ra
from robustatlas.references import load_reference
from robustatlas.training import RECIPES
from robustatlas.wording import wording

SCRIPT = Path(__file__).parents[1] / "scripts" / "make_board.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_board", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_chain_from_nothing(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every number of the board belongs to a run, every run to a card; a second call finds all there."""
    board = replace(script.SMALL, training=300, epochs=3, test=15)
    script.make(board, tmp_path)
    box = tmp_path / "board"
    names = {"standard", "pgd-linf", "bits-standard"}
    assert {path.name for path in (box / "runs").iterdir()} == names
    assert set(json.loads((box / "about.json").read_text())) == names
    reference = load_reference(box / "reference.json")
    assert reference.name == "digits-digits-cnn"
    for name in ("standard", "pgd-linf"):
        card = json.loads((box / "cards/defenses" / f"{name}.json").read_text())
        result = ra.load_result(box / "runs" / name)
        told = json.loads((box / "runs" / name / "run.json").read_text())
        assert told["model"]["weights_sha256"] == card["weights_sha256"]
        assert result.accuracies().attacks == reference.accuracies.attacks
    assert len(list((box / "cards/reference").iterdir())) == 3
    site = (tmp_path / "site/index.html").read_text()
    assert all(name in site for name in names)
    there = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/weights.safetensors")}
    assert len(there) == 5
    script.make(board, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in there} == there
    assert set(json.loads((box / "times.json").read_text())["seconds"]) == {"train", "reference", "evaluate"}
    assert "board (0." in capsys.readouterr().out


def test_the_board_that_ships_is_as_large_as_promised(script: ModuleType) -> None:
    board = script.FULL
    assert len(board.defenses) + len(board.transformations) >= 14
    assert {defense.recipe for defense in board.defenses.values()} == set(RECIPES)
    assert len(board.attacks) >= 8
    assert min(map(len, board.attacks.values())) >= 10
    assert len({wording(attack).group for attack in board.attacks}) >= 5
    assert set(board.references) == set(board.attacks)
