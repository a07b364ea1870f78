import hashlib
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from robustatlas import Classifier
from robustatlas.common.errors import UserError
from robustatlas.data import load_dataset
from robustatlas.models.architectures import digits_cnn, resnet32, small_cnn
from robustatlas.models.builtin import BUILTIN_MODELS
from robustatlas.models.classifier import ModelIdentity
from robustatlas.models.loading import load_model
from robustatlas.models.settings import parse_settings

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

def settable(bits, flag=False):
    net = Net()
    net.settings = (bits, flag)
    return net

def classifier():
    from robustatlas import Classifier
    return Classifier(Net(), 0.5, 0.25, name="own")

def plain():
    from robustatlas import Classifier
    return Classifier(lambda x: x)

def late():
    import neighbour
    return torch.nn.Linear(neighbour.WIDTH, 2)

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
    assert load_model(f"{folder / 'models.py'}:scalar").mean == 0.5


def test_function_in_a_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model("robustatlas.models.architectures:small_cnn").net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    (folder / "in_working_directory.py").write_text("import torch\ndef net(): return torch.nn.Linear(2, 2)")
    monkeypatch.chdir(folder)
    assert isinstance(load_model("in_working_directory:net").net, nn.Linear)


def test_a_folder_of_hugging_face_is_told_by_its_scheme(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="'hf:"):
        load_model(str(tmp_path))


def test_the_folder_of_a_training_is_told_by_its_scheme(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text("{}")
    with pytest.raises(UserError, match="'trained:"):
        load_model(str(tmp_path))
    with pytest.raises(UserError, match=r"must be path/file\.py:function"):
        load_model("a" * 300)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("resnet18", "resnet18"),
        ("digits_standard", "did you mean 'builtin:digits-standard'"),
        ("net.onnx", "is 'onnx:net.onnx'"),
        ("folder/net.pt2", "is 'export:folder/net.pt2'"),
        ("best.safetensors", "--weights"),
        ("https://huggingface.co/google/vit-base-patch16-224", "hf:OWNER/NAME"),
        ("jax:net", "by robustatlas.from_jax"),
        ("keras:net", "by robustatlas.from_tensorflow"),
        (":make", "must be path/file.py:function"),
        ("builtin:digits", "'digits'.*digits-standard"),
        ("nowhere/file.py:make", r"no file nowhere/file\.py"),
        ("no_such_package.models:make", "'no_such_package.models'"),
        ("{}/models.py:mke", "'mke'.*'make'"),
        ("{}/models.py:zzzzzz", "'zzzzzz'.*Config, Net, make"),
        ("{}/models.py:wrong", r"nn\.Module, .* str"),
        ("{}/models.py:wrong_mean", "mean=abc"),
        ("{}/models.py:fails", r"failed \(KeyError: 'weights'\)"),
        ("{}/models.py:needs", "--set arguments=VALUE"),
        ("{}/broken.py:make", r"broken\.py .*SyntaxError"),
        ("{}/hungry.py:make", r"hungry\.py .*not_installed"),
    ],
)
def test_wrong_sources(folder: Path, source: str, message: str) -> None:
    (folder / "broken.py").write_text("def make(:")
    (folder / "hungry.py").write_text("import not_installed")
    with pytest.raises(UserError, match=message):
        load_model(source.format(folder))


def by_hand(net: nn.Module, x: Tensor, mean: Sequence[float] = (), std: Sequence[float] = ()) -> Tensor:
    """Logits of the bare network, normalised here."""
    if len(mean):
        x = (x - torch.tensor(mean).view(-1, 1, 1)) / torch.tensor(std).view(-1, 1, 1)
    with torch.no_grad():
        logits: Tensor = net.eval()(x)
    return logits


MEAN, STD = (0.3,), (0.6,)
X = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
SMALL = """
from robustatlas import Classifier
from robustatlas.models.architectures import digits_cnn

def bare():
    return digits_cnn()

def normalised():
    return digits_cnn(), (0.3,), (0.6,)

def ready():
    return Classifier(digits_cnn(), 0.3, 0.6, name="ready")
"""


