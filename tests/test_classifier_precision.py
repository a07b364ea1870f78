"""What passes are computed in: true float32 where it counts, TF32 or bfloat16 where a search asks for it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.models.architectures import digits_cnn
from robustatlas.models.classifier import Classifier, Precision, true_float32, undisturbed
from robustatlas.models.classifier.precision import products_in

X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


SWITCHES: dict[str, Callable[[], Any]] = {
    "matmul": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "cudnn": lambda: setattr(torch.backends.cudnn, "allow_tf32", True),
    "no cudnn": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
}
if hasattr(torch.backends, "fp32_precision"):
    SWITCHES |= {
        "all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
        "convolutions": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "tf32"),
        "products": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
        "mkldnn": lambda: setattr(torch.backends.mkldnn, "fp32_precision", "bf16"),
    }
LEVELS = ["cuda.matmul", "cudnn", "cudnn.conv", "cudnn.rnn", "mkldnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn"]


def switches() -> dict[str, Any]:
    """What torch says of its precision, by its older and by its newer switches."""
    found: dict[str, Any] = {"benchmark": torch.backends.cudnn.benchmark, "grad": torch.is_grad_enabled()}
    found |= {kind: torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")}
    found["inference"] = torch.is_inference_mode_enabled()
    readers: dict[str, Callable[[], Any]] = {
        "matmul": torch.get_float32_matmul_precision,
        "cuda": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cudnn tf32": lambda: torch.backends.cudnn.allow_tf32,
    }
    if hasattr(torch.backends, "fp32_precision"):
        for path in LEVELS:
            readers[path] = partial(getattr, _level(path), "fp32_precision")
    for name, read in readers.items():
        try:
            found[name] = read()
        except RuntimeError:
            found[name] = "contradictory"
    return found


def _level(path: str) -> Any:
    place: Any = torch.backends
    for part in path.split("."):
        place = getattr(place, part)
    return place


@pytest.fixture
def clean_switches() -> Any:
    """Whatever a test switches, the next one starts from what it found."""
    if not hasattr(torch.backends, "fp32_precision"):
        before = switches()
        yield
        torch.set_float32_matmul_precision(before["matmul"])
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = before["cudnn tf32"], before["benchmark"]
        return
    root, levels = torch.backends.fp32_precision, {path: _level(path).fp32_precision for path in LEVELS}
    matmul, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    tf32 = torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32 = tf32  # the older switch is a flag of its own, which torch compares with the newer
    torch.backends.fp32_precision = root
    torch.set_float32_matmul_precision(matmul)
    for path, value in levels.items():
        _level(path).fp32_precision = value
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.parametrize("first", SWITCHES)
@pytest.mark.parametrize("second", SWITCHES)
def test_reduced_precision_is_off_inside_and_back_afterwards(first: str, second: str, clean_switches: None) -> None:
    SWITCHES[first]()
    try:
        SWITCHES[second]()
    except RuntimeError:
        pytest.skip("torch refuses the two together")
    before = switches()
    with pytest.raises(ZeroDivisionError), true_float32():
        inside = switches()
        with true_float32():
            assert switches() == inside
        assert switches() == inside
        with products_in("tf32"):
            assert "contradictory" in inside.values() or rounds_products()
            with true_float32():
                assert switches() == inside
        assert switches() == inside
        _ = 1 / 0
    assert not inside["benchmark"]
    if hasattr(torch.backends, "fp32_precision"):  # what kernels ask
        assert all(inside[path] in ("ieee", "none") for path in LEVELS)
    else:
        assert (inside["cudnn tf32"], inside["matmul"]) == (False, "highest")
    assert switches() == before


def rounds_products() -> bool:
    """As kernels ask."""
    asked = {torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32}
    assert len(asked) == 1
    return asked.pop()


def test_no_thread_rounds_products_while_another_wants_true_float32(clean_switches: None) -> None:
    def elsewhere(rounding: bool) -> bool:
        def asked() -> bool:
            with products_in("tf32") if rounding else true_float32():
                return rounds_products()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asked).result()

    with true_float32():
        assert not elsewhere(rounding=True)
        with products_in("tf32"):
            assert rounds_products()
            assert not elsewhere(rounding=False)
            assert not rounds_products()  # to be on the safe side
        with products_in("tf32"):
            assert rounds_products()


class Observed(nn.Module):
    """Says whether it went forward and back with rounded products."""

    def __init__(self) -> None:
        super().__init__()
        self.net = ra.load_model("builtin:digits-linf").net
        self.forward_rounded, self.backward_rounded = list[bool](), list[bool]()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        self.forward_rounded.append(rounds_products())
        if logits.requires_grad:
            hooked: Any = logits  # torch declares no types of hooks
            hooked.register_hook(lambda _: self.backward_rounded.append(rounds_products()))
        return logits


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_only_what_a_search_asks_in_tf32_is_rounded(precision: Precision, clean_switches: None) -> None:
    net, data = Observed(), ra.load_dataset("digits")
    model = Classifier(net).replace(precision=precision)  # a check refuses "tf32" on a CPU
    found = ra.evaluate(model, (data.images[:6], data.labels[:6]), "linf", audit=0, diagnose=False, progress=False)
    assert np.isfinite(found.minimal_size("linf")).all()
    forward, backward = (sum(seen) / len(seen) for seen in (net.forward_rounded, net.backward_rounded))
    if precision == "float32":
        assert (forward, backward) == (0, 0)
    else:
        assert 0.5 < forward < 1
        assert backward > 0.5


def test_tf32_is_for_gpus() -> None:
    with pytest.raises(ra.UserError, match="NVIDIA"):
        Classifier(digits_cnn(), precision="tf32")


def test_threads_inside_keep_the_switches(clean_switches: None) -> None:
    torch.backends.cudnn.benchmark = True
    one, two = true_float32(), true_float32()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert not torch.backends.cudnn.benchmark
    two.__exit__(None, None, None)
    assert torch.backends.cudnn.benchmark


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_undisturbed_by_the_caller(mode: Callable[[], Any]) -> None:
    net = digits_cnn()
    with mode(), torch.autocast("cpu", torch.bfloat16):
        before = switches()
        with pytest.raises(ZeroDivisionError), undisturbed():
            x = X.clone().requires_grad_()
            logits = net(x)
            assert logits.dtype == torch.float32
            assert bool(torch.autograd.grad(logits.sum(), x)[0].any())
            _ = 1 / 0
        assert switches() == before


def test_verification_is_in_true_float32() -> None:
    net = digits_cnn()
    expected = net(X)
    searches: tuple[Precision, ...] = ("float32", "bfloat16")
    for precision in searches:
        model = Classifier(net, precision=precision)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            searched, verified = model.logits(X), model.logits(X, verifying=True)
            assert not verified.requires_grad
        assert torch.equal(verified, expected)
        assert not torch.equal(searched, expected)
