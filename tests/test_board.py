"""The script that makes the board: the whole chain, on digits."""

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import cloudpickle
import numpy as np
import pytest
import torch

import robustatlas as ra
from robustatlas.evaluation.workers.travel import packed
from robustatlas.metrics.references import load_reference

SCRIPT = Path(__file__).parents[1] / "scripts" / "make_board.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(SCRIPT.parent))  # as a script has it
    spec = importlib.util.spec_from_file_location("make_board", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_chain_from_nothing(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every number of the board belongs to a run, every run to a card; a second seed goes on from the first. At a
    strength that covers the image the reference is 0, and that entry is left out."""
    attacks, references = {"linf": (0.1, 0.9), "contrast": (0.25, 0.5)}, {"linf": (0.1,), "contrast": (0.5,)}
    board = replace(script.SMALL, training=500, epochs=3, test=15, effort="low", attacks=attacks, references=references)
    script.make(board, tmp_path)
    box = tmp_path / "board"
    names = {"standard-seed0", "pgd-linf-seed0", "bits-standard-seed0"}
    assert {path.name for path in (box / "runs").iterdir()} == names
    assert set(json.loads((box / "about.json").read_text())) == names
    reference = load_reference(box / "reference.json")
    assert reference.name == "digits-digits-cnn"
    for name in ("standard-seed0", "pgd-linf-seed0"):
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
    assert reference.accuracies.at("linf", 0.9) == 0
    assert " ± " not in (box / "table.md").read_text()
    script.make(replace(board, seeds=2), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in there} == there
    rows = [row.split("|") for row in (box / "table.md").read_text().splitlines()[2:]]
    assert len(rows) == 3
    assert all(" ± " in row[3] for row in rows)
    assert "2 replicates" in load_reference(box / "reference.json").notes[-1]
    entries = {"linf": [0.1], "contrast": [0.25, 0.5]}
    ratios = []
    for seed in (0, 1):
        run = ra.load_result(box / f"runs/standard-seed{seed}").accuracies().restrict(list(entries), entries)
        own = load_reference(box / f"reference-seed{seed}.json").accuracies.restrict(list(entries), entries)
        ratios.append(ra.metrics.competitiveness_ratio(run, own))
    assert f" {sum(ratios) / 2:.1f} [" in next(row[3] for row in rows if "`standard`" in row[1])
    assert set(json.loads((box / "times.json").read_text())["seconds"]) == {"train", "reference", "evaluate"}
    assert "board (0." in capsys.readouterr().out
    script.ship(box, tmp_path / "shipped")
    _check_shipped(script, box, tmp_path / "shipped")


def _check_shipped(script: ModuleType, box: Path, shipped: Path) -> None:
    """What is shipped are the same runs, but that margins are coarse."""
    assert not (shipped / "runs").exists()
    assert (shipped / "table.md").read_text() == (box / "table.md").read_text()
    first = (shipped / "runs.tar.xz").read_bytes()
    shutil.unpack_archive(shipped / "runs.tar.xz", shipped, filter="data")
    assert {path.name for path in (shipped / "runs").iterdir()} == {path.name for path in (box / "runs").iterdir()}
    moved = 0.0
    for folder in (box / "runs").iterdir():
        own, sent = ra.load_result(folder), ra.load_result(shipped / "runs" / folder.name)
        assert own.accuracies() == sent.accuracies()
        for attack in own.attacks:
            one, other = own.outcome(attack), sent.outcome(attack)
            assert np.array_equal(own.index, sent.index)
            for name in ("minimal_size", "found_class", "forward", "backward", "fooled"):
                assert np.array_equal(getattr(one, name), getattr(other, name))
            volumes = [ra.metrics.adversarial_hypervolume(each.margins).per_sample for each in (one, other)]
            moved = max(moved, float(np.abs(np.subtract(*volumes)).max()))
    assert 0 < moved <= sys.modules["board_archive"].GRAIN / 2
    sys.modules["board_archive"].archive_runs(shipped / "runs", shipped / "again.tar.xz")
    assert (shipped / "again.tar.xz").read_bytes() == first


def test_parts_of_an_attack_are_one_in_the_archive(script: ModuleType, tmp_path: Path) -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    for samples in (3, 5):
        whole = ra.evaluate(
            model, data, ["linf", "contrast"], samples=samples, run=tmp_path / "runs/grown", progress=False
        )
    sys.modules["board_archive"].archive_runs(tmp_path / "runs", tmp_path / "runs.tar.xz")
    shutil.unpack_archive(tmp_path / "runs.tar.xz", tmp_path / "there", filter="data")
    folders = [tmp_path / "runs/grown/outcomes", tmp_path / "there/runs/grown/outcomes"]
    assert [len(list(folder.rglob("*.parquet"))) for folder in folders] == [4, 2]
    sent = ra.load_result(tmp_path / "there/runs/grown")
    assert np.array_equal(sent.index, whole.index)
    for attack in whole.attacks:
        assert np.array_equal(sent.minimal_size(attack), whole.minimal_size(attack))


def test_its_work_can_go_to_workers(script: ModuleType) -> None:
    """Which know nothing of the script: all of it that they need goes along."""
    cloudpickle.register_pickle_by_value(script)
    sent = packed((script.train_one, script.evaluate_one), "the work")
    worker = [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)"]
    arrived = subprocess.run(worker, input=sent, capture_output=True, check=False)
    assert arrived.returncode == 0, arrived.stderr.decode()


def test_the_miniature_of_cifar_keeps_training_and_test_apart(script: ModuleType) -> None:
    board = script.CIFAR
    assert board.split == board.training == 8000
    assert set(board.defenses) == set(script.FULL.defenses)
    whole = ra.load_dataset("digits")
    first, rest = (script.images("digits", split, 400) for split in ("train", "test"))
    assert (len(first), len(rest)) == (400, 200)
    assert torch.equal(torch.cat([first.images, rest.images]), whole.images)
    assert rest.name == "digits (test images 400 to 599)"
