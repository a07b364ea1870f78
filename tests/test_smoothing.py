"""ReLUs that go back smoothed: the values stay, the gradient is that of softplus, and the record is what smooths."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import with_plan
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import AttackRun
from robustatlas.attacks.table import run_in_words
from robustatlas.evaluation import preparation
from robustatlas.evaluation.attack_task import AttackTask, missing_tasks
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.classifier.probing import kinks_at
from robustatlas.models.classifier.smoothing import STEEPNESS, kinks_from_moments, recording_relus, smoothing
from robustatlas.models.defenses import BitDepthReduction, Defended
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD

RELUS: dict[str, Callable[[Tensor], Tensor]] = {
    "module": nn.ReLU(),
    "module in place": nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)),
    "functional": F.relu,
    "functional in place": lambda x: F.relu(x, inplace=True),
    "torch.relu": torch.relu,
    "torch.relu_": torch.relu_,
    "method": lambda x: x.relu(),
    "method in place": lambda x: x.relu_(),
    "a part of a tensor in place": lambda x: torch.cat([x[:, :2].relu_(), x[:, 2:].relu_()], 1),
    "clamp(min=0)": lambda x: x.clamp(min=0),
    "clamp(0)": lambda x: torch.clamp(x, 0),
    "clamp_(0.0)": lambda x: x.clamp_(0.0),
    "clamp_min": lambda x: torch.clamp_min(x, 0),
    "clip": lambda x: x.clip(min=0, max=None),
    "by keyword": lambda x: torch.relu(input=x),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "clamp(0, 1)": lambda x: x.clamp(0, 1),
    "clamp(max=0)": lambda x: x.clamp(max=0),
    "clamp(min=0.5)": lambda x: x.clamp(min=0.5),
    "sigmoid": torch.sigmoid,
}


def given(dtype: torch.dtype = torch.float32, batch: int = 5) -> Tensor:
    x = torch.randn(batch, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[0, 0], x[0, 1] = 0.0, -0.0
    return x.requires_grad_()


def same_bits(one: Tensor, other: Tensor) -> bool:
    return bool((one == other).all() and (one.signbit() == other.signbit()).all() and one.dtype == other.dtype)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", RELUS)
def test_values_keep_every_bit_and_the_derivative_is_that_of_softplus(name, dtype, batch):
    x, spread = given(dtype, batch), 0.5
    relu = RELUS[name]
    net = lambda x: relu(x * 1)  # noqa: E731 - in place on what is not a leaf
    y = smoothing(net, (spread,) * 2)(x)
    assert same_bits(y, net(x))
    (slope,) = torch.autograd.grad(y.sum(), x)
    soft = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(F.softplus(soft, beta=STEEPNESS / spread).sum(), soft)
    torch.testing.assert_close(slope.double(), expected, atol=2e-3 if dtype == torch.float16 else 1e-6, rtol=1e-3)


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_go_back_as_they_are(name):
    x, moments = given(), []
    (slope,) = torch.autograd.grad(smoothing(OTHERS[name], (1.0,))(x).sum(), x)
    (true,) = torch.autograd.grad(OTHERS[name](x).sum(), x)
    assert torch.equal(slope, true)
    recording_relus(OTHERS[name], moments)(x)
    assert moments == [[]]


def test_what_is_written_into_afterwards_goes_back_right():
    def net(x: Tensor) -> Tensor:
        x = x * 1
        y = F.relu(x)
        x += 3
        return (y + x).relu_().add_(1)

    x = given()
    smoothed = smoothing(net, (1.0, 1.0))(x)
    assert same_bits(smoothed, net(x))
    assert torch.autograd.grad(smoothed.sum(), x)[0].isfinite().all()


def test_each_call_of_a_module_counts_and_those_beyond_the_record_are_true():
    relu = nn.ReLU()
    net = lambda x: relu(relu(x - 0.2) - 0.1)  # noqa: E731
    x = torch.tensor([0.2], requires_grad=True)
    slopes = [
        torch.autograd.grad(smoothing(net, kinks)(x), x)[0].item() for kinks in ((), (1.0,), (1.0, 1.0), (0.0, 1.0))
    ]
    first, second = 0.5, torch.tensor(-0.1 * STEEPNESS).sigmoid().item()
    assert slopes == pytest.approx([0.0, 0.0, first * second, 0.0])


def test_a_pass_without_gradient_is_left_alone():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    with torch.no_grad():
        y = smoothing(net, (1.0,))(given())
    assert not y.requires_grad
    assert same_bits(y, net(given()).detach())


def test_deviations_do_not_depend_on_how_passes_are_cut():
    x, net = torch.rand(8, 4), nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    whole, cut = [], []
    recording_relus(net, whole)(x)
    for part in x.split(2):
        recording_relus(net, cut)(part)
    inside = net[0](x).double()
    assert kinks_from_moments(cut) == kinks_from_moments(whole)
    assert kinks_from_moments(whole)[0] == pytest.approx(float(inside.std(correction=0)), rel=5e-3)


class Branching(nn.Module):
    """Calls one ReLU more where the batch is bright."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x - 0.5)
        return F.relu(x - 0.1) if x.sum() > 1 else x


