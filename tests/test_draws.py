"""Randomised models: draws that repeat, successes that are not luck, accuracies inside their intervals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import norm
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from helpers_core import linear
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.metrics.references import Reference
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes import OutcomeTable, query
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.report.facts import facts_of
from robustatlas.report.numbers.against import hold_against
from robustatlas.report.numbers.statistics import intervals_against
from robustatlas.threats.lp import Linf


class PurelyNoisy(nn.Module):
    """Right with a probability that the first input says and no attack changes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        # The quality is coarse in x, so that perturbations of 0.01 leave it alone.
        quality = ((x[:, 0] * 10).round() / 10).detach()
        right = torch.rand(len(x)) < quality
        sign = torch.where(right, 1.0, -1.0)
        return torch.stack([sign, -sign], 1) * (1 + 0.01 * x.sum(1, keepdim=True)) * self.scale


class Smoothed(nn.Module):
    """Two classes by the sign of <w, x> + b + noise of deviation 0.3."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(np.random.default_rng(1).normal(size=6)))

    def margin(self, x: Tensor) -> Tensor:
        return x @ self.weight - self.weight.detach().sum() / 2

    def forward(self, x: Tensor) -> Tensor:
        m = self.margin(x)
        m = m + 0.3 * torch.randn_like(m)
        return torch.stack([m, -m], 1)


def attack(strength: float = 0.01) -> Attack:
    run = AttackRun(PGD(2, rate=0.5), "margin", count=2)
    return Attack("linf", Linf(), (run,), (strength,), search_order=("every",))


def test_a_purely_noisy_classifier_has_its_true_accuracy_inside_the_interval() -> None:
    model = ra.Classifier(PurelyNoisy(), draws=1)
    qualities = np.array([0.1, 0.3, 0.4, 0.6, 0.7, 0.9])
    shares = np.array([0.1, 0.1, 0.1, 0.3, 0.2, 0.2])
    true = 100 * shares[qualities > 0.5].sum()  # right more often than not, whatever the attack
    rng = np.random.default_rng(0)
    x = torch.tensor(np.stack([rng.choice(qualities, 2500, p=shares), rng.uniform(0.2, 0.8, 2500)], 1)).float()
    result = ra.evaluate(model, (x, torch.zeros(2500, dtype=torch.long)), attack(), batch_size=2500)
    inside = 0
    for rows in np.split(np.arange(2500), 100):  # a hundred evaluations: no two samples share a draw
        cell = facts_of(result.select(rows)).attacks[0].accuracy[0]  # type: ignore[index]
        inside += cell.low <= true <= cell.high
    assert inside >= 93
    # One draw in ten to four in ten is wrong, and none counts.
    assert not (np.isfinite(result.minimal_size("linf")) & (x[:, 0].numpy() > 0.5)).any()


def test_sizes_of_a_smoothed_classifier_are_those_of_the_closed_form() -> None:
    net, rng = Smoothed(), np.random.default_rng(0)
    x = torch.tensor(rng.uniform(0.3, 0.7, (40, 6)))
    m = net.margin(x).detach()
    y = (m < 0).long()
    reach = np.abs(net.weight.detach().numpy()).sum()
    for threshold in (0.5, 0.2):
        model = ra.Classifier(net, draws=16, threshold=threshold)
        result = ra.evaluate(model, (x, y), "linf", strengths={"linf": [0.1, 0.2]})
        exact = np.maximum(m.abs().numpy() + 0.3 * norm.ppf(threshold), 0) / reach
        found, possible = result.minimal_size("linf"), result.outcome("linf").possible_size
        assert possible is not None and (possible <= found).all()
        assert (found >= exact - 1e-6).mean() == 1.0  # nothing counts that is not wrong often enough
        if threshold == 0.5:
            slack = 0.3 * 4 / np.sqrt(16) / reach
            near = exact + slack < 0.2
            assert near.sum() > 15 and (found[near] <= exact[near] + slack).mean() > 0.9


def test_how_often_each_example_is_misclassified_is_kept_and_shown(tmp_path: Path) -> None:
    net, rng = Smoothed(), np.random.default_rng(0)
    x = torch.tensor(rng.uniform(0.3, 0.7, (60, 6)))
    y = (net.margin(x) < 0).long()
    y[:5] = 1 - y[:5]  # misclassified clean
    model, options = ra.Classifier(net, draws=16), {"strengths": {"linf": [0.1, 0.2]}, "keep_adversarial": True}
    result = ra.evaluate(model, (x, y), "linf", run=tmp_path / "run", **options)
    outcome, told = result.outcome("linf"), result.misclassification("linf")
    assert outcome.drawn is not None and outcome.mistakes is not None
    known = np.array([interval is not None for interval in told])
    assert np.array_equal(known, np.isfinite(outcome.minimal_size)) and known[:5].any() and known[5:].any()
    assert set(outcome.drawn[known]) <= {50, 200, 800}
    # The probability in closed form is inside, at the clean input and at the example that was kept.
    index, images = result.adversarial("linf")
    points = x.numpy().copy()
    points[index] = images
    margin = net.margin(torch.tensor(points)).detach().numpy() * np.where(y.numpy() == 0, 1, -1)
    exact = 100 * norm.cdf(-margin / 0.3)
    inside = [interval.low <= p <= interval.high for interval, p in zip(told, exact, strict=True) if interval]
    assert np.mean(inside) >= 0.93 and all(interval.low > 50 for interval in told if interval)
    rows = query('SELECT mistakes, drawn FROM outcomes ORDER BY "index"', tmp_path / "run").rows
    assert [row != (None, None) for row in rows] == known.tolist()
    plain = ra.evaluate(linear(np.eye(2, 6), np.zeros(2)), (x, y), "linf", strengths={"linf": [0.1]})
    assert plain.outcome("linf").drawn is None and set(plain.misclassification("linf")) == {None}


def test_ratios_to_a_reference_cover_the_doubt() -> None:
    sizes = {"linf": [0.0, 0.3, np.inf, np.inf]}
    table = OutcomeTable.from_sizes("noisy", [1, 1, 1, 1], sizes, {"linf": [0.1, 0.2]})
    unsure = replace(table.outcome("linf"), possible_size=np.array([0.0, 0.15, 0.05, np.inf]))
    doubted = replace(table, outcomes={"linf": unsure})
    reference = Reference("r", "a test", AccuracyTable(100.0, {"linf": {0.1: 90.0, 0.2: 80.0}}), ("linf",))
    held = hold_against(doubted, reference)
    plain, covering = (intervals_against(one, held)["CR ind-avg"] for one in (table, doubted))
    certain = intervals_against(replace(table, outcomes={"linf": unsure.with_possible_examples()}), held)["CR ind-avg"]
    assert covering.value == plain.value and covering.high == plain.high
    assert covering.low == min(plain.low, certain.low) < plain.low


def test_draws_belong_to_samples_not_to_batches() -> None:
    net, rng = Smoothed(), np.random.default_rng(0)
    x = torch.tensor(rng.uniform(0.3, 0.7, (20, 6)))
    y = (net.margin(x) < 0).long()
    model = ra.Classifier(net, draws=4)
    whole = ra.evaluate(model, (x, y), attack(0.2))
    parts = ra.evaluate(model, (x, y), attack(0.2), batch_size=3)
    torch.manual_seed(9)
    again = ra.evaluate(model, (x, y), attack(0.2), samples=list(range(10, 20)))
    assert np.array_equal(whole.minimal_size("linf"), parts.minimal_size("linf"))
    assert np.array_equal(whole.minimal_size("linf")[10:], again.minimal_size("linf"))
    assert not whole.warnings


class Every(nn.Module):
    """Draws in every way that is known."""

    def forward(self, x: Tensor) -> Tensor:
        drawn = [
            torch.rand(x.shape), torch.rand_like(x), torch.randn(x.shape), torch.randn_like(x),
            torch.empty_like(x).normal_(1, 2), torch.empty_like(x).uniform_(-1, 1), torch.normal(x, 0.5),
            torch.normal(0.0, x), torch.normal(x, x), torch.bernoulli(x.detach()), torch.bernoulli(x.detach(), 0.3),
            torch.empty_like(x).bernoulli_(0.3), torch.empty_like(x).bernoulli_(x), F.dropout(x, 0.5, training=True),
            torch.randint(3, x.shape).to(x), torch.randint(1, 3, x.shape).to(x), torch.randint_like(x, 5),
            torch.randint_like(x, 2, 5), torch.distributions.Normal(x, 1.0).sample(),
        ]  # fmt: skip
        return torch.stack([part.to(x) for part in drawn], 2).flatten(1)


def test_every_way_of_drawing_has_its_distribution_and_its_sample() -> None:
    model = ra.Classifier(Every(), draws=1)
    x = torch.full((4000, 2), 0.4, requires_grad=True)
    noise = Noise.for_samples(0, torch.arange(4000), "test")
    drawn = model.logits(x, noise=noise)
    values = drawn.detach().view(4000, 2, -1)
    mean = [0.5, 0.5, 0, 0, 1, 0, 0.4, 0, 0.4, 0.4, 0.3, 0.3, 0.4, 0.4, 1, 1.5, 2, 3, 0.4]
    deviation = [12**-0.5, 12**-0.5, 1, 1, 2, 3**-0.5, 0.5, 0.4, 0.4, 0.24**0.5, 0.21**0.5, 0.21**0.5, 0.24**0.5]
    deviation += [0.4, (2 / 3) ** 0.5, 0.5, 2**0.5, (2 / 3) ** 0.5, 1]
    assert torch.allclose(values.mean((0, 1)), torch.tensor(mean), atol=0.08)
    assert torch.allclose(values.flatten(0, 1).std(0), torch.tensor(deviation), atol=0.06)
    some = torch.arange(0, 4000, 7)
    assert torch.equal(model.logits(x[some], noise=noise.take(some)), drawn[some])
    assert torch.autograd.grad(drawn.sum(), x)[0].std() > 0  # dropout's own mask goes into the gradient


def test_what_cannot_belong_to_a_sample_is_named() -> None:
    shared = ra.Classifier(lambda x: x + torch.rand(1), draws=2)
    with pytest.raises(UserError, match="batch share"):
        shared.logits(torch.rand(3, 2))
    alone = ra.Classifier(lambda x: x + torch.rand(1), draws=2, batch_size=1)
    together = alone.logits(torch.zeros(3, 2))
    assert len(together.unique()) == 3
    with pytest.raises(UserError, match=r"draws by aten\.randperm"):
        ra.Classifier(lambda x: x[:, torch.randperm(2)], draws=2).logits(torch.rand(3, 2))
    with pytest.raises(UserError, match="draws=0"):
        ra.Classifier(nn.Linear(2, 2), draws=0)
    with pytest.raises(UserError, match="threshold=1"):
        ra.Classifier(nn.Linear(2, 2), draws=2, threshold=1.0)


def test_passes_of_all_draws_are_counted() -> None:
    model = ra.Classifier(Smoothed(), draws=5)
    x = torch.rand(3, 6, requires_grad=True)
    with model.counting() as passes:
        model.logits(x).sum().backward()
    assert (passes.forward, passes.backward) == (15, 15)


def test_a_diagnosis_of_a_run_takes_the_draws_of_the_run(tmp_path: Path) -> None:
    """Where the draws were given on the command line, the source of the model does not say them."""
    (tmp_path / "noisy.py").write_text(
        "import torch\n\nclass Noisy(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        torch.manual_seed(0)\n        self.net = torch.nn.Linear(64, 10)\n\n    def forward(self, x):\n"
        "        return self.net((x + 0.05 * torch.randn_like(x)).flatten(1))\n\nmake = Noisy\n"
    )
    given = "--data digits --attacks linf --strengths linf=0.1 --samples 40 --effort low --no-diagnose --draws 3"
    entered("evaluate", f"{tmp_path / 'noisy.py'}:make", *given.split(), "--run", tmp_path / "run")
    (record,) = ra.load_result(tmp_path / "run").records.values()
    draws: Any = record.protocol["draws"]
    assert draws["search"] == 3
    assert "random" not in ra.diagnose(tmp_path / "run").flags
