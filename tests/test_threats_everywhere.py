"""Every threat model on images of the catalogue, on every device there is."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.image import image_attacks
from robustatlas.models.classifier import Classifier
from robustatlas.threats.perceptual import Perceptual
from threat_properties import check_finite, check_sound, images

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
ATTACKS = image_attacks("default")


def on(device: str, attack: Attack) -> Attack:
    if not isinstance(attack.threat, Perceptual):
        return attack
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 5)).to(device)
    return replace(attack, threat=attack.threat.for_model(Classifier(network)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_is_sound(attack, device):
    attack, x = on(device, attack), images(side=32).to(device)
    if not (attack.nested and attack.contains_clean):
        pytest.skip("makes no such promise")
    check_sound(attack.threat, x, attack.strengths[-1])
    check_finite(attack.threat, x, attack.strengths[-1])