@pytest.mark.parametrize("function", ["bare", "normalised", "ready"])
@pytest.mark.parametrize("override", [False, True])
@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_every_path_gives_the_logits_of_the_network(tmp_path: Path, function: str, override: bool, suffix: str) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    net = digits_cnn()
    if suffix == "pt":
        torch.save(net.state_dict(), tmp_path / "w.pt")
    else:
        save_file(net.state_dict(), tmp_path / "w.safetensors")
    given = {"mean": [0.1], "std": [0.2]} if override else {}
    model = load_model(f"{tmp_path / 'small.py'}:{function}", tmp_path / f"w.{suffix}", **given)  # type: ignore[arg-type]
    mean, std = ((0.1,), (0.2,)) if override else (MEAN, STD) if function != "bare" else ((), ())
    expected = by_hand(net, X, mean, std)
    for again in (model, Classifier(model), Classifier(model.net, model.mean, model.std)):
        torch.testing.assert_close(again.logits(X), expected)
        torch.testing.assert_close(again.logits(X, verifying=True), expected)
    assert model.notes == (
        ("The mean given ((0.1,)) is used, not the mean of the model's function ((0.3,)).",
         "The std given ((0.2,)) is used, not the std of the model's function ((0.6,)).")
        if override and function == "normalised"
        else model.notes
    )  # fmt: skip
    assert bool(model.notes) == (override and function != "bare")


def test_arguments_reach_the_function(folder: Path) -> None:
    source = f"{folder / 'models.py'}:settable"
    assert load_model(source, arguments={"bits": 3}).net.settings == (3, False)  # type: ignore[attr-defined]
    assert load_model(source, arguments=parse_settings(["bits=4", "flag=true"])).net.settings == (4, True)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"'bitz'.*bits, flag"):
        load_model(source, arguments={"bitz": 3})
    with pytest.raises(UserError, match="--set bits=VALUE"):
        load_model(source)
    with pytest.raises(UserError, match="no parameter 'bits'; it takes none"):
        load_model("builtin:digits-linf", arguments={"bits": 3})


@pytest.mark.parametrize(
    ("item", "value"),
    [("a=3", 3), ("a=foo", "foo"), ("a=true", True), ("a=None", None), ("a=(1, 2)", (1, 2)), ("a=x=y", "x=y"),
     ("a=", ""), ("a='3'", "3"), ("a=1e-3", 1e-3), ("a = 0.5 ", 0.5)],
)  # fmt: skip
def test_settings(item: str, value: object) -> None:
    assert parse_settings([item]) == {"a": value}


def test_a_function_that_returns_a_classifier(folder: Path) -> None:
    source = f"{folder / 'models.py'}:classifier"
    model = load_model(source)
    assert (model.name, model.mean, model.std) == (source, 0.5, 0.25)
    assert load_model(source, name="mine").name == "mine"
    with pytest.raises(UserError, match="weights"):
        load_model(f"{folder / 'models.py'}:plain", folder / "w.pt")


