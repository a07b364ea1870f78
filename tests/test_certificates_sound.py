"""No certified size is above an example, on networks of all layers that are read and however layers are scaled."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import benchmark
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Certificate, Samples, Subject, certificate_named
from robustatlas.certificates.crossing import crossing

NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
SCALES = (1e-12, 1e-6, 1.0, 1e6, 1e12)


def _sizes(net: nn.Module, x: Tensor, y: Tensor, certificate: Certificate, attack: str) -> Tensor:
    samples = Samples(x.double(), y, torch.arange(len(x)))
    subject = Subject(ra.Classifier(net), tuple(x.shape[1:]))
    with torch.no_grad():
        return certificate.sizes(subject, attack_named(attack), samples).nan_to_num(nan=0.0, posinf=torch.inf)


def _scaled(hidden: int, inputs: int, scale: float, linear: bool) -> nn.Sequential:
    """Return one and the same function for every ``scale``: the first layer times it, the second one over it."""
    torch.manual_seed(2)
    first, second, last = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 3)
    activation = nn.Identity() if linear else nn.ReLU()
    with torch.no_grad():
        for parameter in (*first.parameters(), *second.parameters(), *last.parameters()):
            parameter.mul_(2)
        last.bias -= last(activation(second(activation(first(torch.rand(300, inputs)))))).mean(0)
        first.weight.mul_(scale)
        first.bias.mul_(scale)
        second.weight.div_(scale)
    return nn.Sequential(nn.Flatten(), first, activation, second, activation, last).eval()


@pytest.mark.parametrize("method", ["interval", "crown"])
@pytest.mark.parametrize("attack", NORMS)
def test_scaled_layers_change_no_size_and_none_is_above_the_exact_one(method: str, attack: str) -> None:
    torch.manual_seed(0)
    x, found = torch.rand(4, 2), []
    for scale in SCALES:
        net = _scaled(8, 2, scale, linear=False)
        with torch.no_grad():
            y = net(x).argmax(1)
        exact = benchmark("brute_force").exact_sizes(net, x.double().numpy(), y.numpy(), NORMS[attack])
        sizes = _sizes(net, x, y, certificate_named(method), attack).numpy()
        assert (sizes <= exact).all()
        found.append(sizes)
    assert (found[2] > 0).all()
    np.testing.assert_allclose(found, [found[2]] * len(SCALES), rtol=1e-3)


@pytest.mark.parametrize("attack", NORMS)
def test_branch_and_bound_proves_scaled_networks_up_to_near_the_exact_size(attack: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(4, 2)
    for scale in SCALES:
        net = _scaled(8, 2, scale, linear=False)
        with torch.no_grad():
            y = net(x).argmax(1)
        exact = benchmark("brute_force").exact_sizes(net, x.double().numpy(), y.numpy(), NORMS[attack])
        subject, samples = Subject(ra.Classifier(net), (2,)), Samples(x.double(), y, torch.arange(4))
        for share, proven in ((0.97, True), (1.001, False)):
            sizes = torch.from_numpy(share * exact)
            with torch.no_grad():
                verdicts = certificate_named("beta-crown", seconds=60).prove(
                    subject, attack_named(attack), samples, sizes
                )
            assert (verdicts.proven == proven).all(), f"{scale}, {share}: {verdicts}"


@pytest.mark.parametrize(
    ("method", "attack"), [("linear", "linf"), ("linear", "l2"), ("line", "brightness"), ("smoothing", "l2")]
)
def test_scaled_layers_change_no_size_of_other_methods(method: str, attack: str) -> None:
    torch.manual_seed(0)
    x, settings = torch.rand(4, 1, 3, 3), {"draws": 2000} if method == "smoothing" else {}
    found = []
    for scale in SCALES:
        net = _scaled(8, 9, scale, linear=method == "linear")
        with torch.no_grad():
            y = net(x).argmax(1)
        found.append(_sizes(net, x, y, certificate_named(method, **settings), attack).numpy())
    np.testing.assert_allclose(found, [found[2]] * len(SCALES), rtol=2e-3)


ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (
    nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.ELU, nn.CELU, nn.SELU, nn.Softplus, nn.GELU, nn.SiLU,
    nn.Mish, nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid, lambda: nn.GELU("tanh"),
)  # fmt: skip


class _Change(nn.Module):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(x)


class _Around(nn.Module):
    """A convolution with a way around it."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.convolution(x).split(x.shape[1] // 2, 1)
        return torch.cat([two, one], 1) - 0.5 * x


