"""Classifier: passes, identity, empty batches, modes, seeds, compiled networks."""

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.models.architectures import digits_cnn
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.classifier.probing import raw_output

X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


class Refusing(nn.Module):
    """A network that works in its own precision only, and remembers what it was given."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.net = digits_cnn().to(dtype)
        self.seen: list[torch.dtype] = []
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.dtype)
        self.sizes.append(len(x))
        logits: Tensor = self.net(x)
        return logits


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("given", [torch.float32, torch.float64])
def test_the_network_gets_its_own_precision(dtype: torch.dtype, given: torch.dtype) -> None:
    net = Refusing(dtype)
    model = Classifier(net, 0.3, 0.6)
    x = X.to(given).requires_grad_()
    for verifying in (False, True):
        logits = model.logits(x, verifying=verifying)
        assert logits.dtype == given
        by_hand = net.net(((X.to(model.dtype) - 0.3) / 0.6).to(dtype))
        torch.testing.assert_close(logits, by_hand.to(given), rtol=1e-4, atol=1e-5)
        (gradient,) = torch.autograd.grad(logits.sum(), x)
        assert gradient.dtype == given and bool(gradient.any())
    assert set(net.seen) == {dtype}
    assert model.network_dtype == dtype
    assert model.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_networks_in_half_precision_are_evaluated(dtype: torch.dtype) -> None:
    data = ra.load_dataset("digits").take(20)
    net = ra.load_model("builtin:digits-standard").net
    assert isinstance(net, nn.Module)
    strengths = {"linf": [0.05, 0.1, 0.15]}
    exact = ra.evaluate(net, data, "linf", strengths=strengths)
    half = ra.evaluate(copy.deepcopy(net).to(dtype), data, "linf", strengths=strengths, keep_adversarial=True)
    assert abs(exact.accuracies().values("linf") - half.accuracies().values("linf")).max() <= 10
    index, examples = half.adversarial("linf")
    judge = copy.deepcopy(net).to(dtype)
    for row, example in zip(index, examples, strict=True):
        assert int(judge(torch.as_tensor(example)[None].to(dtype)).argmax()) != int(data.labels[row])
    with pytest.raises(ra.UserError, match=f"float32.* {dtype}"):
        Classifier(judge, precision="bfloat16")


def test_a_classifier_of_a_classifier() -> None:
    net = digits_cnn()
    first = Classifier(net, 0.3, 0.6, precision="bfloat16", name="first")
    again = Classifier(first)
    assert (again.net, again.mean, again.std, again.name) == (net, 0.3, 0.6, "first")
    assert (again.precision, again.device, again.forward_passes) == ("bfloat16", first.device, 0)
    other = Classifier(first, 0.1, precision="float32", name="other")
    assert (other.mean, other.std, other.precision, other.name) == (0.1, 0.6, "float32", "other")
    torch.testing.assert_close(other.logits(X), net((X - 0.1) / 0.6))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "device 'cuda' cannot be used here"),
        ("cuda:93", "device 'cuda:93' cannot be used here"),
        ("gpu", "device 'gpu' cannot be used here"),
        ("meta", "holds no numbers"),
    ],
)
def test_devices_that_are_not_there(device: str, message: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    for make in (
        lambda: Classifier(digits_cnn(), device=device),
        lambda: ra.load_model("builtin:digits-l2", device=device),
    ):
        with pytest.raises(ra.UserError, match=message) as caught:
            make()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": "abc"}, "mean=abc does not fit"),
        ({"mean": [[0.1]]}, "does not fit"),
        ({"mean": []}, "does not fit"),
        ({"std": [0.1, 0.0]}, "not positive"),
        ({"std": float("nan")}, "does not fit"),
        ({"precision": "float8"}, "'float8' is not known"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ra.UserError, match=message):
        Classifier(digits_cnn(), **options)


def test_channels_that_do_not_fit() -> None:
    with pytest.raises(ra.UserError, match=r"3 channels.*\(6, 1, 8, 8\)"):
        Classifier(digits_cnn(), [0.1, 0.2, 0.3]).logits(X)


def test_errors_of_the_network_are_one_sentence() -> None:
    with pytest.raises(ra.UserError, match=r"\(6, 1, 8, 8\): RuntimeError: first") as error:
        Classifier(raising).logits(X)
    assert "\n" not in str(error.value)


def raising(x: Tensor) -> Tensor:
    raise RuntimeError("first.\nsecond")


def test_copies_are_classifiers() -> None:
    model = Classifier(digits_cnn(), 0.3)
    expected = model.logits(X)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again.logits(X), expected)
        assert again.identity() == model.identity()


@pytest.mark.parametrize("known", [False, True])
def test_empty_batches_never_reach_the_network(known: bool) -> None:
    net = Refusing(torch.float16)
    model = Classifier(net, 0.3)
    if known:
        model.logits(X)
    before = model.forward_passes
    empty = X[:0].clone().requires_grad_()
    logits = model.logits(empty, verifying=True)
    assert logits.shape == (0, 10)
    assert logits.dtype == torch.float32
    (gradient,) = torch.autograd.grad(logits.sum(), empty)
    assert gradient.shape == empty.shape
    assert model.forward_passes - before == (not known)
    assert 0 not in net.sizes


def test_identity_sees_what_changes_the_output() -> None:
    net = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, 10))
    net.register_buffer("unsaved", torch.zeros(2), persistent=False)
    before = Classifier(net).identity()
    assert before == Classifier(copy.deepcopy(net)).identity() == Classifier(net, device="cpu").identity()
    seen = {before}
    for change in (
        lambda: net[0].running_mean.add_(1),
        lambda: net[2].bias.data.add_(1),
        lambda: net.get_buffer("unsaved").add_(1),
        lambda: net.double(),
    ):
        change()
        seen.add(Classifier(net).identity())
    seen |= {Classifier(net, 0.5).identity(), Classifier(net, None, 0.5).identity()}
    assert len(seen) == 7


def test_passes_are_counted_per_caller() -> None:
    model = Classifier(digits_cnn())
    together = threading.Barrier(4)

    def work(number: int) -> tuple[int, int]:
        together.wait()
        with model.counting() as passes:
            for _ in range(20):
                x = X[: number + 1].clone().requires_grad_()
                with model.counting() as inner:
                    model.logits(x).sum().backward()
                assert (inner.forward, inner.backward) == (number + 1, number + 1)
        return passes.forward, passes.backward

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(work, range(4)))
    assert counts == [(20 * n, 20 * n) for n in (1, 2, 3, 4)]
    assert (model.forward_passes, model.backward_passes) == (200, 200)


def test_passes_of_another_model_and_without_gradients() -> None:
    one, two = Classifier(digits_cnn()), Classifier(digits_cnn())
    with one.counting() as passes:
        two.logits(X)
        with torch.no_grad():
            one.logits(X.clone().requires_grad_())
    assert (passes.forward, passes.backward) == (6, 0)
    assert (two.forward_passes, two.backward_passes) == (6, 0)


def test_a_gradient_is_charged_to_who_went_forward() -> None:
    model, x = Classifier(digits_cnn()), X.clone().requires_grad_()
    with model.counting() as passes:
        logits = model.logits(x)
    with model.counting() as others:
        logits.sum().backward()
    assert (passes.backward, others.backward) == (6, 0)


def test_eval_mode_holds_until_the_last_one_leaves() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Dropout(0.9)).train()
    net[1].eval()
    one, two = Classifier(net), Classifier(net)
    first, second = one.evaluating(), two.evaluating()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(module.training for module in net.modules())
    second.__exit__(None, None, None)
    assert [module.training for module in net] == [True, False, True]
    with pytest.raises(ZeroDivisionError), one.evaluating():
        _ = 1 / 0
    assert [module.training for module in net] == [True, False, True]


def test_seeds_are_for_a_while() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(1):
        first = torch.rand(3)
        _ = 1 / 0
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(1):
        assert torch.equal(torch.rand(3), first)
    with seeded(2):
        assert not torch.equal(torch.rand(3), first)


def test_a_compiled_search_is_verified_by_the_network_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compiler makes is asked for gradients only: an answer of its own can fool nobody."""
    net = nn.Linear(4, 3).double()
    calls: list[int] = []

    def compiled(module: nn.Module, dynamic: bool) -> Callable[[Tensor], Tensor]:
        def fast(x: Tensor) -> Tensor:
            calls.append(len(x))
            answer: Tensor = module(x) + torch.tensor([0.0, 0.0, 100.0], dtype=x.dtype)
            return answer

        return fast

    monkeypatch.setattr(torch, "compile", compiled)
    x = torch.rand(6, 4, dtype=torch.float64)
    labels = net(x).argmax(1)
    model = Classifier(net, compiled=True)
    tiny = {"linf": [1e-9]}
    found = ra.evaluate(model, (x, labels), "linf", strengths=tiny, progress=False)
    assert calls
    assert found.accuracies().at("linf", 1e-9) == 100
    assert pickle.loads(pickle.dumps(model)).compiled
    assert Classifier(model).compiled
    assert not Classifier(model, compiled=False).compiled


