"""Models by name: what zoos and files bring along, and the one sentence where something is missing."""

import hashlib
import importlib
import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import robustatlas as ra
from command_line import entered
from robustatlas.cli import _models
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Origin
from robustatlas.models.resizing import Resizing
from robustatlas.models.schemes import SCHEMES
from robustatlas.models.sources.local_files import hashes_of_files
from robustatlas.models.sources.packages import optional


def importable(package: str) -> ModuleType:
    """The package, where it is installed and fits the torch that is."""
    try:
        return importlib.import_module(package)
    except Exception as error:
        pytest.skip(f"{package} does not import here: {error}")


class Blocked:
    """An import hook under which some packages fail."""

    def __init__(self, error: dict[str, Exception]) -> None:
        self.error = error

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.error:
            raise self.error[name]


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("timm:resnet18", "timm"),
        ("torchvision:resnet18", "torchvision"),
        ("hf:google/vit-base-patch16-224", "transformers"),
        ("robustbench:Carmon2019Unlabeled", "robustbench"),
    ],
)
def test_what_to_install(source: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    missing = ModuleNotFoundError(f"No module named {package!r}", name=package)
    monkeypatch.setattr(sys, "meta_path", [Blocked({package: missing}), *sys.meta_path])
    with pytest.raises(UserError, match=rf"robustatlas\[{package}\]"):
        ra.load_model(source)


def test_a_torchvision_of_another_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("operator torchvision::nms does not exist")
    monkeypatch.setattr(sys, "meta_path", [Blocked({"made_up_zoo": error}), *sys.meta_path])
    with pytest.raises(UserError, match="another torch") as caught:
        optional("made_up_zoo", "timm:resnet18", "timm")
    assert "\n" not in str(caught.value)


# timm, torchvision, robustbench


def test_timm() -> None:
    timm = importable("timm")
    model = ra.load_model("timm:resnet18", arguments={"pretrained": False, "num_classes": 10})
    assert model.mean == (0.485, 0.456, 0.406)
    assert model.prepare is None  # random weights were published for no size
    assert model.logits(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert model.origin is not None
    assert model.origin.library == f"timm {timm.__version__}"
    vit = ra.load_model("timm:vit_tiny_patch16_224", arguments={"pretrained": False, "img_size": 32})
    assert vit.prepare is not None  # takes one size only
    assert vit.logits(torch.rand(2, 3, 48, 40)).shape == (2, 1000)
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(vit.prepare(x), x)


def test_timm_resizes_as_timm_does() -> None:
    timm = importable("timm")
    from robustatlas.models.sources.zoos import resizing_of

    about = timm.create_model("resnet18", pretrained=False).pretrained_cfg
    theirs = timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=about))
    assert f"size={resizing_of(about).resize}," in str(theirs)
    assert f"size={resizing_of(about).crop}" in str(theirs)


def test_timm_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    importable("timm")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="'timm:resnet10t'"):
        ra.load_model("timm:resnet10t")
    with pytest.raises(UserError, match=r"'resnet1'.*'resnet"):
        ra.load_model("timm:resnet1")


def test_torchvision() -> None:
    importable("torchvision")
    model = ra.load_model("torchvision:squeezenet1_1", arguments={"pretrained": False, "num_classes": 10})
    assert model.logits(torch.rand(2, 3, 64, 64)).shape == (2, 10)
    assert model.mean == (0.485, 0.456, 0.406)
    full = ra.load_model("torchvision:squeezenet1_1", arguments={"pretrained": False, "resize": True})
    assert full.prepare == Resizing(256, (224, 224), "bilinear")
    with pytest.raises(UserError, match=r"'squeezenet'.*'squeezenet1_"):
        ra.load_model("torchvision:squeezenet")


def test_robustbench(tmp_path: Path) -> None:
    importable("torchvision")
    if importlib.util.find_spec("robustbench") is None:
        pytest.skip("robustbench is not installed")
    source = "robustbench:cifar10/Linf/Wong2020Fast"
    with pytest.raises(UserError, match=r"Wong2020Fast\.pt"):
        ra.load_model(source)
    model = ra.load_model(source, arguments={"pretrained": False})
    assert model.logits(torch.rand(1, 3, 32, 32)).shape == (1, 10)
    folder = tmp_path / "cifar10" / "Linf"
    folder.mkdir(parents=True)
    assert isinstance(model.net, nn.Module)
    torch.save(model.net.state_dict(), folder / "Wong2020Fast.pt")
    again = ra.load_model(source, arguments={"folder": str(tmp_path)})
    assert again.identity().weights_sha256 == model.identity().weights_sha256
    with pytest.raises(UserError, match="did you mean 'Wong2020Fast'"):
        ra.load_model("robustbench:Wong2020Fst")
    with pytest.raises(UserError, match=r"'mnist/Linf'.*cifar10/Linf"):
        ra.load_model("robustbench:mnist/Linf/X")