def test_a_network_that_calls_more_relus_at_times_takes_those_it_was_measured_with():
    model = Classifier(Branching())
    kinks = kinks_at(model, torch.full((2, 3), 0.51))
    assert len(kinks) == 1
    bright = torch.ones(2, 3, requires_grad=True)
    with going_back("smoothed"):
        assert same_bits(model.with_smoothing(kinks).logits(bright), model.logits(bright))


@pytest.mark.parametrize("settings", [{}, {"compiled": True}, {"precision": "bfloat16"}, {"batch_size": 2}])
def test_a_classifier_gives_smoothed_gradients_where_they_are_asked_for(settings):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model = Classifier(net, mean=0.4, std=0.3, prepare=lambda x: x.clamp(min=0), **settings)
    x = torch.rand(3, 4)
    kinks = kinks_at(model, x)
    assert len(kinks) == 1  # and not that of ``prepare``
    smooth, labels = model.with_smoothing(kinks), torch.zeros(3, dtype=torch.int64)

    def slope(of: Classifier, way: str | None) -> tuple[Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        with going_back(way):
            logits, _ = of.searched(leaf, labels, None)
        return logits, torch.autograd.grad(logits[:, 0].sum(), leaf)[0]

    (value, true), (asked, soft), (usual, unasked) = slope(model, None), slope(smooth, "smoothed"), slope(smooth, None)
    assert torch.allclose(true, unasked, atol=1e-2) and not torch.allclose(true, soft, atol=1e-2)
    assert settings.get("compiled") or (same_bits(value, asked) and same_bits(value, usual))


def test_transformations_go_back_as_they_say_themselves_where_relus_are_smoothed():
    net = Defended(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), BitDepthReduction(2, backward="true"))
    model, x = Classifier(net), torch.rand(3, 4)
    leaf = x.clone().requires_grad_()
    with going_back("smoothed"):
        (slope,) = torch.autograd.grad(model.with_smoothing(kinks_at(model, x)).logits(leaf).sum(), leaf)
    assert not slope.any()


def test_a_scripted_network_shows_no_relu():
    net = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    assert kinks_at(Classifier(net), torch.rand(3, 4)) == ()


def relu_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 10))


def tanh_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))


def digits_said_by(net: nn.Module, count: int) -> ra.Dataset:
    """The first images of the digits, labelled as the network says."""
    data = ra.load_dataset("digits").take(count)
    with torch.no_grad():
        return ra.Dataset.from_rows(data.rows, net(data.images).argmax(1), data.name)


def sizes_of(net: nn.Module, data: ra.Dataset, **options: Any) -> tuple[NDArray[np.float64], ra.Result]:
    result = ra.evaluate(net, data, "l2", diagnose=False, progress=False, **options)
    return result.minimal_size("l2"), result


