"""Networks with machinery of their own: each gives the gradient of the plain network, or one clear sentence."""

import copy
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jvp, stack_module_state, vmap
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import robustatlas as ra
from robustatlas.checks.sanity import check_model
from robustatlas.common.errors import UserError
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.classifier.probing import kinks_at
from robustatlas.models.classifier.smoothing import STEEPNESS
from robustatlas.models.objectives import margin_of
from robustatlas.training import Settings

QUIET = {"progress": False, "audit": 0, "diagnose": False}
SIDE, CLASSES = 8, 4


def plain_net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * (SIDE - 2) ** 2, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    ).eval()


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = plain_net()

    def forward(self, x: Tensor) -> Any:
        return self.net(x)


class Checkpointed(Wrapped):
    """Recomputed in the backward pass, the first layers or all."""

    def __init__(self, reentrant: bool, layers: int) -> None:
        super().__init__()
        self.reentrant, self.layers = reentrant, layers

    def forward(self, x: Tensor) -> Any:
        return self.net[self.layers :](checkpoint(self.net[: self.layers], x, use_reentrant=self.reentrant))


class Recomputed(torch.autograd.Function):
    """Gradient checkpointing by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: nn.Module) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layers = layers
        return layers(x).detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(ctx.layers(leaf), leaf, gradient)
        return slope, None


class CheckpointedByHand(Wrapped):
    def forward(self, x: Tensor) -> Any:
        return self.net[3:](Recomputed.apply(x, self.net[:3]))


class Ensemble(nn.Module):
    """The mean of three networks, by ``vmap`` over stacked weights or one after the other."""

    def __init__(self, vectorised: bool) -> None:
        super().__init__()
        self.nets, self.vectorised = nn.ModuleList([plain_net(seed) for seed in range(3)]), vectorised

    def forward(self, x: Tensor) -> Tensor:
        if not self.vectorised:
            return torch.stack([net(x) for net in self.nets]).mean(0)
        weights, buffers = stack_module_state(list(self.nets))
        base = copy.deepcopy(self.nets[0])
        answer: Tensor = vmap(lambda w, b: functional_call(base, (w, b), (x,)))(weights, buffers).mean(0)
        return answer


class BySample(Wrapped):
    def forward(self, x: Tensor) -> Any:
        return vmap(lambda image: self.net[3:](self.net[:2](image[None]).flatten(1))[0])(x)


class ThroughJvp(Wrapped):
    def forward(self, x: Tensor) -> Any:
        return jvp(self.net, (x,), (torch.ones_like(x),))[0]


class Called(Wrapped):
    def forward(self, x: Tensor) -> Any:
        return functional_call(self.net, {name: 1.0 * p for name, p in self.net.named_parameters()}, (x,))


class WithBuffer(Wrapped):
    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values)


class Projected(WithBuffer):
    def forward(self, x: Tensor) -> Any:
        return torch.sparse.mm(self.values, self.net(x).T).T


class WithExtraState(Wrapped):
    def get_extra_state(self) -> Any:
        return {"calls": 3}

    def set_extra_state(self, state: Any) -> None:
        pass


class Counting(WithBuffer):
    """``values`` counts calls: a number, a buffer that is replaced, or one that grows."""

    def __init__(self, how: str) -> None:
        super().__init__(torch.zeros(0 if how == "grown" else 1))
        self.how = how

    def forward(self, x: Tensor) -> Any:
        if self.how == "replaced":
            self.values = self.values + 1
        elif self.how == "grown":
            self.values.resize_(len(self.values) + 1).fill_(1.0)
        else:
            self.values += 1
        return self.net(x)


class Unfriendly(Wrapped):
    """Can be neither copied nor pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.scale = torch.ones((), requires_grad=True) * 1.0

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("not to be copied")

    def forward(self, x: Tensor) -> Any:
        with self.lock:
            self.last = self.net(x) * self.scale
        return self.last


@dataclass
class Answer:
    logits: Tensor


class Returning(Wrapped):
    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.wrap = wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.net(x))


def changed(change: Callable[[nn.Sequential], Any]) -> nn.Module:
    net = plain_net()
    change(net)
    return net.eval()


def hooked(net: nn.Sequential) -> None:
    net[0].register_forward_pre_hook(lambda module, given: (given[0].clone(),))
    net[0].register_forward_hook(lambda module, given, output: output * 1.0)
    net[3].register_full_backward_hook(lambda module, before, after: None)