def test_robustbench_declares_autoattack_by_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that imports as RobustBench's on PyPI does, with one model."""
    importable("pyautoattack")
    package = tmp_path / "robustbench"
    (package / "model_zoo").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from autoattack import AutoAttack\nfrom autoattack.state import EvaluationState\n"
    )
    (package / "model_zoo" / "__init__.py").touch()
    (package / "model_zoo" / "models.py").write_text(
        "from enum import Enum\nfrom torch import nn\n"
        "Data = Enum('Data', {'cifar_10': 'cifar10'})\nThreat = Enum('Threat', {'Linf': 'Linf'})\n"
        "net = lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))\n"
        "model_dicts = {Data.cifar_10: {Threat.Linf: {'Plain': {'model': net}}}}\n"
    )
    about = tmp_path / "robustbench-1.1.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: robustbench\nVersion: 1.1.1\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "robustbench"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    model = ra.load_model("robustbench:Plain", arguments={"pretrained": False})
    for name in [name for name in sys.modules if name.partition(".")[0] == "robustbench"]:
        monkeypatch.delitem(sys.modules, name)
    assert model.logits(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert model.origin is not None and model.origin.library == "robustbench 1.1.1"
    assert "autoattack" not in sys.modules or importlib.util.find_spec("autoattack") is not None


# transformers


def vit(folder: Path, side: int = 32, labels: int = 10, **preprocessing: Any) -> Path:
    """A vision transformer with random weights, as ``save_pretrained`` leaves it."""
    transformers = importable("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        image_size=side,
        patch_size=side // 4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=labels,
    )
    try:
        transformers.ViTForImageClassification(config).save_pretrained(folder)
    except ImportError as error:
        pytest.skip(f"transformers has no models here: {error}")
    about = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": side, "width": side}} | preprocessing
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_resize": True, "resample": 2} | about))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    return folder


@pytest.mark.parametrize("side", [32, 224])
def test_huggingface_vit(tmp_path: Path, side: int) -> None:
    model = ra.load_model(f"hf:{vit(tmp_path, side)}")
    x = torch.rand(2, 3, side, side)
    with torch.no_grad():
        theirs = model.net(pixel_values=(x - 0.5) / 0.25).logits  # type: ignore[call-arg]
    torch.testing.assert_close(model.logits(x), theirs)
    assert model.origin is not None
    assert (model.origin.licence, model.origin.home) == ("apache-2.0", str(tmp_path))
    assert model.prepare == Resizing((side, side), None, "bilinear")
    assert model.logits(torch.rand(1, 3, 40, 50)).shape == (1, 10)
    labels = model.logits(x).argmax(1)
    result = ra.evaluate(model, (x, labels), "pgd-linf", strengths={"pgd-linf": [0.5]}, search="every")
    assert result.clean_accuracy == 100


def test_huggingface_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"hf:{vit(tmp_path / 'vit')}"
    trained = ra.load_model(source)
    random = ra.load_model(source, arguments={"pretrained": False, "num_labels": 3})
    assert random.logits(torch.rand(1, 3, 32, 32)).shape == (1, 3)
    assert isinstance(trained.net, nn.Module)
    save_file(trained.net.state_dict(), tmp_path / "own.safetensors")
    again = ra.load_model(source, tmp_path / "own.safetensors")
    assert again.identity().weights_sha256 == trained.identity().weights_sha256
    assert again.origin is not None
    assert again.origin.home == str(tmp_path / "own.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="'hf:nobody/nothing'") as caught:
        ra.load_model("hf:nobody/nothing")
    assert "\n" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no model of transformers"):
        ra.load_model(f"hf:{tmp_path / 'empty'}")


# torch.export


def small_net(classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, classes)).eval()


@pytest.mark.parametrize("dynamic", [True, False])
def test_exported_program(tmp_path: Path, dynamic: bool) -> None:
    net, file = small_net(), tmp_path / "net.pt2"
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    torch.export.save(torch.export.export(net, (torch.rand(4, 1, 8, 8),), dynamic_shapes=shapes), file)
    model = ra.load_model(f"export:{file}", mean=0.5)
    x = torch.rand(6, 1, 8, 8, requires_grad=True)
    torch.testing.assert_close(model.logits(x), net(x - 0.5))
    assert model.batch_sizes == (() if dynamic else (4,))
    ours, theirs = (torch.autograd.grad(logits.square().sum(), x)[0] for logits in (model.logits(x), net(x - 0.5)))
    torch.testing.assert_close(ours, theirs)
    assert model.identity().code_sha256 is not None
    images, labels = torch.rand(6, 1, 8, 8), torch.zeros(6, dtype=torch.long)
    labels = model.logits(images).argmax(1)
    result = ra.evaluate(model, (images, labels), "linf", strengths={"linf": [0.1, 0.5]})
    assert result.clean_accuracy == 100


def test_exported_programs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        ra.load_model(f"export:{tmp_path / 'nothing.pt2'}")
    (tmp_path / "text.pt2").write_text("hello")
    with pytest.raises(UserError, match=r"not a file of torch.export.save"):
        ra.load_model(f"export:{tmp_path / 'text.pt2'}")
    torch.save(small_net(), tmp_path / "whole.pt")
    with pytest.raises(UserError, match=r"torch\.save.*torch\.export\.save"):
        ra.load_model(f"export:{tmp_path / 'whole.pt'}")
    two = nn.Bilinear(2, 2, 3)
    torch.export.save(torch.export.export(two, (torch.rand(4, 2), torch.rand(4, 2))), tmp_path / "two.pt2")
    with pytest.raises(UserError, match="has 2 inputs; expected one"):
        ra.load_model(f"export:{tmp_path / 'two.pt2'}")
    torch.export.save(torch.export.export(small_net(), (torch.rand(4, 1, 8, 8),)), tmp_path / "net.pt2")
    hostile = io.BytesIO()
    torch.save(Path("anything but a tensor"), hostile)
    with zipfile.ZipFile(tmp_path / "net.pt2") as old, zipfile.ZipFile(tmp_path / "hostile.pt2", "w") as new:
        for name in old.namelist():
            new.writestr(name, hostile.getvalue() if "sample_inputs" in name else old.read(name))
    with pytest.raises(UserError, match="sample_inputs"):
        ra.load_model(f"export:{tmp_path / 'hostile.pt2'}")


# sizes


def test_resizing_is_differentiable_and_keeps_what_fits() -> None:
    resizing = Resizing(9, (8, 8))
    x = torch.rand(2, 3, 12, 20, requires_grad=True)
    resizing(x).sum().backward()
    assert x.grad is not None
    assert x.grad.any()
    fitting = torch.rand(2, 3, 8, 8)
    assert resizing(fitting) is fitting
    assert resizing(torch.ones(1, 1, 40, 30)).min() > 1 - 1e-6
    with pytest.raises(UserError, match="cannot be resized by 'lanczos'"):
        Resizing(9, interpolation="lanczos")
    with pytest.raises(UserError, match=r"\[B, C, H, W\].*\(2, 3\)"):
        resizing(torch.rand(2, 3))


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
def test_resizing_is_pillow_s(mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    x = torch.rand(1, 3, 30, 41, generator=torch.Generator().manual_seed(0)).mul(255).round()
    pixels = image.fromarray(x[0].byte().permute(1, 2, 0).numpy())
    theirs = np.asarray(pixels.resize((21, 15), getattr(image, mode.upper())))
    ours = 255 * Resizing((15, 21), None, mode)(x / 255)[0].permute(1, 2, 0).numpy()
    assert np.abs(ours - theirs).max() < 1.5


def test_help_names_every_source() -> None:
    told = str(get_args(_models.Model)[1].help)
    assert all(f"`{scheme}:`" in told for scheme in SCHEMES)


def test_origin_of_the_weights_is_recorded_and_shown(tmp_path: Path) -> None:
    origin = Origin("zoo:net", licence="MIT", home="https://example.org/net", library="zoo 1.0")
    model = ra.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), origin=origin)
    data = (torch.rand(4, 1, 2, 2), torch.tensor([0, 1, 0, 1]))
    ra.evaluate(model, data, "linf", strengths={"linf": [0.1]}, run=tmp_path / "run")
    record = ra.load_result(tmp_path / "run").identity.model  # type: ignore[union-attr]
    assert (record.licence, record.home, record.library) == ("MIT", "https://example.org/net", "zoo 1.0")
    assert "licence MIT" in entered("show", tmp_path / "run").line