def test_a_search_in_half_precision_sees_images_channels_last() -> None:
    seen: list[tuple[bool, bool]] = []

    class Watched(nn.Module):
        def __init__(self, taken_apart: bool) -> None:
            super().__init__()
            self.conv, self.head, self.taken_apart = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(128, 3), taken_apart

        def forward(self, x: Tensor) -> Tensor:
            last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
            seen.append((torch.is_autocast_enabled("cpu"), last))
            maps = self.conv(x).relu()
            answer: Tensor = self.head(maps.view(len(x), -1) if self.taken_apart else maps.flatten(1))
            return answer

    torch.manual_seed(0)
    x, net = torch.rand(12, 3, 4, 4), Watched(taken_apart=False)
    labels = net(x).argmax(1)
    found = {}
    for taken_apart in (False, True):
        net.taken_apart = taken_apart
        half = Classifier(net, precision="bfloat16")
        seen.clear()
        found[taken_apart] = ra.evaluate(half, (x, labels), "linf", progress=False).minimal_size("linf").tolist()
        assert seen.count((True, True)) == 1 if taken_apart else seen.count((True, True)) > 20
        assert (False, False) in seen
        assert (False, True) not in seen
    assert found[False] == pytest.approx(found[True], rel=0.05)


def test_what_cannot_be_compiled_is_searched_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: nn.Module, dynamic: bool) -> Callable[[Tensor], Tensor]:
        def fast(x: Tensor) -> Tensor:
            raise RuntimeError("no compiler")

        return fast

    monkeypatch.setattr(torch, "compile", broken)
    net, x = nn.Linear(4, 3), torch.rand(6, 4)
    labels = net(x).argmax(1)
    with pytest.warns(UserWarning, match="RuntimeError: no compiler"):
        found = ra.evaluate(Classifier(net, compiled=True), (x, labels), "linf", progress=False)
    expected = ra.evaluate(Classifier(net), (x, labels), "linf", progress=False)
    assert (found.minimal_size("linf") == expected.minimal_size("linf")).all()
    with pytest.raises(ra.UserError, match="compiled=True"):
        Classifier(net, compiled=True, draws=3)
    with pytest.raises(ra.UserError, match="not with a function"):
        Classifier(lambda x: x, compiled=True)


