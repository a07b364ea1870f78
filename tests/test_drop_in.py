"""Scripts written for AutoAttack, run by ours."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import digits_images, digits_network
from robustatlas.compat.autoattack_settings import ATTACKS, NORMS, Ensemble
from robustatlas.drop_in import AutoAttack

pytestmark = pytest.mark.filterwarnings("ignore:device='cuda'")
STRENGTHS = {"Linf": 0.06, "L2": 0.4, "L1": 1.5}
X, Y = digits_images(16)


def brief(adversary: AutoAttack) -> AutoAttack:
    """With few steps, for the tests' time."""
    adversary.apgd.n_iter = adversary.apgd_targeted.n_iter = adversary.fab.n_iter = 10
    adversary.square.n_queries = 20
    return adversary


def sizes(norm: str, x: Tensor) -> Tensor:
    order = {"Linf": float("inf"), "L2": 2, "L1": 1}[norm]
    return torch.linalg.vector_norm((x - X).flatten(1), ord=order, dim=1)


@pytest.mark.parametrize("norm", NORMS)
def test_what_comes_back_is_what_autoattack_gives(norm: str) -> None:
    net = digits_network()
    adversary = brief(AutoAttack(net, norm=norm, eps=STRENGTHS[norm], verbose=False))
    with torch.no_grad():
        found, labels = adversary.run_standard_evaluation(X, Y, bs=10, return_labels=True)
        assert torch.equal(labels, net(found).argmax(1))
        right = net(X).argmax(1) == Y
    assert (found.shape, found.dtype, found.device) == (X.shape, X.dtype, X.device)
    broken = right & (labels != Y)
    assert 0 < int(broken.sum()) < len(X)
    assert (sizes(norm, found)[broken] <= STRENGTHS[norm] * (1 + 1e-5)).all()
    assert torch.equal(found[~broken], X[~broken])
    assert adversary.result is not None
    robust = adversary.result.accuracies().values(NORMS[norm])
    assert len(robust) == 20
    assert robust[-1] == pytest.approx(100 * float((labels == Y).float().mean()))


def test_it_is_at_least_as_strong_as_autoattack() -> None:
    theirs = pytest.importorskip("pyautoattack")
    logging.disable(logging.CRITICAL)
    net = digits_network()
    for norm, eps in STRENGTHS.items():
        peer = theirs.AutoAttack(net, norm=norm, eps=eps, seed=0, device="cpu")
        peer.verbose = False
        for each in (peer, ours := AutoAttack(net, norm=norm, eps=eps, seed=0, verbose=False)):
            each.apgd.n_iter = each.apgd_targeted.n_iter = each.fab.n_iter = 20
            each.square.n_queries = 100
        _, labels = peer.run_standard_evaluation(X, Y, batch_size=16)
        _, own = ours.run_standard_evaluation(X, Y, return_labels=True)  # type: ignore[misc]
        assert int(((own == Y) & (labels != Y)).sum()) == 0, norm
        assert ours.result is not None and ours.result.diagnosis is not None
        assert ours.result.diagnosis.verdict != "inconclusive", "square has no gradients; the search has"
    logging.disable(logging.NOTSET)


def test_what_our_search_leaves_is_attacked_by_the_attacks_of_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """With a search that finds nothing, AutoAttack's own attacks still break what they break alone."""
    net = digits_network()
    adversary = brief(AutoAttack(net, eps=0.06))
    alone = adversary.run_standard_evaluation_individual(X, Y)
    assert list(alone) == ["apgd-ce", "apgd-t", "fab-t", "square"]
    found = adversary.run_standard_evaluation(X, Y)
    broken = {name: net(x).argmax(1) != Y for name, x in alone.items()}
    together = torch.stack(list(broken.values())).any(0)
    assert not (together & (net(found).argmax(1) == Y)).any()
    said = capsys.readouterr().out
    for word in ("initial accuracy", "ROBUSTATLAS", "APGD-CE", "FAB-T", "SQUARE", "robust accuracy: "):
        assert word in said


def test_settings_made_after_construction_are_carried_out() -> None:
    ensemble = Ensemble.with_defaults("linf")
    assert ensemble.set_version("plus") == ["apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"]
    adversary = AutoAttack(digits_network(), version="custom", attacks_to_run=["apgd-ce", "square"], verbose=False)
    adversary.apgd.n_restarts, adversary.apgd.n_iter = 2, 7
    adversary.square.n_queries, adversary.fab.n_target_classes = 33, 4
    runs = {name: adversary._ensemble.attack(name, 0.1).plan("every").runs for name in ATTACKS}
    assert (runs["apgd-ce"][0].count, runs["apgd-ce"][0].optimizer.steps) == (2, 7)
    assert runs["square"][0].optimizer.steps == 33
    assert runs["fab-t"][0].count == 4
    with pytest.raises(ra.UserError, match="did you mean 'n_restarts'"):
        adversary.apgd.n_restart = 3  # type: ignore[attr-defined]


def test_the_example_of_autoattack_runs_with_one_changed_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its repository's example does: no device, no_grad, custom attacks set after construction, a log."""
    monkeypatch.chdir(tmp_path)
    script = """
import torch
import robustatlas as ra
from robustatlas.drop_in import AutoAttack

model = ra.load_model("builtin:digits-linf").net
model.eval()
data = ra.load_dataset("digits").take(8)
adversary = AutoAttack(model, norm="Linf", eps=0.1, log_path="log.txt", version="custom")
adversary.attacks_to_run = ["apgd-ce", "fab"]
adversary.apgd.n_restarts = 2
adversary.fab.n_restarts = 2
adversary.apgd.n_iter = adversary.fab.n_iter = 5
with torch.no_grad():
    adv_complete = adversary.run_standard_evaluation(data.images, data.labels, bs=4, state_path="state")
torch.save({"adv_complete": adv_complete}, "aa.pth")
"""
    with pytest.warns(UserWarning, match="no CUDA here"):
        exec(compile(script, "eval.py", "exec"), {"__name__": "__main__"})
    assert "robust accuracy after APGD-CE" in capsys.readouterr().out
    assert (tmp_path / "log.txt").read_text().count("initial accuracy") == 1
    assert torch.load(tmp_path / "aa.pth")["adv_complete"].shape == (8, 1, 8, 8)
    assert ra.load_result(tmp_path / "state").attacks == ("linf",)


