"""What is said before the work, how much fits into memory, and what becomes of it where it does not."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images, digits_network
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.evaluation import forecast
from robustatlas.evaluation.dispatcher import Costs
from robustatlas.evaluation.memory import fitting_batch
from robustatlas.evaluation.progress import Announced, Progress
from robustatlas.evaluation.throughput import DeviceThroughput
from robustatlas.evaluation.workers.memory import peak_bytes
from robustatlas.models.classifier import Passes
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.lp import Linf

ATTACK = Attack("linf", Linf(), (AttackRun(PGD(steps=6), "cross-entropy"),), (0.02, 0.05, 0.1))


class Hungry(nn.Module):
    """Runs out of memory above ``most`` samples, and once at its ``bad``-th call."""

    def __init__(self, most: int, bad: int = -1) -> None:
        super().__init__()
        self.net, self.most, self.bad, self.calls = digits_network(torch.float64), most, bad, 0
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(len(x))
        if len(x) > self.most or self.calls == self.bad:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.net(x)


def evaluate(net: nn.Module, **options: Any) -> ra.Result:
    return ra.evaluate(net, digits_images(40, torch.float64), ATTACK, **options)


@pytest.fixture(scope="module")
def whole() -> ra.Result:
    return evaluate(digits_network(torch.float64))


def assert_same(one: ra.Result, other: ra.Result) -> None:
    a, b = one.outcome("linf"), other.outcome("linf")
    np.testing.assert_allclose(a.minimal_size, b.minimal_size, rtol=1e-9)
    for name in ("found_class", "forward", "backward", "fooled"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("batch_size", [None, "auto"])
def test_fewer_samples_at_once_where_memory_runs_out(batch_size: Any, whole: ra.Result) -> None:
    net = Hungry(most=11)
    assert_same(evaluate(net, batch_size=batch_size), whole)
    assert max(net.seen[-5:]) <= 11


class WhenWorkBegins(Progress):
    """Calls a function between the checks of a model and its first attack."""

    def __init__(self, do: Callable[[], None]) -> None:
        self.do = do

    def begin(self, records: Sequence[Announced], samples: int) -> None:
        self.do()


@pytest.mark.parametrize("calls", [1, 5, 20, 35])
def test_samples_that_are_through_when_memory_runs_out_stay(calls: int, whole: ra.Result) -> None:
    net = Hungry(most=40)

    def spoil_a_call() -> None:
        net.bad = net.calls + calls

    assert_same(evaluate(net, progress=WhenWorkBegins(spoil_a_call)), whole)
    assert net.calls > net.bad > 0


@pytest.mark.parametrize("kind", [{"rejection": "class"}, {"draws": 2}], ids=str)
def test_columns_of_their_own_stay_where_memory_runs_out(kind: dict[str, Any]) -> None:
    """Of models that reject, whether they reject the clean input; of randomised ones, what stays in doubt."""
    images, labels = digits_images(24, torch.float64)
    data = (images[labels < 9], labels[labels < 9])
    content = Hungry(most=10**6)
    whole = ra.evaluate(ra.Classifier(content, **kind), data, ATTACK)
    hungry = Hungry(most=10**6, bad=content.calls - 4)
    halved = ra.evaluate(ra.Classifier(hungry, **kind), data, ATTACK)
    assert hungry.calls > content.calls
    assert_same(halved, whole)
    np.testing.assert_array_equal(halved.clean_rejected, whole.clean_rejected)
    for name in ("possible_size", "mistakes", "drawn"):
        known = [getattr(result.outcome("linf"), name) for result in (halved, whole)]
        assert (whole.clean_rejected is not None, known[1] is not None) == ("rejection" in kind, "draws" in kind)
        np.testing.assert_equal(*known)


def test_not_even_one_fits() -> None:
    net = Hungry(most=40)

    def starve() -> None:
        net.most = 0

    with pytest.raises(ra.UserError, match="1 sample at work at once"):
        evaluate(net, progress=WhenWorkBegins(starve))


def test_the_batch_that_fits() -> None:
    x = digits_images(1, torch.float64)[0]
    assert 1 <= fitting_batch(ra.Classifier(Hungry(most=100)), x, most=1000) <= 50
    assert fitting_batch(ra.Classifier(digits_network(torch.float64)), x, most=20) <= 20


def test_costs_follow_what_was_measured() -> None:
    costs = Costs([1.0, 3.0], pair=0.002)
    assert costs.seconds_per_sample(1) == pytest.approx(3 * costs.seconds_per_sample(0))
    costs.expect(1, 5.0)
    assert costs.seconds_per_sample(1) == 5.0
    costs.learn(0, seconds=8.0, samples=4)
    assert costs.seconds_per_sample(0) == 2.0
    assert costs.seconds_per_sample(1) > 5.0, "what takes longer than expected here makes the others dearer too"


def test_parts_of_one_length_do_not_tell_what_a_part_costs_by_itself() -> None:
    """Or the next one would be taken for nearly free, however long."""
    costs = Costs([1.0], pair=1.0)
    for seconds in np.random.default_rng(0).uniform(10.0, 30.0, 200):
        costs.learn(0, seconds, samples=16)
    assert costs.fixed <= 8 and 0.9 * 20 / 24 <= costs.seconds_per_sample(0) <= 1.1 * 20 / 16


def test_no_task_is_expected_to_take_more_than_its_plan_allows() -> None:
    assert Costs([3.0], pair=0.01).seconds_per_sample(0) == pytest.approx(0.03)
    usual = Costs([1000.0, 3000.0], pair=0.01)
    assert [usual.seconds_per_sample(task) for task in (0, 1)] == pytest.approx([2.5, 7.5]), (
        "500 passes on average where it allows more"
    )


def test_a_forecast_counts_what_is_left_and_writes_nothing(tmp_path: Path) -> None:
    net, data = digits_network(torch.float64), digits_images(40, torch.float64)
    expected = forecast(net, data, ATTACK, run=tmp_path / "run", part="1/2").expected[0]
    assert (expected.name, expected.number) == ("linf", 20)
    assert not (tmp_path / "run").exists()
    result = ra.evaluate(net, data, ATTACK, run=tmp_path / "run", part="1/2")
    made = 20 * sum(result.passes("linf"))
    assert made / 3 < expected.passes < 3 * made
    left = forecast(net, data, ATTACK, run=tmp_path / "run", workers=4)
    assert [each.number for each in left.expected] == [20]
    assert left.memory is not None and left.memory > peak_bytes() / 2
    assert left.seconds == left.expected[0].seconds / 4
    assert forecast(net, data, ATTACK, run=tmp_path / "run", part="1/2").expected == ()


def test_a_trial_does_not_change_what_is_counted() -> None:
    net, data = digits_network(torch.float64), digits_images(40, torch.float64)
    (short,) = forecast(net, data, "linf", budget=1e-6).expected
    (longer,) = forecast(net, data, "linf", budget=0.5).expected
    assert short.passes == longer.passes
    assert short.seconds > 0
    assert ra.evaluate(net, data, ATTACK, samples=4).samples == 4, "the model is as before"


def test_seconds_are_passes_over_the_throughput_that_is_given() -> None:
    net, data = digits_network(torch.float64), digits_images(40, torch.float64)
    elsewhere = forecast(net, data, "linf", device_throughput="2000")
    assert elsewhere.seconds == pytest.approx(elsewhere.passes / 2000)
    assert elsewhere.memory is None, "that of another device is not known here"
    (function,) = forecast(lambda x: x.flatten(1)[:, :10], data, "linf", device_throughput="10").expected
    assert function.seconds == pytest.approx(function.passes / 10)
    with pytest.raises(ra.UserError, match="'fast'"):
        forecast(net, data, "linf", device_throughput="fast")
    with pytest.raises(ra.UserError, match="passes a second"):
        forecast(lambda x: x.flatten(1)[:, :10], data, "linf", device_throughput="rtx3090")


@pytest.mark.parametrize(("name", "images"), [("resnet18", 3481.78), ("resnet50", 1218.01)])
def test_a_device_of_the_table_is_as_fast_as_published(name: str, images: float) -> None:
    """An image trained on is two passes; operations are counted here and published in the table."""
    torchvision = pytest.importorskip("torchvision")
    net = getattr(torchvision.models, name)().eval()
    seconds = DeviceThroughput("rtx3090").seconds_a_pass(net, torch.zeros(1, 3, 224, 224))
    assert seconds == pytest.approx(1 / (2 * images), rel=0.02)


def test_twice_the_operations_take_twice_the_time() -> None:
    image, device = torch.zeros(1, 64), DeviceThroughput("rtx3090")
    one, two = (device.seconds_a_pass(nn.Linear(64, size), image) for size in (100, 200))
    assert two == pytest.approx(2 * one)


def test_whoever_watches_the_passes_may_prevent_one() -> None:
    """Of this caller alone; the network never sees it, and nothing of the watching stays."""
    net = Hungry(most=100)
    model, x = ra.Classifier(net), digits_images(4, torch.float64)[0]

    def watch(passes: Passes) -> None:
        if passes.forward:
            raise TimeoutError

    with model.counting(watch) as passes:
        model.logits(x)
        with pytest.raises(TimeoutError):
            model.logits(x)
        with model.with_errors("wrong").counting() as others, pytest.raises(TimeoutError):
            model.with_errors("wrong").logits(x)
    assert (net.calls, passes.forward, others.forward, model.forward_passes) == (1, 4, 0, 4)
    assert len(model.logits(x)) == 4


def test_on_the_command_line(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = "evaluate builtin:digits-standard --data digits --attacks linf --strengths linf=0.1 --samples 16"
    said = entered(*command.split(), "--dry-run", "--run", run).out
    assert "In all" in said and "passes" in said
    assert re.search(r"Memory: about [1-9][0-9.]* [MG]B\.$", said.strip())
    assert not run.exists()