def batch_normed() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*net, nn.Linear(4 * (SIDE - 2) ** 2, CLASSES))


def tied() -> nn.Module:
    net = Wrapped()
    net.other = net.net[3]
    return net


def frozen(net: nn.Module) -> nn.Module:
    module: nn.Module = torch.jit.freeze(torch.jit.script(net))
    return module


IMAGE = torch.rand(4, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
SAME: dict[str, Callable[[], nn.Module]] = {
    "checkpoint": lambda: Checkpointed(False, 3),
    "checkpoint of all": lambda: Checkpointed(False, 6),
    "checkpoint by hand": CheckpointedByHand,
    "vmap over samples": BySample,
    "jvp": ThroughJvp,
    "functional_call": Called,
    "sparse": lambda: WithBuffer(torch.eye(3).to_sparse()),
    "sparse rows": lambda: WithBuffer(torch.eye(3).to_sparse_csr()),
    "sparse product": lambda: Projected(torch.eye(CLASSES).to_sparse()),
    "complex": lambda: WithBuffer(torch.zeros(2, dtype=torch.complex64)),
    "NaN": lambda: WithBuffer(torch.tensor([float("nan"), -0.0])),
    "extra state": WithExtraState,
    "counter": lambda: Counting("added"),
    "replaced buffer": lambda: Counting("replaced"),
    "growing buffer": lambda: Counting("grown"),
    "lock, no copies, non-leaf tensors": Unfriendly,
    "dict": lambda: Returning(lambda logits: {"logits": logits}),
    "dataclass": lambda: Returning(Answer),
    "tuple": lambda: Returning(lambda logits: (logits, logits.sum())),
    "hooks": lambda: changed(hooked),
    "weight_norm": lambda: changed(lambda net: parametrizations.weight_norm(net[3])),
    "tied": tied,
    "script": lambda: torch.jit.script(plain_net()),
    "trace": lambda: torch.jit.trace(plain_net(), IMAGE),
    "frozen script": lambda: frozen(plain_net()),
    "compiled": lambda: torch.compile(plain_net(), backend="eager"),
    "compiled by AOT": lambda: torch.compile(plain_net(), backend="aot_eager"),
    "traced by fx": lambda: torch.fx.symbolic_trace(plain_net()),
    "data parallel": lambda: nn.DataParallel(plain_net()),
    "channels last": lambda: plain_net().to(memory_format=torch.channels_last),
    "double": lambda: plain_net().double(),
}  # type: ignore[dict-item]
OTHER: dict[str, Callable[[], nn.Module]] = {
    "spectral_norm": lambda: changed(lambda net: parametrizations.spectral_norm(net[3])),
    "batch statistics": batch_normed,
    "vmap": lambda: Ensemble(True),
    "half": lambda: plain_net().half(),
    "bfloat16": lambda: plain_net().bfloat16(),
}


def state_of(net: nn.Module) -> tuple[dict[str, Any], list[Any]]:
    """Copies of everything in the state, and the modes."""
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = {name: value.detach().to_dense().clone() for name, value in tensors.items()}
    return held, [getattr(module, "training", None) for module in net.modules()] if hasattr(net, "training") else []


def assert_same_state(net: nn.Module, before: tuple[dict[str, Any], list[Any]]) -> None:
    now = state_of(net)
    assert now[0].keys() == before[0].keys()
    assert now[1] == before[1]
    for name, value in before[0].items():
        assert now[0][name].shape == value.shape
        assert torch.equal(now[0][name].view(-1).view(torch.uint8), value.view(-1).view(torch.uint8)), name


def slopes(model: ra.Classifier, x: Tensor, labels: Tensor, smoothed: bool) -> Tensor:
    leaf = x.clone().requires_grad_()
    with model.evaluating(), going_back("smoothed" if smoothed else None):
        margin = margin_of(model.logits(leaf), labels)
        (slope,) = torch.autograd.grad(margin.sum(), leaf)
    return slope


@pytest.mark.parametrize("name", SAME)
def test_the_gradient_is_that_of_the_plain_network(name: str) -> None:
    """Its own; and the smoothed one, unless it says that its ReLUs cannot be smoothed. Nothing of it changes."""
    net, plain, labels = SAME[name](), ra.Classifier(plain_net()), torch.tensor([0, 1, 2, 3])
    before, model = state_of(net), ra.Classifier(net)
    with model.evaluating():
        kinks = kinks_at(model, IMAGE)
    known = kinks_at(plain, IMAGE)
    torch.testing.assert_close(slopes(model, IMAGE, labels, False), slopes(plain, IMAGE, labels, False))
    if any(kinks):
        assert kinks == pytest.approx(known, rel=0.01)
        mine, right = model.with_smoothing(known), plain.with_smoothing(known)
        torch.testing.assert_close(slopes(mine, IMAGE, labels, True), slopes(right, IMAGE, labels, True))
    assert_same_state(net, before)


def test_smoothed_gradients_are_those_of_a_loop() -> None:
    """By the chain rule, layer by layer."""
    net, labels = plain_net(), torch.tensor([0, 1, 2, 3])
    kinks = kinks_at(model := ra.Classifier(net), IMAGE)
    x = IMAGE.clone().requires_grad_()
    first = net[0](x)
    second = net[3](F.relu(first).flatten(1))
    (back,) = torch.autograd.grad(margin_of(net[5](h := F.relu(second).detach().requires_grad_()), labels).sum(), h)
    (back,) = torch.autograd.grad(
        net[3](h := F.relu(first).flatten(1).detach().requires_grad_()),
        h,
        back * torch.sigmoid(STEEPNESS / kinks[1] * second),
    )
    (back,) = torch.autograd.grad(first, x, back.view_as(first) * torch.sigmoid(STEEPNESS / kinks[0] * first))
    torch.testing.assert_close(slopes(model.with_smoothing(kinks), IMAGE, labels, True), back)


@pytest.mark.parametrize("name", OTHER)
def test_the_gradient_is_that_of_differences(name: str) -> None:
    """Of the margins of one sample, in double precision where the network may have it."""
    net = OTHER[name]()
    before, model = state_of(net), ra.Classifier(net)
    rough = name in ("half", "bfloat16")
    exact = ra.Classifier(copy.deepcopy(net).double())
    x, labels = IMAGE.double(), torch.tensor([0, 1, 2, 3])
    direction = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1))
    with exact.evaluating(), torch.no_grad():
        ahead, behind = (margin_of(exact.logits(x + step * direction), labels).sum() for step in (1e-6, -1e-6))
    slope = slopes(model, IMAGE, labels, False).double()
    expected = float((ahead - behind) / 2e-6)
    assert float((slope * direction).sum()) == pytest.approx(
        expected, rel=0.1 if rough else 1e-3, abs=0.05 if rough else 1e-4
    )
    assert_same_state(net, before)