@pytest.mark.parametrize(
    "options", [{"batch_size": 3}, {"shard_size": 5}, {"workers": 2}, {"samples": range(11, -1, -1)}]
)
def test_numbers_depend_on_neither_batch_nor_order_nor_workers(options, watched):
    net, strengths = relu_net(), {"l2": [0.1, 0.2, 0.4]}
    data = digits_said_by(net, 12)
    alone, result = sizes_of(net, data, strengths=strengths)
    again, other = sizes_of(net, data, strengths=strengths, **options)
    order = np.argsort(other.index)
    np.testing.assert_allclose(again[order], alone, rtol=1e-5)
    (kinks,), (others,) = ([r.gradient.kinks for r in each.records.values()] for each in (result, other))
    assert len(kinks) == 2 and kinks == others


def test_a_part_and_a_resumed_run_smooth_by_what_the_run_recorded(tmp_path, monkeypatch):
    """Another device rounds another deviation; what the run recorded counts."""
    net, strengths = relu_net(), {"l2": [0.1, 0.2, 0.4]}
    data = digits_said_by(net, 12)
    whole, result = sizes_of(net, data, strengths=strengths)
    run, kept = tmp_path / "run", next(iter(result.records.values())).gradient.kinks
    sizes_of(net, data, strengths=strengths, run=run, part="0/2")
    monkeypatch.setattr(preparation, "kinks_at", lambda model, x: tuple(1.01 * k for k in kinks_at(model, x)))
    resumed, later = sizes_of(net, data, strengths=strengths, run=run)
    assert [record.gradient.kinks for record in later.records.values()] == [kept]
    np.testing.assert_allclose(resumed, whole, rtol=1e-5)
    (record,) = later.records.values()
    fresh = record.model_copy(update={"gradient": record.gradient.model_copy(update={"kinks": (1.0, 1.0)})})
    assert fresh.key == record.key
    (task,) = missing_tasks(AttackTask(attack_named("l2"), "descent", fresh), later.run)
    assert task.record.gradient.kinks == kept


def test_a_network_without_relus_is_searched_as_if_none_were_smoothed():
    net, attack = tanh_net(), attack_named("l2")
    assert attack.plan("descent").has_smoothed_runs and not attack.unsmoothed().plan("descent").has_smoothed_runs
    data = digits_said_by(net, 6)
    _, usual = sizes_of(net, data)
    (record,) = usual.records.values()
    plain = ra.evaluate(net, data, attack.unsmoothed(), diagnose=False, progress=False)
    assert record.key == next(iter(plain.records.values())).key
    assert not any("smoothed" in run for run in record.runs) and record.gradient.kinks == ()
    assert usual.passes("l2") == plain.passes("l2")
    assert usual.outcome("l2").true_gradient_size is None


def test_what_smoothed_runs_found_is_told():
    net = relu_net()
    _, result = sizes_of(net, digits_said_by(net, 24))
    outcome = result.outcome("l2")
    assert outcome.true_gradient_size is not None and (outcome.true_gradient_size >= outcome.minimal_size).all()
    assert any("through smoothed ReLUs" in kind for kind in outcome.counts_by_run())
    assert set(outcome.kinds) == {run_in_words(run) for run in attack_named("l2").plan("descent").runs}


def test_what_the_true_gradient_makes_of_a_smoothed_example_does_not_count_as_its_own():
    smoothed = AttackRun(FMN(4), "margin", "bound", backward="smoothed")
    ascent = AttackRun(PGD(10, rate=1.0), "margin", start="best")
    net, strengths = relu_net(), {"l2": np.linspace(0.02, 1.0, 25).round(3).tolist()}
    attack = with_plan(attack_named("l2"), "descent", smoothed, ascent)
    result = ra.evaluate(net, digits_said_by(net, 12), attack, strengths=strengths, diagnose=False, progress=False)
    outcome = result.outcome("l2")
    assert any("through smoothed ReLUs" not in kind for kind in outcome.counts_by_run()), "the ascent found some"
    assert outcome.true_gradient_size is not None and np.isinf(outcome.true_gradient_size).all()
