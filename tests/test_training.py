from __future__ import annotations

import pytest
import torch
from torch import nn

from robustatlas.datasets import Dataset, load_dataset
from robustatlas.errors import UserError
from robustatlas.models import load_model
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L2, Linf
from robustatlas.training import Training, adversarial_examples, train


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_dataset("digits", "train").take(300)


@pytest.mark.parametrize("threat", [Linf(), L2()])
def test_adversarial_examples_stay_in_their_sets(threat: ThreatModel, data: Dataset) -> None:
    net = load_model("builtin:digits-standard").net
    x, labels = data.images[:50], data.labels[:50]
    epsilon = torch.linspace(0.01, 0.5, 50)
    found = adversarial_examples(net, threat, x, labels, epsilon, Noise.of(0, data.index[:50], "test"))
    assert bool((threat.size(x, found - x) <= epsilon * (1 + 1e-5)).all())
    assert float(found.min()) >= 0
    assert float(found.max()) <= 1
    with torch.no_grad():
        before, after = (nn.functional.cross_entropy(net(inputs), labels) for inputs in (x, found))
    assert float(after) > 3 * float(before)


def test_examples_do_not_depend_on_the_batch(data: Dataset) -> None:
    net = load_model("builtin:digits-standard").net.double()
    x, labels, epsilon = data.images[:20].double(), data.labels[:20], torch.full((20,), 0.1).double()
    noise = Noise.of(0, data.index[:20], "test")
    whole = adversarial_examples(net, Linf(), x, labels, epsilon, noise)
    parts = [
        adversarial_examples(net, Linf(), x[i], labels[i], epsilon[i], noise.take(i))
        for i in (torch.arange(7), torch.arange(7, 20))
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


def test_training_is_reproducible(data: Dataset) -> None:
    how = Training(Linf(), epsilon=0.1, epochs=2, attack_steps=2)
    first, second = (train(linear(), data, how).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_adversarial_training_makes_robust(data: Dataset) -> None:
    test = load_dataset("digits")
    robust = {}
    for name, threat in (("standard", None), ("linf", Linf())):
        how = Training(threat, epsilon=0.1 if threat else 0.0, epochs=25, attack_steps=4, learning_rate=0.03)
        net = train(linear(), data, how)
        x = adversarial_examples(
            net, Linf(), test.images, test.labels, torch.full((600,), 0.1), Noise.of(0, test.index, "test")
        )
        robust[name] = float((net(x).argmax(1) == test.labels).float().mean())
    assert robust["linf"] > robust["standard"] + 0.1


def test_ascending_strength() -> None:
    how = Training(Linf(), epsilon=0.2, ascending=True)
    assert [how.strength(done) for done in (0.0, 0.25, 0.5, 1.0)] == [0.0, 0.1, 0.2, 0.2]
    assert Training(Linf(), epsilon=0.2).strength(0.1) == 0.2


def test_progress_is_told(data: Dataset) -> None:
    losses: list[float] = []
    train(linear(), data, Training(epochs=3), lambda epoch, loss: losses.append(loss))
    assert len(losses) == 3
    assert losses[-1] < losses[0]


def test_wrong_recipes() -> None:
    with pytest.raises(UserError, match="a strength above 0, got 0"):
        Training(Linf())
    with pytest.raises(UserError, match="at least one epoch"):
        Training(epochs=0)