def test_an_ensemble_by_vmap_is_attacked_as_one_by_one() -> None:
    data = IMAGE, torch.tensor([0, 1, 2, 3])
    found = [
        ra.evaluate(Ensemble(vectorised), data, "linf", strengths={"linf": [0.02, 0.1]}, **QUIET)
        for vectorised in (True, False)
    ]
    one, other = (result.outcome("linf") for result in found)
    np.testing.assert_allclose(one.minimal_size, other.minimal_size, rtol=0.02)
    assert (one.true_gradient_size is None) == (other.true_gradient_size is None)


@pytest.mark.parametrize(
    "name", ["frozen script", "sparse", "sparse rows", "extra state", "growing buffer", "checkpoint"]
)
def test_evaluations_of_such_networks_come_to_an_end(name: str) -> None:
    net, plain = SAME[name](), plain_net()
    before, labels = state_of(net), plain(IMAGE).argmax(1)
    asked = {"strengths": {"linf": [0.02, 0.2]}} | QUIET | {"diagnose": True}
    found, known = (ra.evaluate(each, (IMAGE, labels), "linf", **asked).outcome("linf") for each in (net, plain))
    np.testing.assert_array_equal(found.broken(), known.broken())
    assert_same_state(net, before)


def test_a_backward_pass_that_cannot_be_is_said() -> None:
    with pytest.warns(UserWarning, match="use_reentrant=True"):
        ra.evaluate(Checkpointed(True, 3), (IMAGE, torch.tensor([0, 1, 2, 3])), "linf", **QUIET)


# ---- state that changes -------------------------------------------------------------------------------------------


