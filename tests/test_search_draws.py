"""Sets that choose among draws: each run that begins anew has draws of its own."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.definition import Attack, AttackRun, Plan
from robustatlas.attacks.families import SMOOTH, VALLEYS
from robustatlas.attacks.search.rules import MostPasses, Rule
from robustatlas.attacks.table import limited_passes
from robustatlas.common.bundle import Bundle, Fixed, map_tensors
from robustatlas.common.noise import Noise
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import ThreatModel

PIXELS = 4
BOUND = AttackRun(FMN(20), "margin", targets="distance", role="bound", count=2)
ASCENT = AttackRun(PGD(20), "margin", start="best")


@dataclass(frozen=True)
class Amount(Bundle):
    """``amount`` [B, 1], by which the ``pixel`` [B, 4] that is 1 changes."""

    amount: Tensor
    pixel: Fixed


@dataclass(frozen=True)
class OnePixel(ThreatModel):
    """One pixel, drawn and never optimised, changes by at most epsilon."""

    asked: list[int] = field(default_factory=list, compare=False)

    @property
    def chooses(self) -> bool:
        return True

    def neutral(self, x: Tensor) -> Amount:
        return Amount(x.new_zeros(len(x), 1), Fixed(torch.eye(PIXELS)[:1].expand(len(x), -1)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Amount:
        pixel = F.one_hot(noise.child(0).integers(PIXELS), PIXELS).to(x.dtype)
        return Amount(epsilon[:, None] * noise.child(1).symmetric(1, dtype=x.dtype), Fixed(pixel))

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> Amount:
        self.asked.append(len(x))
        return Amount(x.new_zeros(len(x), 1), Fixed(F.one_hot(gradient.abs().argmax(1), PIXELS).to(x.dtype)))

    def apply(self, x: Tensor, theta: Amount) -> Tensor:
        return (x + theta.amount * theta.pixel.values).clamp(0, 1)

    def project(self, x: Tensor, theta: Amount, epsilon: Tensor) -> Amount:
        return Amount(theta.amount.clamp(-epsilon[:, None], epsilon[:, None]), theta.pixel)

    def steepest(self, x: Tensor, gradient: Amount) -> Amount:
        return map_tensors(torch.sign, gradient)

    def size(self, x: Tensor, theta: Amount) -> Tensor:
        return theta.amount.abs().squeeze(1)


class Unchosen(OnePixel):
    """The same, by the first draw."""

    chooses = False


class Blind(OnePixel):
    """The same, where the gradient says nothing about which pixel would do."""

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> Amount:
        pixel = F.one_hot(noise.integers(PIXELS), PIXELS).to(x.dtype)
        return Amount(x.new_zeros(len(x), 1), Fixed(pixel))


def network() -> nn.Module:
    """The nearest class, 1, is approached by the first pixel, which has no room for it; class 2 is reached by the
    second one, at .9."""
    net = nn.Linear(PIXELS, 3)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0] * 4, [10.0, 0, 0, 0], [0, 2.0, 0, 0]]))
        net.bias.copy_(torch.tensor([0.0, -10.5, -1.8]))
    return net


def evaluated(threat: ThreatModel, *runs: AttackRun, rules: tuple[Rule, ...] = (), samples: int = 3) -> ra.Result:
    attack = Attack(
        "pixel", threat, runs, (0.25, 0.5, 0.75, 1.0), rules=rules, usual_rules=False, search_order=("descent",)
    )
    x = torch.tensor([[0.9, 0.0, 0.5, 0.5]]).repeat(samples, 1)
    labels = torch.zeros(samples, dtype=torch.int64)
    return ra.evaluate(network(), (x, labels), attack, diagnose=False, progress=False)


def test_a_run_towards_a_class_has_the_draws_that_lead_there() -> None:
    sizes = evaluated(OnePixel(), BOUND).minimal_size("pixel")
    assert sizes == pytest.approx([0.9] * 3, abs=2e-3)


def test_many_starts_are_as_many_draws() -> None:
    """One draw in four leads anywhere; 50 that all miss it are one case in a million."""
    sizes = []
    for family in (VALLEYS, SMOOTH):
        descent = Attack("pixel", Blind(), family.runs, (1.0,), rules=family.rules).plan("descent")
        sizes.append(evaluated(Blind(), *descent.runs, rules=descent.rules, samples=40).minimal_size("pixel"))
    assert np.isfinite(sizes[0]).all()
    assert not np.isfinite(sizes[1]).all(), "a few runs do not do"


def test_a_choice_is_one_forward_and_one_backward_pass() -> None:
    forward, backward = evaluated(OnePixel(), BOUND).passes("pixel")
    besides, alone = evaluated(Unchosen(), BOUND).passes("pixel")
    assert backward - alone == 2
    assert forward - besides == pytest.approx(2, abs=1), "what one of them found is verified by another"


def test_a_run_that_goes_on_from_an_example_keeps_its_draws() -> None:
    threat = OnePixel()
    evaluated(threat, BOUND, ASCENT, samples=1)
    assert sum(threat.asked) == 2, "the ascents began at the example of the second bound"


def test_choices_count_among_the_most_passes() -> None:
    rules = (MostPasses(90),)
    for count in (1, 2):
        runs = (replace(BOUND, count=count), replace(ASCENT, count=4))
        spent = sum(evaluated(OnePixel(), *runs, rules=rules).passes("pixel"))
        assert spent <= limited_passes(Plan(runs, rules), "descent", 4, 3, chooses=True) <= 90