class Unsized(nn.Module):
    """Has no length, and so neither has what is compiled of it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = digits_cnn()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits


class Empty(nn.Sequential):
    """Has length 0, and is a network all the same."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :10]


@pytest.mark.parametrize("make", [lambda net: torch.compile(net, backend="eager"), lambda net: Empty()])
def test_a_network_is_not_asked_for_its_truth(make: Callable[[nn.Module], Any]) -> None:
    net = make(Unsized()).eval()
    model = Classifier(net)
    with torch.no_grad():
        torch.testing.assert_close(model.logits(X), net(X))
        torch.testing.assert_close(raw_output(model, X).values, net(X))


def test_a_compiled_network_goes_on_with_the_run_of_the_network(tmp_path: Any) -> None:
    net, data = Unsized().eval(), (X, torch.arange(6))
    given: dict[str, Any] = {"strengths": {"linf": [0.1]}, "effort": "low", "run": tmp_path / "run", "progress": False}
    found = ra.evaluate(net, data, "linf", **given)
    again = ra.evaluate(torch.compile(net, backend="eager"), data, "linf", **given)
    assert (again.minimal_size("linf") == found.minimal_size("linf")).all()


class Squeezing(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits.squeeze()


@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_network_that_squeezes_a_single_sample_is_the_network(batch_size: int) -> None:
    """Of six samples in batches of five one is left over."""
    net, data = digits_cnn().eval(), (X, torch.arange(6))
    one, other = (
        ra.evaluate(each, data, "linf", batch_size=batch_size, progress=False) for each in (net, Squeezing(net))
    )
    assert (one.minimal_size("linf") == other.minimal_size("linf")).all()
    single = Classifier(Squeezing(nn.Sequential(nn.Flatten(), nn.Linear(64, 1))), outputs="logit")
    assert [single.logits(X[:count]).shape for count in (1, 2)] == [(1, 2), (2, 2)]


def test_networks_without_numbers_are_refused() -> None:
    half = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    half[1].register_buffer("running_mean", torch.zeros(4, device="meta"))
    for net in (nn.Linear(4, 2, device="meta"), half):
        with pytest.raises(ra.UserError, match="'meta'"):
            Classifier(net)


class Takes:
    """A function of other inputs than one."""

    def two(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def named(self, x: Tensor, *, mask: Tensor) -> Tensor:
        return x * mask

    def none(self) -> Tensor:
        return X


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (nn.Bilinear(4, 4, 3), r"takes 2 inputs \(input1, input2\)"),
        (Takes().two, r"takes 2 inputs \(x, y\)"),
        (Takes().named, r"takes 2 inputs \(x, mask\)"),
        (Takes().none, r"takes 0 inputs"),
    ],
)
def test_a_network_of_other_inputs_is_told_so(net: Any, said: str) -> None:
    with pytest.raises(ra.UserError, match=said) as caught:
        Classifier(net).logits(X)
    assert "batch_size" not in str(caught.value)


def test_only_what_may_be_the_size_of_the_batch_is_told_of_it() -> None:
    def picky(x: Tensor) -> Tensor:
        raise TypeError("an integer is required") if len(x) == 1 else RuntimeError("expected batch size 8")

    for count, hint in ((1, False), (2, True)):
        with pytest.raises(ra.UserError) as caught:
            Classifier(picky).logits(X[:count])
        assert ("batch_size" in str(caught.value)) == hint
