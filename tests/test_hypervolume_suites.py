"""The suites of the adversarial hypervolume: the published protocol, other levels, and another confidence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.metrics import adversarial_hypervolume, normalised_cross_entropy
from robustatlas.models.classifier.rejection import logits_of_confidence
from robustatlas.optimizers.apgd import APGD
from robustatlas.report.numbers.statistics import hypervolume_of

QUIET: dict[str, Any] = {"progress": False, "diagnose": False}


def linear(classes: int = 2) -> tuple[nn.Module, Any]:
    """A linear network on 16 values and images that it mostly gets right, far from the box."""
    torch.manual_seed(0)
    net = nn.Linear(16, classes)
    x = 0.3 + 0.4 * torch.rand(40, 16)
    return net, (x, net(x).argmax(1).where(torch.arange(40) > 3, 0))


@pytest.mark.parametrize(
    ("suite", "levels"),
    [
        ("hypervolume", {"linf": 8 / 255, "l2": 0.5}),
        ("hypervolume-imagenet", {"linf": 4 / 255}),
        ("hypervolume-cross-entropy", {"linf.improbable": 8 / 255, "l2.improbable": 0.5}),
    ],
)
def test_levels_and_attack_are_those_of_the_paper(suite: str, levels: dict[str, float]) -> None:
    """Section V-A: 20 steps, ten equal intervals up to 8/255 (linf) and 0.5 (l2), 4/255 on ImageNet."""
    attacks = {attack.name: attack for attack in resolve_attacks(suite, "paper")}
    assert {name: attack.strengths[-1] for name, attack in attacks.items()} == pytest.approx(levels)
    for attack in attacks.values():
        np.testing.assert_allclose(attack.strengths, attack.strengths[-1] * np.arange(1, 11) / 10, rtol=1e-6)
        assert attack.searches == ("every",)
        (run,) = attack.plan("every").runs
        assert (run.optimizer, run.objective) == (APGD(steps=20), "probability-margin")
    assert [attack.searches[0] for attack in resolve_attacks(suite)] == ["frontier"] * len(levels)


@pytest.mark.parametrize("how", [{"protocol": "paper"}, {"search": "every"}])
def test_the_published_protocol_searches_for_the_lowest_margins(how: Any, tmp_path: Path) -> None:
    net, data = linear()
    result = ra.evaluate(net, data, "hypervolume", run=tmp_path / "run", **how, **QUIET)
    volume = hypervolume_of(result, "linf")
    weight = (net.weight[0] - net.weight[1]).detach().double()  # type: ignore[index,operator]
    bias = (net.bias[0] - net.bias[1]).detach().double()  # type: ignore[index,operator]
    sign = torch.where(data[1] == 0, 1.0, -1.0).double()
    logit = sign * (data[0].double() @ weight + bias)
    sizes = torch.tensor(result.strengths("linf"))
    margins = torch.tanh((logit[:, None] - sizes * weight.abs().sum()) / 2)
    assert volume is not None
    expected = adversarial_hypervolume(margins.numpy(), torch.tanh(logit / 2).numpy())
    np.testing.assert_allclose(volume.per_sample, expected.per_sample, atol=2e-3)
    assert result.outcome("linf").frontier
    said = entered("show", tmp_path / "run", "--explain").line
    assert "AH" in said
    assert "were not searched for" not in said


def test_other_searches_came_across_their_margins() -> None:
    net, data = linear()
    result = ra.evaluate(net, data, "linf", search="every", strengths={"linf": [0.01, 0.02]}, **QUIET)
    assert not result.outcome("linf").frontier


def test_the_margin_of_the_logits_of_a_confidence_is_the_normalised_cross_entropy() -> None:
    torch.manual_seed(1)
    logits, labels = 4 * torch.randn(200, 7), torch.randint(7, (200,))
    p = logits_of_confidence(logits, labels).softmax(1)
    others = p.scatter(1, labels[:, None], -torch.inf).amax(1)
    expected = normalised_cross_entropy(logits.softmax(1).gather(1, labels[:, None])[:, 0].numpy(), 7)
    np.testing.assert_allclose((p.gather(1, labels[:, None])[:, 0] - others).numpy(), expected, atol=1e-5)
    lost = logits.softmax(1).gather(1, labels[:, None])[:, 0] < 1 / 7
    assert torch.equal(logits_of_confidence(logits, labels).argmax(1) != labels, lost)
    extreme = torch.tensor([[200.0, 0.0], [-200.0, 0.0]], requires_grad=True)
    logits_of_confidence(extreme, torch.tensor([0, 0])).sum().backward()
    assert extreme.grad is not None
    assert extreme.grad.isfinite().all()


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_normalised_cross_entropy_is_searched_and_recorded(protocol: Any) -> None:
    """Of two classes the lowest probability of the true one within a ball is known in closed form."""
    net, data = linear()
    result = ra.evaluate(net, data, ["hypervolume-cross-entropy", "linf"], protocol=protocol, **QUIET)
    weight = (net.weight[0] - net.weight[1]).detach().double()  # type: ignore[index,operator]
    bias = (net.bias[0] - net.bias[1]).detach().double()  # type: ignore[index,operator]
    sign = torch.where(data[1] == 0, 1.0, -1.0).double()
    logit = sign * (data[0].double() @ weight + bias)
    for name, norm in (("linf.improbable", weight.abs().sum()), ("l2.improbable", weight.norm())):
        reached = logit[:, None] - torch.tensor(result.strengths(name)) * norm
        confidence = normalised_cross_entropy(reached.sigmoid().numpy(), 2)
        volume = hypervolume_of(result, name)
        assert volume is not None
        expected = adversarial_hypervolume(confidence, normalised_cross_entropy(logit.sigmoid().numpy(), 2))
        np.testing.assert_allclose(volume.per_sample, expected.per_sample, atol=2e-3)
    right = (net(data[0]).argmax(1) == data[1]).numpy()
    np.testing.assert_array_equal(result.clean, right)  # of the network itself, whichever attack ran first
    np.testing.assert_allclose(result.clean_margin, torch.tanh(logit / 2).numpy(), atol=1e-5)