def test_scripts_as_repositories_use_it_run_with_one_changed_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """RobustBench's evaluation (a log, a state, labels), and that of a training script (a function, one attack)."""
    monkeypatch.chdir(tmp_path)
    script = """
from pathlib import Path
import torch
import robustatlas as ra
from robustatlas.drop_in import AutoAttack

def clean_accuracy(model, x, y, batch_size=100, device=None):
    acc = 0.
    with torch.no_grad():
        for start in range(0, len(x), batch_size):
            acc += (model(x[start:start + batch_size]).max(1)[1] == y[start:start + batch_size]).float().sum()
    return acc.item() / len(x)

model = ra.load_model("builtin:digits-linf").net
data = ra.load_dataset("digits").take(8)
device = torch.device("cpu")
x, y = data.images.to(device), data.labels.to(device)
adversary = AutoAttack(model, norm="Linf", eps=0.1, version="standard", device=device, log_path="log.txt")
adversary.apgd.n_iter = adversary.apgd_targeted.n_iter = adversary.fab.n_iter = adversary.square.n_queries = 3
x_adv, y_adv = adversary.run_standard_evaluation(x, y, bs=4, return_labels=True, state_path=Path("aa_state"))
assert clean_accuracy(model, x_adv, y, batch_size=4, device=device) == (y_adv == y).float().mean().item()

def forward_pass(x):
    return model(x * 1.0)

adversary = AutoAttack(forward_pass, norm="Linf", eps=0.1, version="custom", attacks_to_run=["apgd-ce"], verbose=False)
adversary.apgd.n_iter = 3
adversary.seed = 7
each = adversary.run_standard_evaluation_individual(x, y, bs=8)
print("robust", (model(each["apgd-ce"]).argmax(1) == y).float().mean().item(), adversary.clean_accuracy(x, y, bs=8))
"""
    exec(compile(script, "eval.py", "exec"), {"__name__": "__main__"})
    assert "robust" in capsys.readouterr().out and "SQUARE" in (tmp_path / "log.txt").read_text()


def test_the_example_of_the_installed_package_runs_with_one_changed_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own script, with a small network and digits in place of those that it downloads."""
    package = pytest.importorskip("pyautoattack")
    script = (Path(package.__file__).parent / "examples" / "eval.py").read_text(encoding="utf-8")
    assert script.count("from pyautoattack import AutoAttack") == 1
    script = script.replace("from pyautoattack import AutoAttack", "from robustatlas.drop_in import AutoAttack")

    class ResNet18(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*digits_network())  # type: ignore[misc]

        def cuda(self, device: Any = None) -> ResNet18:
            return self

    torch.save(ResNet18().state_dict(), tmp_path / "model_test.pt")
    datasets, transforms = ModuleType("torchvision.datasets"), ModuleType("torchvision.transforms")
    vars(datasets)["CIFAR10"] = lambda **_: torch.utils.data.TensorDataset(X, Y)
    vars(transforms).update(ToTensor=lambda: None, Compose=lambda parts: None)
    vision, resnet = ModuleType("torchvision"), ModuleType("resnet")
    vars(vision).update(datasets=datasets, transforms=transforms)
    vars(resnet)["ResNet18"] = ResNet18
    for module in (vision, datasets, transforms, resnet):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["eval.py", "--n_ex", "6", "--epsilon", "0.06", "--version", "custom"])
    exec(compile(script, "eval.py", "exec"), {"__name__": "__main__"})
    (saved,) = (tmp_path / "results").iterdir()
    assert torch.load(saved)["adv_complete"].shape == (6, 1, 8, 8)
    assert "robust accuracy after FAB" in (tmp_path / "log_file.txt").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"norm": "L7"}, "Linf, L2, L1"),
        ({"eps": 0}, "not a strength"),
        ({"version": "best"}, "standard, plus, rand or custom"),
        ({"is_tf_model": True}, "from_tensorflow"),
        ({"attacks_to_run": ["apgd-ce"]}, "version='custom'"),
        ({"device": "nowhere"}, "device"),
    ],
)
def test_what_cannot_be_gets_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        AutoAttack(digits_network(), **change)


def test_an_unknown_attack_gets_one_sentence() -> None:
    adversary = AutoAttack(digits_network(), version="custom", attacks_to_run=["apgd-cee"], verbose=False)
    with pytest.raises(ra.UserError, match="did you mean 'apgd-ce'"):
        adversary.run_standard_evaluation(X, Y)


def test_fast_leaves_the_attacks_of_the_version_out(capsys: pytest.CaptureFixture[str]) -> None:
    AutoAttack(digits_network(), eps=0.06, fast=True).run_standard_evaluation(X, Y)
    said = capsys.readouterr().out
    assert "ROBUSTATLAS" in said and "after APGD" not in said


def test_a_model_that_is_always_wrong_comes_back_as_it_was() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.one_hot((Y[: len(x)] + 1) % 10, 10).float() + 0 * x.flatten(1).sum(1, True)

    adversary = AutoAttack(Wrong(), eps=0.1, verbose=False)
    assert torch.equal(adversary.run_standard_evaluation(X, Y, bs=16), X)  # type: ignore[arg-type]
