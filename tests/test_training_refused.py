"""What goes wrong in a training, and what is said of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.common.files import write_atomically
from robustatlas.data import Dataset, load_dataset
from robustatlas.data.rows import InMemory
from robustatlas.training import Settings, TrainingDisplay, recipe_named, train
from robustatlas.training.augmentation import AUGMENTATIONS
from robustatlas.training.checkpoint import CHECKPOINT
from robustatlas.training.watch import concerns
from test_training import FAST, GREY, convolutional, linear, same


def record(**values: Any) -> dict[str, Any]:
    return {"loss": 1.0, "training_accuracy": 80.0, "clean": 90.0, "robust": 60.0} | values


def test_catastrophic_overfitting_is_said() -> None:
    one = recipe_named("pgd", {"linf": 0.1}, steps=1)
    many = recipe_named("pgd", {"linf": 0.1}, steps=10)
    collapsed = [record(), record(robust=8.0, training_accuracy=95.0)]
    assert "Catastrophic overfitting" in concerns(collapsed, one, 10, 10)[0]
    assert concerns(collapsed, many, 10, 10) == []
    assert concerns([record(), record()], one, 10, 10) == []


def test_too_strong_is_said() -> None:
    stuck = record(loss=2.3, training_accuracy=11.0, robust=10.0)
    recipe = recipe_named("pgd", {"linf": 0.9})
    assert "warmup=0.5" in concerns([stuck] * 3, recipe, 10, 10)[0]
    assert concerns([stuck], recipe, 10, 10) == []
    assert concerns([stuck] * 3, recipe_named("pgd", {"linf": 0.9}, warmup=0.5), 10, 10) == []


def test_too_strong_is_noticed_in_a_training() -> None:
    told: list[str] = []

    class Listens(TrainingDisplay):
        def warn(self, message: str) -> None:
            told.append(message)

    data, settings = load_dataset("digits", "train").take(300), Settings(epochs=4, learning_rate=0.002)
    trained = train(convolutional(norm=False), data, "pgd", {"linf": 0.9}, settings=settings, progress=Listens())
    assert len(told) == 1
    assert "linf=0.9 may be too strong" in told[0]
    assert trained.card.warnings == tuple(told)


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    settings = Settings(epochs=9, optimizer="sgd", learning_rate=1e30, schedule="constant", warmup_epochs=8.9)
    with pytest.raises(UserError, match="nan in epoch"):
        train(convolutional(norm=False), GREY, "standard", settings=settings, out=tmp_path)


@pytest.mark.parametrize(
    ("net", "data", "recipe", "strengths", "message"),
    [
        (linear(), GREY, "pgd", {"hue": 0.1}, "colour|RGB|channels"),
        (linear(), GREY, "pgd", {"l2": 9.0}, "l2=9 is not a strength .* at most 8; give at most 8"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), GREY, "standard", None, "labels|Labels .* 3 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), GREY, "standard", None, "at least 2 classes"),
        (nn.Linear(3, 2), GREY, "standard", None, "fails on images of shape"),
        (nn.Flatten(), GREY, "standard", None, "nothing to train"),
        (linear(), replace(GREY, labels=torch.zeros_like(GREY.labels)), "standard", None, "2 classes to tell apart"),
        (linear(), replace(GREY, rows=InMemory(GREY.images * 255)), "standard", None, "divide by 255"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), GREY, "manifold", {"linf": 0.1}, "calls none"),
    ],
)
def test_bad_input(
    net: nn.Module, data: Dataset, recipe: str, strengths: dict[str, float] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train(net, data, recipe, strengths, settings=FAST)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "at least one epoch"),
        ({"schedule": "piecwise"}, "did you mean 'piecewise'"),
        ({"schedule": "step:a"}, "step:75,90"),
        ({"augmentation": "flop"}, "did you mean 'flip'"),
        ({"optimizer": "lbfgs"}, "adam, adamw, sgd"),
        ({"crafting": "test"}, "eval, train, batch"),
        ({"ema": 1.0}, "ema must lie in"),
        ({"precision": "float16"}, "float32 or bfloat16"),
        ({"learning_rate": 0}, "positive number"),
        ({"held_out": -1}, "0 or a number"),
    ],
)
def test_bad_settings(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Settings(**change)


@pytest.mark.parametrize("name", [name for name in AUGMENTATIONS if name != "none"])
def test_what_changes_pictures_is_refused_of_vectors(name: str) -> None:
    vectors = Dataset.from_arrays(torch.rand(40, 64), torch.arange(40) % 4, "sensors")
    net, short = nn.Linear(64, 4), Settings(epochs=1, held_out=0)
    assert len(train(net, vectors, "standard", settings=short, progress=False).history) == 1
    with pytest.raises(UserError, match=rf"augmentation='{re.escape(name)}'.*\(64,\)"):
        train(net, vectors, "standard", settings=replace(short, augmentation=name), progress=False)
    with pytest.raises(UserError, match=r"augmentation.*cutmix"):
        train(net, vectors, "standard", settings=replace(short, augmentation=name, cutmix=0.5), progress=False)


@pytest.mark.parametrize(
    ("last", "said"), [(nn.Softmax(1), "softmax"), (nn.Sigmoid(), "sigmoid"), (nn.LogSoftmax(1), "")]
)
def test_a_network_whose_outputs_are_no_logits_gets_a_warning(last: nn.Module, said: str, tmp_path: Path) -> None:
    told: list[str] = []

    class Listens(TrainingDisplay):
        def warn(self, message: str) -> None:
            told.append(message)

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), last).train()
    short, data = Settings(epochs=1, held_out=0), load_dataset("digits", "train").take(60)
    card = train(net, data, "standard", settings=short, out=tmp_path, progress=Listens()).card
    about = [sentence for sentence in told if "outputs of the network" in sentence]
    assert len(about) == bool(said) and all(f"a {said}" in sentence for sentence in about)
    assert [sentence for sentence in card.warnings if sentence in about] == about


def test_too_few_images_held_out_or_left() -> None:
    with pytest.raises(UserError, match="leaves none to train on"):
        train(linear(), GREY, settings=replace(FAST, held_out=60))
    with pytest.raises(UserError, match="selection='best' needs"):
        train(linear(), GREY, settings=replace(FAST, held_out=0, selection="best"))
    assert train(linear(), GREY, settings=replace(FAST, held_out=0)).card.accuracies == {}


def test_a_checkpoint_of_another_recipe(tmp_path: Path) -> None:
    train(linear(), GREY, "standard", settings=FAST, out=tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(UserError, match=r"recipe\.name: standard .*pgd"):
        train(linear(), GREY, "pgd", {"linf": 0.1}, settings=FAST, out=tmp_path)
    with pytest.raises(UserError, match=r"settings\.epochs: 2 there, 3 given"):
        train(linear(), GREY, "standard", settings=replace(FAST, epochs=3), out=tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    (tmp_path / "training.json").unlink()
    with pytest.raises(UserError, match=r"no training.json"):
        train(linear(), GREY, "standard", settings=FAST, out=tmp_path)


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    train(linear(), GREY, "standard", settings=FAST, out=tmp_path)
    (tmp_path / "card.json").unlink()
    (tmp_path / CHECKPOINT).write_bytes(b"\x10" * 40)
    with pytest.raises(UserError, match="is not a checkpoint of a training"):
        train(linear(), GREY, "standard", settings=FAST, out=tmp_path)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fills(TrainingDisplay):
        def epoch(self, record: Mapping[str, Any]) -> None:
            if record["epoch"] == 2:
                monkeypatch.setattr(Path, "write_bytes", full)

    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    settings = replace(FAST, epochs=3)
    with pytest.raises(UserError, match=r"No space left on device.*go on"):
        train(linear(), GREY, "pgd", {"linf": 0.1}, settings=settings, out=tmp_path, progress=Fills())
    monkeypatch.undo()
    assert not list(tmp_path.glob(".*.tmp"))
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1
    again = train(linear(), GREY, "pgd", {"linf": 0.1}, settings=settings, out=tmp_path)
    whole = train(linear(), GREY, "pgd", {"linf": 0.1}, settings=settings)
    assert same(again.net.state_dict(), whole.net.state_dict())


def test_no_folder_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write"):
        train(linear(), GREY, settings=FAST, out=tmp_path / "file" / "run")


def test_atomic_writing_is_what_protects(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_text("whole")
    with pytest.raises(UserError):
        write_atomically(tmp_path / "a", fails)
    assert (tmp_path / "a").read_text() == "whole"


def made_in_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return linear()


def filled(value: float) -> nn.Module:
    net = linear()
    nn.init.constant_(next(net.parameters()), value)
    return net


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear().half(), r"torch\.float16, in which small updates are lost: train it in float32, net\.float"),
        (lambda: linear().bfloat16(), "torch.bfloat16, in which small updates are lost"),
        (lambda: linear().to("meta"), "'meta', which holds no numbers"),
        (made_in_inference_mode, "made inside torch.inference_mode"),
        (lambda: filled(torch.nan), "NaN or infinite logits before any update"),
        (lambda: filled(torch.inf), "NaN or infinite logits before any update"),
        (lambda: nn.Bilinear(64, 64, 10), "takes 2 inputs"),
    ],
)
def test_networks_that_cannot_be_trained_get_a_sentence(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        train(make(), GREY, settings=FAST)
    assert "learning rate" not in str(caught.value)
