"""ImageNet-UA evaluated: whatever the batch, on images of every kind, and as its public code runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import brief
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.metrics.references.imagenet_ua import CIFAR10, CORE

SUITES = ("imagenet-ua", "imagenet-ua-extra")
SIDES = (16, 18)


def setting(channels: int = 3, count: int = 5) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A small network in double precision, and images that it gets right but for one."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(channels, 4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 5, 3)).double().eval()
    x = torch.rand(count, channels, *SIDES).double()
    labels = net(x).argmax(1)
    labels[0] = (labels[0] + 1) % 3
    return net, (x, labels)


def shortened(names: tuple[str, ...], protocol: Any = "default") -> list[ra.Attack]:
    attacks = resolve_attacks(SUITES, protocol, SIDES)
    return [brief(attack, most={"steps": 2}) for attack in attacks if attack.name.removeprefix("ua-") in names]


def test_results_do_not_depend_on_the_batch_or_on_the_samples() -> None:
    """One attack that is faded in, one whose draws are chosen as well, and one with pictures of the data."""
    net, data = setting(count=3)
    attacks = shortened(("wood", "polkadot", "mix"))
    together = ra.evaluate(net, data, attacks, progress=False)
    alone = ra.evaluate(net, data, attacks, samples=[2], batch_size=1, progress=False)
    for attack in together.attacks:
        expected = together.minimal_size(attack)[2:]
        np.testing.assert_allclose(alone.minimal_size(attack), expected, rtol=1e-4, err_msg=attack)


def test_the_published_protocol_judges_every_image_at_every_level() -> None:
    net, data = setting(count=3)
    attacks = shortened(("elastic", "gabor", "edge", "polkadot", "prison"), "paper")
    result = ra.evaluate(net, data, attacks, progress=False)
    for attack in result.attacks:
        fooled = result.outcome(attack).fooled
        assert fooled.shape == (3, 2) and (fooled >= 0).all(), attack
        assert result.passes(attack)[1] == 2 * 3  # two strengths of two steps, and the last look


def test_at_the_levels_the_default_finds_as_much_for_half_of_the_published_passes() -> None:
    net, data = setting(count=2)
    names = ("ua-hsv", "ua-prison")
    default, published = (
        [attack for attack in resolve_attacks(SUITES, protocol, SIDES) if attack.name in names]
        for protocol in ("default", "paper")
    )
    published = [
        replace(paper, threat=sound.threat, repairs=False, contains_clean=True)
        for sound, paper in zip(default, published, strict=True)
    ]
    found = ra.evaluate(net, data, default, progress=False, diagnose=False)
    beside = ra.evaluate(net, data, published, search="every", progress=False, diagnose=False)
    for attack, paper in zip(default, published, strict=True):
        broken = found.outcome(attack.name).broken(attack.strengths)
        assert (broken >= beside.outcome(attack.name).broken(attack.strengths)).all(), attack.name
        steps = paper.runs[0].optimizer.steps
        assert sum(found.passes(attack.name)) <= 3 * (2 * steps + 1) / 2, attack.name


def test_names_mean_what_fits_the_images() -> None:
    net, data = setting(count=1)
    attack = "ua-gabor"
    result = ra.evaluate(net, data, attack, search="every", strengths={attack: [0.02]}, progress=False, effort="low")
    assert result.attacks == (attack,)
    (named,) = resolve_attacks(attack, sides=SIDES)
    assert set(CIFAR10["gabor"]) < set(named.strengths)
    suite = resolve_attacks("imagenet-ua", sides=SIDES)
    assert {attack.name: attack.strengths[2] for attack in suite}["ua-snow"] == 25.0
    assert [attack.name for attack in suite] == [f"ua-{name}" for name in CORE]


def test_grey_images_leave_out_what_needs_colour() -> None:
    net, data = setting(channels=1, count=2)
    with pytest.warns(UserWarning, match="ua-kaleidoscope is left out"):
        result = ra.evaluate(
            net, data, "imagenet-ua", search="every", progress=False, effort="low",
            exclude=["ua-wood", "ua-snow", "ua-elastic", "ua-pixel", "ua-gabor"],
        )  # fmt: skip
    assert set(result.attacks) == {"ua-jpeg", "ua-glitch"}