class Drifting(WithBuffer):
    """A forward pass moves a buffer, on which the next one depends."""

    def __init__(self) -> None:
        super().__init__(torch.ones(()))

    def forward(self, x: Tensor) -> Any:
        self.values.mul_(1.1)
        return self.net(x) * self.values


class DriftingNumber(Wrapped):
    calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.net(x) * (1 + self.calls)


def quantisation_aware() -> nn.Module:
    from torch.ao import quantization

    net = nn.Sequential(quantization.QuantStub(), *plain_net(), quantization.DeQuantStub()).train()
    net.qconfig = quantization.get_default_qat_qconfig("x86")
    prepared: nn.Module = quantization.prepare_qat(net)
    prepared(0.5 * IMAGE)
    return prepared.eval()


class Drawn(Wrapped):
    def forward(self, x: Tensor) -> Any:
        return self.net(x + 0.3 * torch.randn_like(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "what"),
    [(Drifting, "values"), (DriftingNumber, "calls"), (quantisation_aware, "activation_post_process"), (Drawn, None)],
)
def test_outputs_that_change_with_the_state_are_called_so(make: Callable[[], nn.Module], what: str | None) -> None:
    net = make()
    before = state_of(net)
    with (model := ra.Classifier(net)).evaluating():
        told = check_model(model, IMAGE, torch.tensor([0, 1, 2, 3]))
    assert any("changes its state" in each and what in each for each in told if what) == (what is not None)
    assert any("randomised" in each for each in told) == (what is None)
    ra.evaluate(net, (IMAGE, torch.tensor([0, 1, 2, 3])), "linf", strengths={"linf": [0.1]}, **QUIET)
    assert_same_state(net, before)


class Writing(Wrapped):
    """A forward pass writes into a parameter, on which outputs may depend or not."""

    def __init__(self, matters: bool) -> None:
        super().__init__()
        self.scale, self.matters = nn.Parameter(torch.ones(())), matters

    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            self.scale.mul_(1.01)
        return self.net(x) * self.scale if self.matters else self.net(x)


@pytest.mark.parametrize("matters", [True, False])
def test_a_model_that_writes_into_its_parameters_is_refused(matters: bool) -> None:
    """Before any attack, with the name of the parameter: its numbers would be those of no network."""
    with pytest.raises(ra.UserError, match=r"scale.*buffer"):
        ra.evaluate(Writing(matters), (IMAGE, torch.tensor([0, 1, 2, 3])), "linf", **QUIET)


def test_a_counter_that_outputs_do_not_depend_on_is_no_matter() -> None:
    told = check_model(ra.Classifier(Counting("added")), IMAGE, torch.tensor([0, 1, 2, 3]))
    assert not any("state" in each or "randomised" in each for each in told)


# ---- training -----------------------------------------------------------------------------------------------------


class Unused(Wrapped):
    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(3, 3)


@pytest.mark.parametrize(
    ("recipe", "against"), [("awp", {"linf": 0.1}), ("mng-ac", {"linf": 0.1, "l2": 0.5}), ("pgd", {"linf": 0.1})]
)
def test_weights_that_a_loss_does_not_reach_stay(recipe: str, against: dict[str, float]) -> None:
    """And the others learn what they learn without them."""
    data = ra.Dataset.from_arrays(IMAGE, torch.tensor([0, 1, 2, 3]), "made up")
    settings = Settings(epochs=1, batch_size=4, weight_decay=0.0)
    with_unused, without = Unused(), Wrapped()
    before = with_unused.unused.weight.detach().clone()
    for net in (with_unused, without):
        ra.train(net, data, recipe, against, settings=settings, progress=False)
    torch.testing.assert_close(with_unused.unused.weight, before)
    for name, value in without.state_dict().items():
        torch.testing.assert_close(with_unused.state_dict()[name], value)


@pytest.mark.parametrize("make", [WithExtraState, lambda: WithBuffer(torch.eye(3).to_sparse())])
def test_a_state_that_no_file_holds_is_refused_before_training(make: Callable[[], nn.Module]) -> None:
    data = ra.Dataset.from_arrays(IMAGE, torch.tensor([0, 1, 2, 3]), "made up")
    with pytest.raises(UserError, match="which a file of weights cannot hold"):
        ra.train(make(), data, "standard", progress=False)
