"""The probe passes every attack of the catalogue, and names what a broken threat model breaks."""

import re
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from robustatlas.attacks.catalogue import catalogue
from robustatlas.models.classifier import Classifier
from robustatlas.threats.box import BoxThreat
from robustatlas.threats.lp import Linf
from robustatlas.threats.probe import probe
from threat_properties import images

ATTACKS = [
    pytest.param(attack, id=f"{protocol}-{name}")
    for protocol in ("default", "paper")
    for name, attack in catalogue(protocol).items()
]


@pytest.fixture(scope="module")
def model() -> Classifier:
    torch.manual_seed(0)
    return Classifier(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 5)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_of_the_catalogue_passes(attack, model):
    threat, x = attack.threat.for_model(model), images(side=32)
    nested = attack.nested and not attack.judges_last
    assert probe(threat, x, attack.strengths, nested=nested, contains_clean=attack.contains_clean) == []


@dataclass(frozen=True)
class Lighter(BoxThreat):
    """Adds theta to all pixels; sound but for what the subclasses break."""

    def shape(self, x):
        return (1,)

    def apply(self, x, theta):
        return (x + theta[:, :, None, None]).clamp(0, 1)


class Unclamped(Lighter):
    def apply(self, x, theta):
        return x + theta[:, :, None, None]


class NotFinite(Lighter):
    def apply(self, x, theta):
        return super().apply(x, theta) * (0 / theta[:, :, None, None]).add(1)


class NeutralBrightens(Lighter):
    def neutral(self, x):
        return super().neutral(x) + 0.1


class Overshoots(Lighter):
    def start(self, x, epsilon, noise):
        return 2 * super().start(x, epsilon, noise).sign() * epsilon[:, None]


class Unprojected(Lighter):
    def project(self, x, theta, epsilon):
        return theta


class Shrinks(Lighter):
    def project(self, x, theta, epsilon):
        return super().project(x, theta, epsilon) / 2


class NotNested(Lighter):
    def project(self, x, theta, epsilon):
        return super().start(x, epsilon, _ONE).sign() * epsilon[:, None]


class OfTheBatch(Lighter):
    def start(self, x, epsilon, noise):
        return super().start(x, epsilon, noise).amax(0, keepdim=True).expand(len(x), 1)


class Shared(Lighter):
    def start(self, x, epsilon, noise):
        return super().start(x, epsilon, noise)[:1]


class OneSize(Lighter):
    def size(self, x, theta):
        return theta.abs().amax()


class Cropped(Lighter):
    def apply(self, x, theta):
        return super().apply(x, theta)[:, :, 1:]


class Ones:
    """A stand-in for noise that always draws the largest number."""

    def symmetric(self, *shape, dtype):
        return torch.ones(3, *shape, dtype=dtype)


_ONE = Ones()


@pytest.mark.parametrize(
    ("threat", "said"),
    [
        (Unclamped(), r"Unclamped\.apply made pixels from .* at strength 0\.5; expected .*clamp"),
        (NotFinite(), r"NotFinite\.(apply|neutral)"),
        (NeutralBrightens(), r"NeutralBrightens\.neutral changes the images by up to 0\.1; .*contains_clean=False"),
        (Overshoots(), r"Overshoots\.start drew thetas of size 0\.2 to 0\.2 at strength 0\.1; expected at most"),
        (Unprojected(), r"Unprojected\.project to strength 0\.1 left thetas of size"),
        (Shrinks(), r"Shrinks\.project to strength 0\.1 moved a theta of the set of strength 0\.1"),
        (NotNested(), r"NotNested\.project to strength 0\.5 moved a theta of the set of strength 0\.1"),
        (OfTheBatch(), r"OfTheBatch makes another image of a sample alone"),
        (Shared(), r"Shared\.start gave a theta with \(1, 1\) for 3 images"),
        (OneSize(), r"OneSize\.size gave \(\) for 3 images"),
        (Cropped(), r"Cropped\.apply made \(3, 3, 11, 12\) of images"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_promise_is_named(threat, said):
    found = probe(threat, images(), (0.1, 0.5))
    assert any(re.match(said, sentence) for sentence in found), found


def test_the_sound_one_passes():
    assert probe(Lighter(), images(), (0.1, 0.5)) == []
    assert probe(Linf(), torch.rand(5, 7), (0.1,)) == []


def test_promises_not_made_are_not_asked_for():
    assert probe(NeutralBrightens(), images(), (0.1, 0.5), contains_clean=False) == []
    assert probe(Unprojected(), images(), (0.1, 0.5), nested=False) == []