def test_neighbours_of_two_folders_are_not_confused(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    (other / "models.py").write_text(MODELS)
    (other / "neighbour.py").write_text("WIDTH = 6")
    for _ in range(2):
        for place, width in ((folder, 4), (other, 6)):
            for function in ("make", "late"):
                net = load_model(f"{place / 'models.py'}:{function}").net
                assert isinstance(net, nn.Linear)
                assert net.in_features == width


def test_identity_follows_code_arguments_and_weights(folder: Path) -> None:
    file = folder / "models.py"
    file.write_text(MODELS + "\ndef ones():\n    net = Net()\n    return net.requires_grad_(False).apply(\n"
                    "        lambda m: (m.weight.fill_(1), m.bias.fill_(0)))\n")  # fmt: skip
    source = f"{file}:ones"
    first, second = load_model(source).identity(), load_model(source).identity()
    assert first == second
    assert first.source == source
    assert first.code_sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert load_model(source, mean=0.5).identity().weights_sha256 != first.weights_sha256
    assert load_model(source, mean=0.5).identity().code_sha256 == first.code_sha256
    three, four = (load_model(f"{file}:settable", arguments={"bits": bits}).identity() for bits in (3, 4))
    assert len({first.code_sha256, three.code_sha256, four.code_sha256}) == 3
    file.write_text(file.read_text() + "# changed")
    assert load_model(source).identity().code_sha256 != first.code_sha256
    assert load_model(source).identity().weights_sha256 == first.weights_sha256
    package = load_model("robustatlas.models.architectures:small_cnn").identity()
    assert package.code_sha256 == hashlib.sha256(Path(inspect.getfile(small_cnn)).read_bytes()).hexdigest()
    assert load_model("builtin:digits-l2").identity().code_sha256 is None
    assert Classifier(lambda x: x).identity() == ModelIdentity(None, None, None)


def saved(folder: Path, content: dict[str, Any]) -> Path:
    torch.save(content, folder / "w.pt")
    return folder / "w.pt"


def prefixed(prefix: str, net: nn.Module) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in net.state_dict().items()}


