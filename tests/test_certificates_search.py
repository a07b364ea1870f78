"""The search for the largest certified size, and what larger sets say of smaller ones."""

import pytest
import torch
from torch import Tensor

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.sizes import PRECISION, largest

FALLS = {
    "line": lambda r: 1 - r,
    "parabola": lambda r: 1 - r / 3 - 2 * r / 3 * r,
    "steep": lambda r: 2 - torch.exp(0.6931471805599453 * r),
    "explodes": lambda r: 1 - r**9,
    "root": lambda r: 1 - r.sqrt(),
    "corner": lambda r: torch.where(r < 0.99, 1 - 0.001 * r, 1 - r),
    "jump": lambda r: torch.where(r < 1, torch.ones_like(r), -1e9 * torch.ones_like(r)),
}
"""Margins that are 0 at 1."""


@pytest.mark.parametrize("told", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("fall", FALLS)
def test_the_largest_size_is_found_in_few_bounds(fall: str, told: float) -> None:
    places = torch.tensor([1e-4, 0.03, 0.9, 7.0], dtype=torch.float64)
    calls = torch.zeros(4)

    def margin(size: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        calls[rows] += 1
        found = FALLS[fall](size / places[rows])
        return found, told * torch.where(found > 0, places[rows], 0.0)  # a reach that is right, too short, or unknown

    found = largest(margin, 4, first=0.05, ceiling=100.0)
    assert ((found <= places) & (found > places * (1 - 2 * PRECISION))).all()
    assert calls.max() <= (45 if fall == "jump" else 12 if told else 20)


def test_what_is_certified_everywhere_or_nowhere_is_said_soon() -> None:
    everywhere = largest(lambda size, rows: (1 - 0 * size, torch.full_like(size, torch.inf)), 2, 0.1, 10.0)
    assert everywhere.isinf().all()
    nowhere = largest(lambda size, rows: (0 * size - 1, 0 * size), 2, 0.1, 10.0)
    assert (nowhere == 0).all()


def test_a_failure_certifies_what_its_lines_reach() -> None:
    def margin(size: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return 1 - size, torch.where(size > 1, 0.9995 * torch.ones_like(size), 2.0)

    assert largest(margin, 1, 0.1, 10.0) >= 0.9995


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_lines_of_a_large_ball_hold_on_those_within(norm: str) -> None:
    data, p = ra.load_dataset("digits").take(6), {"linf": torch.inf, "l2": 2.0, "l1": 1.0}[norm]
    x, y, crown = data.images.double(), data.labels, certificate_named("crown")
    subject = Subject(ra.load_model("builtin:digits-linf"), (1, 8, 8))
    sizes = crown.sizes(subject, attack_named(norm), Samples(x, y, torch.arange(6)))
    large = Bounds(subject.network, NormBall(x, 1.005 * sizes, p), backwards=True)
    margins, reach = (each.amin(1) for each in large.margins_and_reaches(y))
    assert (margins < 0).all() and (reach < 1.005 * sizes).all() and (reach > 0.8 * sizes).all()
    at_reach = NormBall(x, reach * (1 - 1e-9), p)
    samples = Samples(x, y, torch.arange(6))
    assert crown.prove(subject, attack_named(norm), samples, reach * (1 - 1e-4)).proven.all()
    inside = Bounds(subject.network, at_reach, backwards=True, known=large.activation_inputs)
    alone = Bounds(subject.network, at_reach, backwards=True)
    for position, (low, high) in inside.activation_inputs.items():
        assert (low >= large.nodes[position].low - 1e-12).all() and (high <= large.nodes[position].high + 1e-12).all()
    torch.testing.assert_close(
        inside.margins(y, backwards=True), alone.margins(y, backwards=True), rtol=1e-3, atol=1e-3
    )


def test_sizes_hold_when_they_are_bounded_anew() -> None:
    data = ra.load_dataset("digits").take(4)
    subject = Subject(ra.load_model("builtin:digits-ibp"), (1, 8, 8))
    samples = Samples(data.images.double(), data.labels, torch.arange(4))
    for method in ("interval", "crown"):
        certificate, attack = certificate_named(method), attack_named("l2")
        sizes = certificate.sizes(subject, attack, samples)
        assert certificate.holds(subject, attack, samples, sizes).all()
        assert not certificate.holds(subject, attack, samples, 1.2 * sizes).any()
