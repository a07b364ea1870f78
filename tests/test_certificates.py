"""Certificates against outside truth: bounds of auto_LiRPA, closed forms, and points that would have to be wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import benchmark
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Network
from robustatlas.certificates.reading import graph_of, program_of
from robustatlas.certificates.regions import NormBall, distances

GOLDEN = Path(__file__).parent / "goldens" / "crown.npz"
SIZES = {"linf": (0.01, 0.03, 0.1), "l2": (0.05, 0.15, 0.5), "l1": (0.1, 0.3, 1.0)}
NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}


def _digits(count: int) -> tuple[Tensor, Tensor]:
    data = ra.load_dataset("digits")
    return data.images[:count].double(), data.labels[:count]


@pytest.mark.parametrize("net", ["standard", "linf", "l2"])
def test_ibp_and_crown_are_those_of_auto_lirpa(net: str) -> None:
    golden, (x, y) = np.load(GOLDEN), _digits(4)
    subject = Subject(ra.load_model(f"builtin:digits-{net}"), (1, 8, 8))
    real = Network(subject.network.graph, unit=0.0)
    for norm in ("linf", "linf_nobox", "l2", "l1"):
        for method, backwards in (("IBP", False), ("CROWN", True)):
            expected = golden[f"margins_{net}_{norm}_{method}"][:, :4]
            for size, known in zip(SIZES[norm.partition("_")[0]], expected, strict=True):
                ball = NormBall(x, x.new_full((4,), size), NORMS[norm.partition("_")[0]], box=norm == "linf")
                found = Bounds(real, ball, backwards=backwards).margins(y, backwards=backwards).numpy()
                other = np.isfinite(known)
                np.testing.assert_allclose(found[other], known[other], rtol=0, atol=1e-4)


def test_certified_radii_are_those_of_auto_lirpa_but_for_the_rounding_of_the_network() -> None:
    golden, (x, y) = np.load(GOLDEN), _digits(4)
    subject = Subject(ra.load_model("builtin:digits-standard"), (1, 8, 8))
    for method, key in (("interval", "IBP"), ("crown", "CROWN")):
        known = golden[f"radius_standard_linf_{key}"][:4]
        for unit, below in ((0.0, 1e-3), (None, 2e-2)):
            at = Subject(subject.model, subject.shape)
            at.__dict__["network"] = Network(subject.network.graph, unit)
            found = certificate_named(method).sizes(at, attack_named("linf"), Samples(x, y, torch.arange(4))).numpy()
            right = known > 0
            assert (found[right] > known[right] * (1 - below)).all()
            assert (found[right] < known[right] * (1 + 1e-3)).all()


class _Residual(nn.Module):
    def __init__(self, activation: nn.Module, pooling: nn.Module) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
        self.activation, self.pooling = activation, pooling
        self.last = nn.Linear(8 * 2 * 2, 4)
        self.norm.running_mean, self.norm.running_var = torch.randn(4) * 0.1, torch.rand(4) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.norm(self.first((x - 0.5) / 0.25)))
        wide = torch.cat([x, 0.5 * self.activation(self.second(x)) - x], 1)
        return self.last(self.pooling(wide)[:, :, ::1, :].flatten(1)) * 0.5 + 0.1


ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.ELU, nn.CELU, nn.SELU, nn.Softplus, nn.GELU, nn.SiLU)
ACTIVATIONS += (nn.Mish, nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid)
POOLINGS = (nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2), nn.MaxPool2d(3, stride=2, padding=1))


@pytest.mark.parametrize("seed", range(len(ACTIVATIONS)))
def test_no_point_of_a_certified_ball_is_misclassified(seed: int) -> None:
    torch.manual_seed(seed)
    net = _Residual(ACTIVATIONS[seed](), POOLINGS[seed % 4]).double().eval()
    x = torch.rand(4, 3, 4, 4, dtype=torch.float64)
    y = net(x).argmax(1)
    subject = Subject(ra.Classifier(net), (3, 4, 4))
    torch.testing.assert_close(subject.network.graph.run(x), net(x))
    for norm, method in (("linf", "crown"), ("l2", "crown"), ("l1", "interval")):
        sizes = certificate_named(method).sizes(subject, attack_named(norm), Samples(x, y, torch.arange(4)))
        assert (sizes > 0).all()
        points, wrong = _points(net, x, y, sizes, NORMS[norm]), 0
        for some in points:
            wrong += int((net(some).argmax(1) != y).sum())
        assert wrong == 0


def _points(net: nn.Module, x: Tensor, y: Tensor, sizes: Tensor, p: float) -> list[Tensor]:
    """Random points of the balls, and those that gradients lead to."""
    found = []
    gradient = torch.zeros_like(x)
    for step in range(30):
        drawn = torch.randn_like(x) if step % 2 else gradient + 1e-9
        if p == torch.inf:
            move = drawn.sign()
        elif p == 2:
            move = drawn / drawn.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        else:
            best = drawn.flatten(1).abs().argmax(1)
            move = torch.zeros_like(drawn).flatten(1).scatter_(1, best[:, None], 1.0).view_as(x) * drawn.sign()
        point = (x + move * sizes.view(-1, 1, 1, 1)).clamp(0, 1).requires_grad_()
        logits = net(point)
        other = logits.scatter(1, y[:, None], -torch.inf).amax(1)
        (gradient,) = torch.autograd.grad((other - logits.gather(1, y[:, None])[:, 0]).sum(), point)
        found.append(point.detach())
    return found


class _Block(nn.Module):
    """A residual block with a shortcut of its own, after a strided convolution."""

    def __init__(self, normalised: bool) -> None:
        super().__init__()
        self.first, self.around = nn.Conv2d(2, 4, 3, 2, 1), nn.Conv2d(4, 6, 1, 2)
        self.one, self.two = nn.Conv2d(4, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 1, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) if normalised else nn.Identity() for _ in range(2))
        self.last = nn.Linear(6 * 3 * 3, 4)
        for norm in self.norms if normalised else ():
            norm.running_mean, norm.running_var = torch.randn(6) * 0.1, torch.rand(6) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = self.norms[1](self.two(self.norms[0](self.one(x)).relu())) + self.around(x)
        return self.last(x.relu().flatten(1))


@pytest.mark.parametrize("normalised", [False, True])
def test_bounds_of_residual_networks_are_those_of_dense_matrices(normalised: bool) -> None:
    torch.manual_seed(1)
    dense, net = benchmark("crown_by_matrices"), _Block(normalised).double().eval()
    x, y = torch.rand(3, 2, 11, 11, dtype=torch.float64), torch.tensor([0, 1, 2])
    layers = [
        {-1: net.first},
        {0: lambda x: net.norms[0](net.one(x))},
        {0: net.around, 1: lambda x: net.norms[1](net.two(x))},
        {2: lambda x: net.last(x.flatten(1))},
    ]
    real = Network(Subject(ra.Classifier(net), (2, 11, 11)).network.graph, unit=0.0)
    with torch.no_grad():
        known = dense.matrices(layers, (2, 11, 11))
        for radius in (0.001, 0.01, 0.05):
            ball = NormBall(x, x.new_full((3,), radius), torch.inf)
            found = Bounds(real, ball, backwards=True).margins(y, backwards=True)
            expected = torch.stack([dense.margins(known, x[k : k + 1], int(y[k]), radius) for k in range(3)])
            other = found.isfinite()
            assert (found[other] > expected[other] - 1e-12).all()  # intervals make single ones tighter
            assert (found[other] - expected[other]).abs().max() < 1e-3 * radius


@pytest.mark.parametrize("net", ["standard", "ibp"])
@pytest.mark.parametrize("norm", NORMS)
def test_a_bound_is_never_worse_than_the_interval_bound(net: str, norm: str) -> None:
    x, y = _digits(6)
    subject = Subject(ra.load_model(f"builtin:digits-{net}"), (1, 8, 8))
    for size in SIZES[norm]:
        bounds = Bounds(subject.network, NormBall(x, x.new_full((6,), size), NORMS[norm]), backwards=True)
        alone = Bounds(subject.network, NormBall(x, x.new_full((6,), size), NORMS[norm]), backwards=False)
        margins, _ = certificate_named("crown").margins_and_reaches(bounds, y)
        assert (margins >= alone.margins(y, backwards=False) - 1e-12).all()
        for mine, theirs in zip(bounds.nodes, alone.nodes, strict=True):
            assert (mine.low >= theirs.low - 1e-12).all() and (mine.high <= theirs.high + 1e-12).all()


@pytest.mark.parametrize(
    "activation", [nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.Softplus, nn.ELU, nn.Mish, nn.Hardswish]
)
def test_lines_stay_near_smooth_functions_on_wide_intervals(activation: type[nn.Module]) -> None:
    function = (
        Subject(ra.Classifier(nn.Sequential(activation(), nn.Linear(2, 2))), (2,)).network.graph.nodes[1].operation
    )
    ends = [-300.0, -20.0, -4.0, -1.0, 0.0, 0.3, 5.0, 40.0, 500.0]
    pairs = torch.tensor([(a, b) for a in ends for b in ends if a <= b], dtype=torch.float64)
    low, high = pairs.unbind(1)
    lines = function.lines(low, high)
    x = low + (high - low) * torch.linspace(0, 1, 4001, dtype=torch.float64)[:, None]
    value = function.function(x)
    below, above = lines.lower_A * x + lines.lower_bias, lines.upper_A * x + lines.upper_bias
    assert (below <= value + 1e-12).all() and (above >= value - 1e-12).all()
    touching = 0.04  # of the function, whatever the width
    assert ((value - below).amin(0) < touching).all() and ((above - value).amin(0) < touching).all()


@pytest.mark.parametrize("p", [torch.inf, 2.0, 1.0])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_the_closed_form_is_the_smallest_move_in_the_box(p: float, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    weight = torch.rand(1, 6, generator=draw, dtype=torch.float64)
    room = torch.rand(1, 6, generator=draw, dtype=torch.float64)
    margin = (weight * room).sum(1) * torch.rand(1, generator=draw, dtype=torch.float64)
    threat = {torch.inf: "linf", 2.0: "l2", 1.0: "l1"}[p]
    move = attack_named(threat).threat._shortest(weight, room, margin)  # the projection of FAB, found by other means
    expected = torch.linalg.vector_norm(move, p, dim=1)
    torch.testing.assert_close(distances(weight, room, margin, p), expected, rtol=1e-5, atol=1e-9)


def test_verified_examples_of_a_linear_network_are_never_below_what_is_certified() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    x = torch.rand(6, 1, 8, 8)
    data, attacks = (x, net(x).argmax(1)), ["linf", "l2", "l1", "l0"]
    found = ra.evaluate(net, data, attacks, progress=False)
    certified = ra.certify(net, data, attacks, progress=False)
    for attack in attacks:
        lower, upper = certified.certified_size(attack), found.minimal_size(attack)
        assert (lower <= upper).all()
        if attack != "l0":
            assert np.median(upper / lower) < 1.001


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_curves_of_one_parameter_are_linear_between_their_breaks(name: str) -> None:
    threat = attack_named(name).threat
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(3, 3, 4, 4, generator=draw, dtype=torch.float64)
    breaks = torch.stack(threat.breaks(x)).flatten(2).sort(0).values
    low = torch.cat([breaks[:1] - 1, breaks])
    high = torch.cat([breaks, breaks[-1:] + 1])
    for a, b in zip(low, high, strict=True):
        a, b = (each.clamp(-3, 3).view_as(x) for each in (a, b))
        middle = threat.transform(x, (a + b) / 2)
        torch.testing.assert_close(middle, (threat.transform(x, a) + threat.transform(x, b)) / 2)
    theta = torch.tensor([[0.2], [-0.3], [0.1]], dtype=torch.float64)
    torch.testing.assert_close(threat.apply(x, theta), threat.transform(x, theta.view(-1, 1, 1, 1).expand_as(x)))


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_no_image_of_a_certified_curve_is_misclassified(name: str) -> None:
    torch.manual_seed(3)
    net = _Residual(nn.ReLU(), nn.AvgPool2d(2)).eval()
    x = torch.rand(6, 3, 4, 4)
    y = net(x).argmax(1)
    attack = attack_named(name)
    sizes = certificate_named("line").sizes(
        Subject(ra.Classifier(net), (3, 4, 4)), attack, Samples(x.double(), y, torch.arange(6))
    )
    reach = sizes.clamp_max(3.0)
    for share in torch.linspace(-1, 1, 201):
        image = attack.threat.apply(x, (reach * share)[:, None].float())
        assert (net(image).argmax(1) == y).all()
    beyond = torch.stack([attack.threat.apply(x, (sizes * s * 1.01)[:, None].float()) for s in (-1, 1)])
    known = sizes.isfinite()
    assert (net(beyond.flatten(0, 1)).argmax(1).view(2, -1) != y).any(0)[known].all()


def test_what_bounds_do_not_know_is_named_in_one_sentence() -> None:
    x, y = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
    odd = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    with pytest.raises(ra.UserError, match=r"layer_norm.*no bound is known"):
        ra.certify(odd, (x, y), "linf", progress=False)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with pytest.raises(ra.UserError, match="transforms its inputs"):
        ra.certify(ra.Classifier(plain, prepare=lambda z: z.round()), (x, y), "linf", progress=False)
    with pytest.raises(ra.UserError, match="draws random numbers"):
        ra.certify(ra.Classifier(plain, draws=4), (x, y), "linf", progress=False)
    with pytest.raises(ra.UserError, match="No certificate covers 'stadv'"):
        ra.certify(ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(2), "stadv", progress=False)
    net, digits = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(2)
    with pytest.raises(ra.UserError, match="is not linear"):
        ra.certify(net, digits, method="linear", progress=False)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bounds_of_points_have_the_gradient_of_the_network(activation: type[nn.Module]) -> None:
    """Training on certificates begins at radius 0."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), activation(), nn.Linear(6, 6), activation(), nn.Linear(6, 3)).double().eval()
    x, labels, parameters = torch.rand(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1]), list(net.parameters())
    logits = net(x)
    margins = logits.gather(1, labels[:, None]) - logits
    others = torch.arange(3) != labels[:, None]
    expected = torch.autograd.grad(margins[others].sin().sum(), parameters)
    network = Network(graph_of(program_of(net, x), net), unit=0.0)
    for backwards in (False, True):
        ball = NormBall(x, x.new_zeros(5), torch.inf)
        bounds = Bounds(network, ball, backwards=False).margins(labels, backwards=backwards)
        found = torch.autograd.grad(bounds[others].sin().sum(), parameters, retain_graph=True)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