def _changes(channels: int) -> Sequence[tuple[nn.Module, int]]:
    """Layers for images with sides of 4, with the channels that they leave; sides stay."""
    moved = [
        lambda x: x.flip(3),
        lambda x: x.roll((1, -1), (2, 3)),
        lambda x: x[:, :, [3, 1, 0, 2]],
        lambda x: F.interpolate(x, scale_factor=2)[..., ::2, 1::2],
        lambda x: F.interpolate(x, size=(7, 5), mode="bilinear", align_corners=True)[..., 1:5, :4],
        lambda x: F.pad(x, (1, 0, 2, 1), mode="reflect")[..., :4, :4],
        lambda x: F.pad(x, (1, 0, 2, 1), mode="circular")[..., :4, :4],
        lambda x: F.max_pool2d(x, 3, 1, 1),
        lambda x: F.avg_pool2d(x, 3, 1, 1),
        lambda x: F.avg_pool1d(x.flatten(1), 3, 1, 1).view_as(x),
        lambda x: (x - 0.4) / 0.7,
    ]
    wide = nn.Sequential(nn.Conv2d(channels, 4 * channels, 3, 2, 1), nn.PixelShuffle(2))
    normal = nn.BatchNorm2d(channels)
    normal.running_mean, normal.running_var = torch.randn(channels) * 0.2, torch.rand(channels) + 0.5
    found = [(_Change(each), channels) for each in moved]
    found += [(wide, channels), (normal, channels), (_Around(channels, 4), channels)]
    found += [
        (nn.ConvTranspose2d(channels, 6, 4, 2, 3, 0), 6),
        (nn.ConvTranspose2d(channels, 4, 3, 1, 1, bias=False), 4),
    ]
    return found


def _random_network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    layers: list[nn.Module] = [nn.Conv2d(2, 4, 3, padding=1), ACTIVATIONS[seed % len(ACTIVATIONS)]()]
    channels, side = 4, 4
    for _ in range(int(chance.integers(1, 4))):
        options = _changes(channels)
        layer, channels = options[int(chance.integers(len(options)))]
        layers += [layer, ACTIVATIONS[int(chance.integers(len(ACTIVATIONS)))]()]
    side = nn.Sequential(*layers)(torch.zeros(1, 2, 4, 4)).shape[-1]
    layers += [nn.Flatten(), nn.Linear(channels * side * side, 3)]
    scale = 10.0 ** float(chance.uniform(-0.5, 1))
    net = nn.Sequential(*layers, *([nn.Softmax(1)] if seed % 7 == 0 else [])).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(scale ** (1 / len(layers)) * 1.5)
    return net


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_random_network_has_an_example_within_a_certified_size(first: int) -> None:
    certified = 0
    for seed in range(first, first + 20):
        net = _random_network(seed)
        x = torch.rand(3, 2, 4, 4)
        with torch.no_grad():
            y = net(x).argmax(1)
        method, attack = ("crown", "interval", "beta-crown")[seed % 3], [*NORMS][seed // 3 % 3]
        settings = {"seconds": 0.3} if method == "beta-crown" else {}
        sizes = _sizes(net, x, y, certificate_named(method, **settings), attack)
        samples = Samples(x.double(), y, torch.arange(3))
        for trial in range(3):
            found = crossing(ra.Classifier(net), attack_named(attack), samples, sizes, trial)
            assert (found.isinf() | (found > sizes)).all(), f"{method} of {net} under {attack}: {found} within {sizes}"
        certified += int((sizes > 0).sum())
    assert certified > 50


@pytest.mark.parametrize("attack", NORMS)
def test_certified_accuracies_of_linear_networks_are_those_of_the_closed_form(attack: str) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 3)).eval()
    x = torch.rand(40, 1, 3, 3)
    with torch.no_grad():
        y = net(x).argmax(1)
    exact = _sizes(net, x, y, certificate_named("linear"), attack).numpy()
    strengths = tuple(np.quantile(exact[np.isfinite(exact)], [0.2, 0.5, 0.9]).tolist())
    for method in ("interval", "crown", "beta-crown"):
        given = {attack: [each * 1.003 for each in strengths]}
        result = ra.certify(net, (x, y), attack, method=method, strengths=given, progress=False)
        known = [100 * float((exact > strength).mean()) for strength in given[attack]]
        found = result.certified_sizes[attack].accuracies(given[attack])
        assert (found <= np.array(known) + 1e-9).all()
        if method != "interval":
            np.testing.assert_allclose(found, known)
        stored = result.certified_size(attack)
        assert {float(np.float32(each)) for each in stored} <= {0.0, *(float(np.float32(s)) for s in given[attack])}


@pytest.mark.parametrize("attack", NORMS)
def test_branch_and_bound_decides_networks_with_two_inputs(attack: str) -> None:
    torch.manual_seed(3)
    net, x = _scaled(16, 2, 1.0, linear=False), torch.rand(12, 2)
    with torch.no_grad():
        y = net(x).argmax(1)
    exact = benchmark("brute_force").exact_sizes(net, x.double().numpy(), y.numpy(), NORMS[attack])
    strengths = [0.02, 0.05, 0.1, 0.2]
    asked = {attack: strengths}
    proven = [
        ra.certify(net, (x, y), attack, method=method, strengths=asked, progress=False).certified_size(attack)
        for method in ("crown", "beta-crown")
    ]
    largest = np.array([max([each for each in strengths if each < size], default=0.0) for size in exact])
    assert (proven[1] <= exact).all() and (proven[1] >= proven[0]).all()
    np.testing.assert_allclose(proven[1], largest)
