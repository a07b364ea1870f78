"""Where runs through smoothed ReLUs find much more than those through the true gradient, the diagnosis says so."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.checks.findings import Finding
from robustatlas.checks.run_findings import piecewise_findings
from robustatlas.training import Settings, network_named, recipe_named


class Staircase(nn.Module):
    """Four steps, made of steep ramps of ReLUs: the gradient is zero between them."""

    def forward(self, x: Tensor) -> Tensor:
        ramps = [20 * (x - (k + 0.5) / 4) for k in range(4)]
        return torch.stack([torch.relu(r + 0.5) - torch.relu(r - 0.5) for r in ramps]).mean(0)


def found_in(net: nn.Module, attack: str, strengths: list[float], count: int = 20) -> tuple[Finding, ra.Result]:
    data = ra.load_dataset("digits").take(count)
    result = ra.evaluate(net, data, attack, strengths={attack: strengths}, progress=False, audit=0)
    (finding,) = piecewise_findings([result.outcome(attack)])
    return finding, result


@pytest.mark.parametrize(
    ("norm", "strengths"), [("linf", [0.16, 0.2, 0.24]), ("l2", [0.3, 0.5, 0.7]), ("l1", [1.0, 2.0, 3.0])]
)
def test_a_network_of_steps_is_flagged_and_the_verdict_says_so(norm, strengths):
    sound = ra.load_model("builtin:digits-linf").net
    finding, result = found_in(nn.Sequential(Staircase(), sound), norm, strengths)
    assert finding.flagged and finding.share.low > 5
    assert f"piecewise {norm}" in result.diagnosis.flags and result.diagnosis.verdict in ("doubtful", "masked")
    assert "piecewise constant" in result.diagnosis.sentence


@pytest.mark.parametrize(
    ("norm", "strengths"), [("linf", [0.06, 0.09, 0.12]), ("l2", [0.3, 0.5, 0.7]), ("l1", [0.5, 0.8, 1.1])]
)
def test_sound_networks_are_not_flagged(norm, strengths):
    for name in ("builtin:digits-linf", "builtin:digits-standard"):
        finding, result = found_in(ra.load_model(name).net, norm, strengths)
        assert not finding.flagged and finding.value < 2
        assert f"piecewise {norm}" not in result.diagnosis.flags


def test_smoothed_runs_find_more_on_a_network_trained_by_bounds():
    net, recipe = network_named("digits-cnn", (1, 8, 8), 10), recipe_named("ibp", {"linf": 0.15}, warmup=0.5)
    settings = Settings(20, batch_size=50, learning_rate=5e-3, held_out=0)
    ra.train(net, ra.load_dataset("digits", "train").take(500), recipe, settings=settings, device="cpu", progress=False)
    grid = np.linspace(0.2, 1.4, 7).round(3).tolist()
    trained, _ = found_in(net.eval(), "l1", grid, 60)
    usual, _ = found_in(ra.load_model("builtin:digits-linf").net, "l1", grid, 60)
    assert trained.value > usual.value
