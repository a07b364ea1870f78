"""Complete certificates against grids that are fine enough to see every mistake, and against attacks."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.cells import nearest

NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
STEPS = 301


class _Skip(nn.Module):
    """Two layers with a way around the second."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(2, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(2 * x - 1).relu()
        return self.last((self.second(x) + x).relu())


def _subject(seed: int, count: int) -> tuple[nn.Module, Subject, Samples]:
    """A network with several classes on the unit square, and points of it."""
    torch.manual_seed(seed)
    net = _Skip().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(3)
        net.last.bias -= net(torch.rand(500, 2)).mean(0)
        x = torch.rand(count, 2)
        y = net(x).argmax(1)
    assert len(y.unique()) > 1
    return net, Subject(ra.Classifier(net), (2,)), Samples(x.double(), y, torch.arange(count))


@pytest.mark.parametrize("attack", NORMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_sizes_are_those_that_a_grid_of_the_square_shows(attack: str, seed: int) -> None:
    net, subject, samples = _subject(seed, 6)
    found = certificate_named("complete").sizes(subject, attack_named(attack), samples)
    lines = [torch.linspace(0, 1, STEPS)] * 2
    grid = torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).view(-1, 2)
    with torch.no_grad():
        mistaken = net(grid).argmax(1) != samples.labels[:, None]
    distance = torch.where(mistaken, torch.cdist(samples.x, grid.double(), p=NORMS[attack]), torch.inf).amin(1)
    apart = {"linf": 1.0, "l2": 2**0.5, "l1": 2.0}[attack] / (STEPS - 1)
    assert (found <= distance).all()
    assert (found >= distance - apart).all()
    crown = certificate_named("crown").sizes(subject, attack_named(attack), samples)
    assert (found >= crown).all()
    few = {"nodes": 1} if attack != "l2" else {"regions": 1}
    early = certificate_named("complete", **few).sizes(subject, attack_named(attack), samples)
    assert (early <= found * (1 + 1e-9)).all()


def test_l0_counts_the_numbers_that_have_to_change() -> None:
    net, subject, samples = _subject(1, 6)
    found = certificate_named("complete").sizes(subject, attack_named("l0"), samples)
    lines = torch.linspace(0, 1, STEPS)
    for x, label, size in zip(samples.x.float(), samples.labels, found, strict=True):
        moved = x.repeat(2 * STEPS, 1)
        moved[:STEPS, 0], moved[STEPS:, 1] = lines, lines
        with torch.no_grad():
            by_one = bool((net(moved).argmax(1) != label).any())
        assert float(size) == (0.0 if by_one else 1.0)


def test_attacks_come_near_what_is_complete_and_never_below(tmp_path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)).eval()
    images = torch.rand(5, 1, 4, 4)
    data = (images, net(images).argmax(1).detach())
    common = {"run": tmp_path / "run", "progress": False}
    ra.evaluate(net, data, ["linf", "l2"], **common)
    result = ra.certify(net, data, ["linf", "l2"], method="complete", **common)
    for attack in ("linf", "l2"):
        both = result.two_sided(attack)
        known = both.upper <= both.largest
        assert known.any()
        np.testing.assert_allclose(both.upper[known], both.lower[known], rtol=5e-3)


def test_the_nearest_point_of_half_spaces() -> None:
    assert nearest(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, 1.0])) is None
    found = nearest(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 1.0]))
    assert found is not None
    np.testing.assert_allclose(found, [1.0, 0.5])


def test_other_networks_are_refused_in_one_sentence() -> None:
    data = (torch.rand(1, 1, 4, 4), torch.tensor([0]))
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 2))
    with pytest.raises(ra.UserError, match=r"is for networks of at most 2,048 ReLUs, and .* an activation other than"):
        ra.certify(net, data, "linf", method="complete", progress=False)
