"""Randomised smoothing and Lipschitz constants against closed forms."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.lipschitz import _convolution, rates_of
from robustatlas.certificates.operations import Convolution
from robustatlas.report.facts import facts_of

L2 = attack_named("l2")


def _plane() -> tuple[ra.Classifier, Tensor, Tensor]:
    """A linear classifier of two classes, and points at known distances of its plane, the last one on it."""
    net = nn.Linear(9, 2)
    normal = torch.ones(9) / 3
    net.load_state_dict({"weight": torch.stack([2 * normal, 0 * normal]), "bias": torch.tensor([-3.0, 0.0])})
    x = torch.full((1, 9), 0.5) + torch.tensor([0.3, 0.1, -0.2, 0.0])[:, None] * normal
    return ra.Classifier(net, name="plane"), x, torch.tensor([0, 0, 1, 0])


def test_smoothing_a_plane_gives_the_distance_and_abstains_on_it() -> None:
    model, x, y = _plane()
    smoothing = certificate_named("smoothing", sigma=0.2, draws=20_000)
    samples = Samples(x.double(), y, torch.arange(4))
    found = smoothing.sizes(Subject(model, (9,)), L2, samples)
    exact = torch.tensor([0.3, 0.1, 0.2])
    assert (found[:3] <= exact).all()  # each with probability .999
    assert (found[:3] > exact - 0.02).all()
    assert found[3].isnan()
    alone = smoothing.sizes(Subject(model, (9,)), L2, samples.take(torch.tensor([2])))
    assert alone[0] == found[2]
    wrong = smoothing.sizes(Subject(model, (9,)), L2, Samples(x.double(), 1 - y, torch.arange(4)))
    assert (wrong[:3] == 0).all()


def test_a_smoothed_model_has_a_row_of_its_own_that_says_how_it_was_drawn() -> None:
    model, x, y = _plane()
    x = x.clamp(0, 1)
    smoothing = certificate_named("smoothing", sigma=0.2, draws=500)
    result = ra.certify(model, (x, y), "l2", method=smoothing, progress=False)
    row = "l2 (smoothed, sigma 0.2)"
    assert list(result.certified_sizes) == [row]
    assert result.certified_sizes[row].abstained is not None
    (facts,) = facts_of(result).certified
    assert facts.both is None
    assert "Another model than the run's own; n = 500, alpha = 0.001; it abstains on 1 images." in facts.sentence
    with pytest.raises(ra.UserError, match="Nothing is certified of plane under 'l2'"):
        result.certified_size("l2")
    with pytest.raises(ra.UserError, match="sigma=-1"):
        certificate_named("smoothing", sigma=-1)


@pytest.mark.parametrize("of", ["vector", "each", "one"])
def test_a_constant_that_is_given_divides_the_margin(of: str) -> None:
    model, x, y = _plane()
    certificate = certificate_named("lipschitz", constant=2.0, of=of)
    found = certificate.sizes(Subject(model, (9,)), L2, Samples(x.double(), y, torch.arange(4)))
    margins = torch.tensor([0.6, 0.2, 0.4, 0.0]) / {"vector": 2**0.5, "each": 2.0, "one": 1.0}[of] / 2.0
    np.testing.assert_allclose(found, margins, rtol=1e-4, atol=1e-5)


def test_layers_of_a_plane_give_its_distance() -> None:
    model, x, y = _plane()
    found = certificate_named("lipschitz").sizes(Subject(model, (9,)), L2, Samples(x.double(), y, torch.arange(4)))
    np.testing.assert_allclose(found, [0.3, 0.1, 0.2, 0.0], rtol=1e-4, atol=1e-5)
    assert (found <= torch.tensor([0.3, 0.1, 0.2, 0.0]) + 1e-7).all()


class _Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.pool, self.last = nn.MaxPool2d(3, 2, 1), nn.Linear(6 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.gelu(self.first(x))
        x = torch.cat([self.pool(x + self.second(x)), nn.functional.avg_pool2d(x, 2)], 1)
        return self.last(x.flatten(1))


def test_margins_of_a_network_change_no_faster_than_its_layers_say() -> None:
    torch.manual_seed(0)
    net = _Wide().double().eval()
    rates = rates_of(Subject(ra.Classifier(net), (1, 4, 4)).network.graph)
    x = torch.randn(50, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    logits = net(x)
    for i in range(3):
        for j in range(3):
            if i != j:
                (slope,) = torch.autograd.grad((logits[:, i] - logits[:, j]).sum(), x, retain_graph=True)
                assert (slope.flatten(1).norm(dim=1) <= rates[i, j]).all()


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 1, 1, 1), (2, 0, 1, 2), (1, 2, 2, 1)])
def test_the_norm_of_a_convolution_is_little_above_that_of_its_matrix(
    stride: int, padding: int, dilation: int, groups: int
) -> None:
    torch.manual_seed(1)
    weight = torch.randn(4, 2 // groups, 3, 3, dtype=torch.float64)
    pair = ((stride,) * 2, (padding,) * 2, (dilation,) * 2)
    operation = Convolution(weight, None, *pair, groups)
    rows = operation.apply(torch.eye(2 * 64, dtype=torch.float64).view(-1, 2, 8, 8)).flatten(1)
    exact = float(torch.linalg.matrix_norm(rows, 2))
    found = _convolution(operation, (8, 8))
    assert exact <= found * (1 + 1e-9)
    if stride == 1:
        assert found <= 1.2 * exact