CHECKPOINTS: dict[str, tuple[Callable[[nn.Module], dict[str, Any]], str]] = {
    "plain": (lambda net: prefixed("", net), ""),
    "wrapped": (lambda net: {"epoch": 3, "model_state_dict": prefixed("", net)}, ""),
    "DataParallel": (lambda net: {"state_dict": prefixed("module.", net), "epoch": 3}, "prefix 'module.' was dropped"),
    "Lightning": (
        lambda net: {
            "state_dict": prefixed("model.", net) | {"criterion.weight": torch.ones(3)},
            "hyper_parameters": {"rate": 0.1},
            "pytorch-lightning_version": "2.0",
        },
        "prefix 'model.' was dropped from the names; beside the network and left out: criterion.weight",
    ),
    "compiled": (lambda net: prefixed("_orig_mod.", net), "prefix '_orig_mod.' was dropped"),
    "another prefix": (lambda net: prefixed("encoder.q.", net), "prefix 'encoder.q.' was dropped"),
    "averages beside": (
        lambda net: prefixed("model.", net) | prefixed("ema.", digits_cnn()),
        "prefix 'model.' was dropped",
    ),
    "averages apart": (lambda net: {"model": prefixed("", net), "model_ema": prefixed("module.", digits_cnn())}, ""),
    "timm": (lambda net: {"state_dict": prefixed("", net), "state_dict_ema": prefixed("", digits_cnn())}, ""),
    "a whole trainer": (
        lambda net: {
            "net": prefixed("", net),
            "optimizer": torch.optim.Adam(net.parameters()).state_dict(),
            "discriminator": nn.Linear(3, 3).state_dict(),
        },
        "",
    ),
}
SEVERAL = {
    "averages beside": "'model.' is taken, and 'ema.' left",
    "averages apart": "'model' is taken, and 'model_ema' left",
    "timm": "'state_dict' is taken, and 'state_dict_ema' left",
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_checkpoints_of_trainers(tmp_path: Path, kind: str) -> None:
    make, note = CHECKPOINTS[kind]
    net = digits_cnn()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = load_model("robustatlas.models.architectures:digits_cnn", saved(tmp_path, make(net)))
    assert torch.equal(model.logits(X), by_hand(net, X))
    assert [SEVERAL.get(kind, "") in str(each.message) for each in told] == [True] * (kind in SEVERAL)
    assert [note in said for said in model.notes] == ([True] if note else [])


@pytest.mark.parametrize(
    "names",
    [("mu", "sigma"), ("normalize.mean", "normalize.std"), ("model.normalize.mean", "model.normalize.std")],
)
def test_a_normalisation_in_the_file_is_used(tmp_path: Path, names: tuple[str, str]) -> None:
    net, shape = digits_cnn(), (1, 1, 1, 1)
    statistics = dict(zip(names, (torch.full(shape, 0.3), torch.full(shape, 0.6)), strict=True))
    weights = saved(tmp_path, prefixed("model." if "model." in names[0] else "", net) | statistics)
    model = load_model("robustatlas.models.architectures:digits_cnn", weights)
    torch.testing.assert_close(model.logits(X), by_hand(net, X, MEAN, STD))
    assert "with a normalisation: " in model.notes[0]
    mine = load_model("robustatlas.models.architectures:digits_cnn", weights, mean=0.1, std=0.2)
    torch.testing.assert_close(mine.logits(X), by_hand(net, X, [0.1], [0.2]))
    assert len(mine.notes) == 3
    with pytest.raises(UserError, match="for pixels from 0 to 255"):
        load_model(
            "robustatlas.models.architectures:digits_cnn",
            saved(tmp_path, net.state_dict() | {"mu": torch.tensor([33.3])}),
        )


WRAPPED = """
import torch
from torch import nn
from robustatlas.models.architectures import digits_cnn

class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = digits_cnn()
        self.register_buffer("mu", torch.full((1, 1, 1, 1), 0.3))
        self.register_buffer("sigma", torch.full((1, 1, 1, 1), 0.6))

    def forward(self, x):
        return self.net((x - self.mu) / self.sigma)
"""


def test_a_normalisation_in_the_network_stays(tmp_path: Path) -> None:
    (tmp_path / "wrapped.py").write_text(WRAPPED)
    net = digits_cnn()
    source = f"{tmp_path / 'wrapped.py'}:Wrapped"
    model = load_model(source, saved(tmp_path, prefixed("net.", net)))
    torch.testing.assert_close(model.logits(X), by_hand(net, X, MEAN, STD))
    assert "mu, sigma" in model.notes[0]
    there = {"module.mu": torch.full((1, 1, 1, 1), 0.1), "module.sigma": torch.full((1, 1, 1, 1), 0.2)}
    model = load_model(source, saved(tmp_path, prefixed("module.net.", net) | there))
    torch.testing.assert_close(model.logits(X), by_hand(net, X, [0.1], [0.2]))


def test_several_networks_in_one_file(tmp_path: Path) -> None:
    both = prefixed("teacher.", digits_cnn()) | prefixed("student.", digits_cnn())
    with pytest.raises(UserError, match=r"student\., teacher\."):
        load_model("robustatlas.models.architectures:digits_cnn", saved(tmp_path, both))


def test_batch_counters_of_old_files_may_be_missing(tmp_path: Path) -> None:
    net = resnet32()[0]
    state = {name: value for name, value in net.state_dict().items() if "num_batches" not in name}
    assert load_model("robustatlas.models.architectures:resnet32", saved(tmp_path, state)).notes == ()


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


def test_a_file_that_holds_no_state_dict(tmp_path: Path) -> None:
    torch.save([torch.zeros(2)], tmp_path / "list.pt")
    with pytest.raises(UserError, match="state dict"):
        load_model("builtin:digits-l2", tmp_path / "list.pt")


@pytest.mark.parametrize("name", BUILTIN_MODELS)
def test_builtin_models_classify_digits(name: str) -> None:
    data = load_dataset("digits")
    net = load_model(f"builtin:{name}").net
    with torch.no_grad():
        accuracy = float((net(data.images).argmax(1) == data.labels).float().mean())
    assert accuracy > 0.96


def test_shipped_weights_are_small() -> None:
    folder = Path(__file__).parents[1] / "src" / "robustatlas" / "models" / "shipped"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 400_000


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
    with torch.no_grad():
        accuracy = 100 * float((model.logits(samples.images).argmax(1) == samples.labels).float().mean())
    assert accuracy == pytest.approx(expected, abs=4)
