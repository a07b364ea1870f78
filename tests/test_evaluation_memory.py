"""What an attack holds at once, beside what a batch of images and its forward pass take."""

import pytest
import torch
from torch import nn

import robustatlas as ra
from helpers_core import brief
from live_tensors import Live
from robustatlas.attacks.catalogue import attack_named
from robustatlas.evaluation.memory import bytes_at_work, bytes_kept

BATCH = 4
IMAGE = 3 * 64 * 64 * 4
NORMS = ("linf", "l2", "l1")
OTHERS = ("l0", "apgd-ce-linf", "hue", "stadv", "gabor", "rotation", "corruption-gaussian-noise")
"""Those that hold the most of their kinds."""


@pytest.mark.parametrize("name", [*NORMS, *OTHERS])
def test_an_attack_holds_eight_times_a_batch_at_most(name: str) -> None:
    """Of a network that keeps five times its images, less than any true one here; norms as much as is told before."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 4, 7, 16), nn.Flatten(), nn.Linear(64, 10)
    )
    images = torch.rand(BATCH, 3, 64, 64)
    data, model = (images, net(images).argmax(1)), ra.Classifier(net)
    kept = bytes_kept(model, images)
    assert kept == pytest.approx(5 * IMAGE, rel=0.01)
    with Live(least=IMAGE // 4) as live:
        ra.evaluate(model, data, [brief(attack_named(name))], batch_size=BATCH, diagnose=False, audit=0, progress=False)
    assert kept * BATCH < live.most <= 8 * BATCH * (IMAGE + kept)
    if name in NORMS:
        assert live.most <= bytes_at_work(IMAGE, kept, BATCH, BATCH) <= 8 * BATCH * (IMAGE + kept)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_attack_holds_seventeen_times_its_inputs(norm: str) -> None:
    """Of a network that keeps next to nothing."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 7, 16), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 10))
    images = torch.rand(BATCH, 3, 64, 64)
    data, asked = (images, net(images).argmax(1)), {"strengths": {norm: [1e-4, 5e-4]}, "batch_size": BATCH}
    with Live(least=BATCH * IMAGE // 8) as live:
        ra.evaluate(net, data, [brief(attack_named(norm))], diagnose=False, progress=False, **asked)
    assert live.most <= 17 * BATCH * IMAGE