def test_models_behind_transformations() -> None:
    """As the modules put before the network by hand; its normalisation comes after them."""
    from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing

    inner = ra.load_model("builtin:digits-linf")
    x = torch.rand(4, 1, 8, 8)
    for name, before in (
        ("jpeg=75", [JPEGCompression(75)]), ("bits=3", [BitDepthReduction(3)]), ("median=2", [MedianSmoothing(2)]),
        ("bits=5+median=3", [BitDepthReduction(5), MedianSmoothing(3)]),
    ):  # fmt: skip
        model = ra.load_model(f"defended:{name},builtin:digits-linf")
        assert isinstance(model.net, Defended)
        torch.testing.assert_close(model.logits(x), inner.logits(torch.nn.Sequential(*before)(x)))
    for wrong, sentence in (
        ("jpeg=75", "expected defended:TRANSFORMATION,MODEL"),
        ("blur=3,builtin:digits-linf", "'blur=3' is not a transformation; expected jpeg=N, bits=N, median=N"),
        ("median=x,builtin:digits-linf", "is not a transformation"),
    ):
        with pytest.raises(UserError, match=sentence):
            ra.load_model(f"defended:{wrong}")


def test_files_of_one_name_in_two_folders_are_both_hashed(tmp_path: Path) -> None:
    files = [tmp_path / folder / "net.py" for folder in ("network", "features")]
    seen = set()
    for texts in (("a", "b"), ("c", "b"), ("a", "c"), ("b", "a")):
        for file, text in zip(files, texts, strict=True):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        seen.add(hashes_of_files(files)["net.py"])
    assert len(seen) == 4
    assert hashes_of_files(files[:1]) == {"net.py": hashlib.sha256(b"b").hexdigest()}
