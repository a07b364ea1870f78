from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from robustatlas.datasets import load_dataset
from robustatlas.errors import UserError
from robustatlas.models import builtin_names, load_model
from robustatlas.models.architectures import digits_cnn, resnet32, small_cnn

MODELS = """
from __future__ import annotations
import dataclasses
import torch
import neighbour

@dataclasses.dataclass
class Config:
    width: int = neighbour.WIDTH

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(Config().width, 2)

def make():
    return Net()

def normalised():
    return Net(), (0.5, 0.4), [0.2, 0.1]

def scalar():
    return Net(), 0.5, 0.2

def wrong():
    return "a string"

def wrong_mean():
    return Net(), "abc", "def"

def fails():
    raise KeyError("weights")

def needs(arguments):
    return Net()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "neighbour.py").write_text("WIDTH = 4")
    return tmp_path


@pytest.mark.parametrize("function", ["make", "Net"])
def test_function_in_a_file(folder: Path, function: str) -> None:
    source = f"{folder / 'models.py'}:{function}"
    model = load_model(source)
    assert isinstance(model.net, nn.Linear)
    assert not model.net.training
    assert (model.name, model.mean, model.std) == (source, None, None)


def test_normalisation(folder: Path) -> None:
    model = load_model(f"{folder / 'models.py'}:normalised")
    assert (model.mean, model.std) == ((0.5, 0.4), (0.2, 0.1))
    assert load_model(f"{folder / 'models.py'}:scalar").mean == (0.5,)


def test_function_in_a_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model("robustatlas.models.architectures:small_cnn").net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    (folder / "in_working_directory.py").write_text("import torch\ndef net(): return torch.nn.Linear(2, 2)")
    monkeypatch.chdir(folder)
    assert isinstance(load_model("in_working_directory:net").net, nn.Linear)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digits-standard", "must be path/file.py:function, package.module:function or builtin:NAME"),
        (":make", "must be path/file.py:function"),
        ("builtin:digits", "no built-in model 'digits'; there are digits-standard, digits-linf, digits-l2"),
        ("nowhere/file.py:make", r"no file nowhere/file\.py"),
        ("no_such_package.models:make", "no Python module 'no_such_package.models'"),
        ("{}/models.py:mke", "no function 'mke'; did you mean 'make'"),
        ("{}/models.py:zzzzzz", "no function 'zzzzzz'; it has Config, Net, make"),
        ("{}/models.py:wrong", r"must return an nn\.Module or \(nn\.Module, mean, std\), but returned str"),
        ("{}/models.py:wrong_mean", "mean and std as numbers"),
        ("{}/models.py:fails", r"failed \(KeyError: 'weights'\)"),
        ("{}/models.py:needs", "called without arguments"),
        ("{}/broken.py:make", r"broken\.py failed while it was imported: SyntaxError"),
        ("{}/hungry.py:make", r"hungry\.py failed while it was imported: ModuleNotFoundError.*not_installed"),
    ],
)
def test_wrong_sources(folder: Path, source: str, message: str) -> None:
    (folder / "broken.py").write_text("def make(:")
    (folder / "hungry.py").write_text("import not_installed")
    with pytest.raises(UserError, match=message):
        load_model(source.format(folder))


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
def test_weights(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    net = digits_cnn()
    state = {f"module.{key}": value for key, value in net.state_dict().items()}
    if name.endswith(".pt"):
        torch.save({"state_dict": state, "epoch": 3}, tmp_path / name)
    else:
        save_file(state, tmp_path / name)
    loaded = load_model("robustatlas.models.architectures:digits_cnn", tmp_path / name).net
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(loaded(x), net(x))


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    state = digits_cnn().state_dict()
    state["7.weight"] = torch.zeros(3, 48)
    state["extra.bias"] = state.pop("0.bias")
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(UserError) as error:
        load_model("builtin:digits-l2", tmp_path / "w.safetensors")
    text = str(error.value)
    assert "missing: 0.bias" in text
    assert "not in the model: extra.bias" in text
    assert "of another shape: 7.weight (3, 48) (the model's is (10, 48))" in text


def test_files_that_hold_no_weights(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no weights file"):
        load_model("builtin:digits-l2", tmp_path / "nothing.pt")
    for name in ("text.safetensors", "text.pt"):
        (tmp_path / name).write_text("hello, this is no file of weights")
        with pytest.raises(UserError, match=f"{name} (cannot be read|holds pickled)"):
            load_model("builtin:digits-l2", tmp_path / name)
    torch.save(digits_cnn(), tmp_path / "whole.pt")
    with pytest.raises(UserError, match="holds pickled objects besides tensors"):
        load_model("builtin:digits-l2", tmp_path / "whole.pt")
    torch.save([torch.zeros(2)], tmp_path / "list.pt")
    with pytest.raises(UserError, match="does not hold a state dict"):
        load_model("builtin:digits-l2", tmp_path / "list.pt")


@pytest.mark.parametrize("name", builtin_names())
def test_builtin_models_classify_digits(name: str) -> None:
    data = load_dataset("digits")
    net = load_model(f"builtin:{name}").net
    with torch.no_grad():
        accuracy = float((net(data.images).argmax(1) == data.labels).float().mean())
    assert accuracy > 0.96


def test_shipped_weights_are_small() -> None:
    folder = Path(__file__).parents[1] / "src" / "robustatlas" / "models" / "shipped"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


def test_resnet32_shapes() -> None:
    net, mean, _ = resnet32()
    assert sum(parameter.numel() for parameter in net.parameters()) == 464_154
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert len(mean) == 3


@pytest.mark.parametrize(
    ("file", "function", "data", "expected"),
    [
        ("mnist_mmr_universal.safetensors", small_cnn.__name__, "mnist", 96.96),
        ("cifar10_resnet32_delta.safetensors", resnet32.__name__, "cifar10", 85.57),
    ],
)
def test_published_weights(file: str, function: str, data: str, expected: float) -> None:
    """Clean accuracy on the first samples, against what was measured on the whole test set."""
    folder, images = os.environ.get("ROBUSTATLAS_MODELS"), os.environ.get("ROBUSTATLAS_DATA")
    if not folder or not images or not (Path(folder) / file).is_file():
        pytest.skip("ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA do not name folders with these weights and images")
    model = load_model(f"robustatlas.models.architectures:{function}", Path(folder) / file)
    samples = load_dataset(data).take(400)
    x = samples.images
    if model.mean is not None and model.std is not None:
        x = (x - torch.tensor(model.mean).view(-1, 1, 1)) / torch.tensor(model.std).view(-1, 1, 1)
    with torch.no_grad():
        accuracy = 100 * float((model.net(x).argmax(1) == samples.labels).float().mean())
    assert accuracy == pytest.approx(expected, abs=4)
