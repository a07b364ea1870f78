"""Data that are sorted by class: so many samples are of all classes, and a run begun otherwise goes on as it was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import RobustnessWarning
from robustatlas.data.labels import is_sorted

CLASSES, EACH = 5, 20
LABELS = np.arange(CLASSES).repeat(EACH)
IMAGES = np.random.default_rng(0).random((CLASSES * EACH, 1, 3, 3), np.float32)
few: Any = {"attacks": "linf", "strengths": {"linf": [0.1]}, "diagnose": False, "progress": False}


class First(nn.Module):
    """Always answers class 0."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.eye(CLASSES)[0] + 0 * x.flatten(1).sum(1, keepdim=True)


def data(labels: Any = LABELS) -> ra.Dataset:
    return ra.Dataset.from_arrays(IMAGES, labels, "sorted")


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (LABELS, True),
        (LABELS[::-1], True),
        (np.array([3, 3, 0, 0, 0, 7]), True),
        (np.tile(np.arange(10).repeat(50), 2), True),  # two files, each sorted
        (np.random.default_rng(1).permutation(LABELS), False),
        (np.tile(np.arange(CLASSES), EACH), False),
        (np.arange(6), False),  # one of each
        (np.zeros(9, np.int64), False),
        (ra.load_dataset("digits").labels.numpy(), False),
        (ra.load_dataset("digits", "train").labels.numpy(), False),
    ],
)
def test_what_is_sorted(labels: Any, known: bool) -> None:
    assert is_sorted(torch.from_numpy(np.array(labels))) is known


def test_a_number_of_sorted_samples_is_some_of_each_class() -> None:
    taken = data().take(10, seed=3)
    assert torch.bincount(taken.labels).tolist() == [2] * CLASSES
    assert torch.equal(taken.index, data().take(10, stratified=True, seed=3).index)
    assert data().take(10, stratified=False).index.tolist() == list(range(10))
    assert set(taken.index.tolist()) <= set(data().take(30, seed=3).index.tolist())
    digits = ra.load_dataset("digits")
    assert digits.take(50).index.tolist() == list(range(50))


@pytest.mark.parametrize("form", ["data set", "pair", "torch"])
def test_a_classifier_that_always_answers_class_0_has_the_accuracy_of_chance(form: str) -> None:
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS))
    given: Any = {"data set": data(), "pair": (IMAGES, LABELS), "torch": pairs}[form]
    result = ra.evaluate(First(), given, samples=20, seed=3, **few)
    assert result.clean_accuracy == 100 / CLASSES and result.classes_held == CLASSES
    assert result.index.tolist() == data().take(20, seed=3).index.tolist()
    assert "on 20 samples of" in f"{result}" and "(5 classes): 20.0 %" in f"{result}"


def test_a_run_begun_with_the_first_samples_goes_on_with_these(tmp_path: Path) -> None:
    with pytest.warns(RobustnessWarning, match="1 of the 5 classes"):
        ra.evaluate(First(), data().take(20, stratified=False), run=tmp_path / "first", **few)
    with pytest.warns(RobustnessWarning, match="2 of the 5 classes"):
        result = ra.evaluate(First(), data(), samples=30, run=tmp_path / "first", **few)
    assert result.index.tolist() == list(range(30)) and any("2 of the 5" in said for said in result.warnings)
    ra.evaluate(First(), data(), samples=20, run=tmp_path / "drawn", **few)
    grown = ra.evaluate(First(), data(), samples=30, run=tmp_path / "drawn", **few)
    assert grown.index.tolist() == data().take(30).index.tolist()
    assert ra.load_result(tmp_path / "drawn").samples == 30
    named = ra.evaluate(First(), data(), samples=[0, 1], **few)
    assert not any("of the 5 classes" in said for said in named.warnings)


def test_a_certification_goes_on_likewise(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, CLASSES))
    ask: Any = {"method": "linear", "progress": False}
    with pytest.warns(RobustnessWarning, match="are of 1 of the 5"):
        ra.certify(net, data().take(10, stratified=False), "linf", run=tmp_path / "run", **ask)
    with pytest.warns(RobustnessWarning, match="are of 1 of the 5"):
        result = ra.certify(net, data(), "linf", samples=15, run=tmp_path / "run", **ask)
    assert result.index.tolist() == list(range(15))
    assert ra.certify(net, data(), "linf", samples=15, **ask).classes_held == CLASSES


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("sorted.npz", images=IMAGES, labels=LABELS)
    (tmp_path / "net.py").write_text(
        "import torch\ndef make():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 5))\n"
    )
    command = ["evaluate", "net.py:make", "--data", "sorted.npz", "--attacks", "linf", "--no-diagnose"]

    def index(*options: str, run: str) -> list[int]:
        entered(*command, *options, "--run", run)
        return [int(position) for position in ra.load_result(run).index]

    drawn = data().take(20, seed=7).index.tolist()
    assert index("--samples", "20", "--seed", "7", run="drawn") == drawn
    assert index("--samples", "20", "--first", run="first") == list(range(20))
    assert index("--samples", "25", run="first") == list(range(25))
    assert index("--samples", "20", "--stratified", run="first2") == data().take(20).index.tolist()
