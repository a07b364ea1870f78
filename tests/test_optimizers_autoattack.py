"""APGD, FAB and Square against AutoAttack's own code (pyautoattack), step by step where both are deterministic."""

import logging
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers_core import THREATS, P, Recorder, digits_images, digits_network, iterates, problem, smallest
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.square import Square
from robustatlas.threats.lp import norm

pytestmark = pytest.mark.oracle
autopgd = pytest.importorskip("pyautoattack.autopgd_base")
fab_pt = pytest.importorskip("pyautoattack.fab_pt")
square = pytest.importorskip("pyautoattack.square")

F64 = torch.float64
EPSILON = {"linf": 0.05, "l2": 0.3, "l1": 1.0}
THEIR_NORM = {"linf": "Linf", "l2": "L2", "l1": "L1"}
SAMPLES = 12


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Their code computes in the default type, with explicit casts to float32 in between: here all is float64."""
    digits_network(torch.float32), digits_images(SAMPLES, F64), digits_images(60, F64)  # made before the change
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    torch.set_default_dtype(F64)
    yield
    torch.set_default_dtype(torch.float32)


def apgd_of(net: Recorder, name: str, loss: str) -> object:
    kind = autopgd.APGDAttack_targeted if loss == "dlr-targeted" else autopgd.APGDAttack
    attack = kind(net, norm=THEIR_NORM[name], eps=EPSILON[name], device="cpu", logger=logging.getLogger())
    attack.loss = loss
    return attack


def start_of(x: Tensor, name: str) -> Tensor:
    torch.manual_seed(3)
    theta = 0.1 * torch.randn(x.shape, dtype=F64)
    return THREATS[name].project(x, theta, torch.full((len(x),), EPSILON[name], dtype=F64))


LOSSES = [("ce", "cross-entropy"), ("dlr", "dlr"), ("dlr-targeted", "dlr")]


@pytest.mark.parametrize("name", ["linf", "l2"])
@pytest.mark.parametrize(("theirs", "ours"), LOSSES)
def test_apgd_makes_autoattacks_iterates(double: None, name: str, theirs: str, ours: str) -> None:
    net, (x, y) = digits_network(F64), digits_images(SAMPLES, F64)
    targets = net(x).argsort(1)[:, -2] if theirs == "dlr-targeted" else None
    theta, recorder = start_of(x, name), Recorder(net)
    attack = apgd_of(recorder, name, theirs)
    attack.init_hyperparam(x)  # type: ignore[attr-defined]
    attack.y_target = targets  # type: ignore[attr-defined]
    attack.attack_single_run(x, y, x_init=x + theta)  # type: ignore[attr-defined]
    own = Recorder(net)
    found = iterates(own, APGD(), ours, problem(THREATS[name], x, y, EPSILON[name], targets), theta)
    assert len(own.seen) == len(recorder.seen) == 101
    # DLR is flat once the label is third: there the gradient is rounding, and its direction is anybody's.
    sound = torch.stack([norm(one.gradient, 2) for one in found]).amin(0) > 1e-9
    assert int(sound.sum()) >= SAMPLES - 1
    for step, (a, b) in enumerate(zip(own.seen, recorder.seen, strict=True)):
        torch.testing.assert_close(
            a[sound], b[sound], rtol=0, atol=1e-7, msg=lambda text, step=step: f"step {step}: {text}"
        )


@pytest.mark.parametrize("large", [False, True], ids=["one-stage", "three-stages"])
def test_apgd_l1_makes_autoattacks_iterates(double: None, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    net, (x, y) = digits_network(F64), digits_images(SAMPLES, F64)
    torch.manual_seed(5)
    drawn = torch.randn(x.shape, dtype=F64)
    monkeypatch.setattr(torch, "randn", lambda *shape: drawn)
    monkeypatch.setattr(torch, "randn_like", lambda like: drawn)
    recorder, own = Recorder(net), Recorder(net)
    attack = apgd_of(recorder, "l1", "ce")
    attack.init_hyperparam(x)  # type: ignore[attr-defined]
    epsilon = EPSILON["l1"]
    optimizer = APGDL1() if large else APGDL1(schedule=((1.0, 1.0),))
    if large:
        attack.decr_eps_pgd(x, y, [3 * epsilon, 2 * epsilon, epsilon], [30, 30, 40])  # type: ignore[attr-defined]
    else:
        attack.attack_single_run(x, y)  # type: ignore[attr-defined]
    task = problem(THREATS["l1"], x, y, epsilon)
    theta = THREATS["l1"].project(x, drawn, task.epsilon * optimizer.start_radius)
    iterates(own, optimizer, "cross-entropy", task, theta)
    assert len(own.seen) == len(recorder.seen) == (103 if large else 101)
    for step, (a, b) in enumerate(zip(own.seen, recorder.seen, strict=True)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-7, msg=lambda text, step=step: f"step {step}: {text}")


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
@pytest.mark.parametrize("rank", [2, 4])
def test_fab_finds_autoattacks_sizes(double: None, name: str, rank: int) -> None:
    net, (x, y) = digits_network(F64), digits_images(SAMPLES, F64)
    right = net(x).argmax(1) == y
    x, y = x[right], y[right]
    attack = fab_pt.FABAttack_PT(net, norm=THEIR_NORM[name], n_iter=100, eps=1.0, device="cpu")
    attack.target_class = rank
    theirs = norm(attack.attack_single_run(x, y, is_targeted=True) - x, P[name])
    targets = net(x).argsort(1)[:, -rank]
    task = problem(THREATS[name], x, y, torch.inf, targets)
    ours = smallest(iterates(net, FAB(exact=True), "margin", task, torch.zeros_like(x)))
    # Ours has also tried the points drawn back, so that a size may be smaller by their beta, not by more.
    ratio = ours / theirs
    assert bool((ratio <= 1 + 1e-6).all()), ratio
    assert float((ratio - 1).abs().median()) < 1e-6
    assert float(ratio.min()) > 0.9 - 1e-6


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
def test_square_fools_as_many_as_autoattacks(name: str) -> None:
    """Random search with shared against own windows: the counts agree within chance over three seeds."""
    net, (x, y) = digits_network(), digits_images(100)
    right = net(x).argmax(1) == y
    x, y = x[right], y[right]
    epsilon, queries = {"linf": 0.08, "l2": 0.6, "l1": 2.0}[name], 150
    theirs, ours = [], []
    for seed in range(3):
        attack = square.SquareAttack(
            net, norm=THEIR_NORM[name], n_queries=queries, eps=epsilon, seed=seed, device="cpu", resc_schedule=False
        )
        theirs.append(int((net(attack.perturb(x, y)).argmax(1) != y).sum()))
        task = problem(THREATS[name], x, y, epsilon, seed=seed)
        found = iterates(net, Square(steps=queries), "margin", task, torch.zeros_like(x))
        ours.append(int((smallest(found) <= epsilon * (1 + 1e-5)).sum()))
    print(name, "fooled by ours", ours, "by theirs", theirs, "of", len(x))
    spread = 3 * (np.mean([*ours, *theirs]) * (1 - np.mean([*ours, *theirs]) / len(x)) / 3) ** 0.5
    assert np.mean(ours) >= np.mean(theirs) - max(spread / 2, 3), (ours, theirs)


@pytest.mark.parametrize("name", ["linf", "l2", "l1"])
def test_early_fab_without_the_second_evaluation_is_as_good(name: str) -> None:
    """The cheaper form that the descent uses, and FMN, against 100 steps of AutoAttack's."""
    net, (x, y) = digits_network(F64), digits_images(60, F64)
    right = net(x).argmax(1) == y
    x, y = x[right], y[right]
    targets = net(x).argsort(1)[:, -2]
    exact, cheap = (
        smallest(iterates(net, fab, "margin", problem(THREATS[name], x, y, torch.inf, targets), torch.zeros_like(x)))
        for fab in (FAB(exact=True), FAB(steps=30))
    )
    bound = FMN(steps=30, alpha=4.0, dense=True) if name == "l1" else FMN(steps=30)
    fmn = smallest(iterates(net, bound, "margin", problem(THREATS[name], x, y, torch.inf), torch.zeros_like(x)))
    print(name, "medians: exact", float(exact.median()), "30 steps", float(cheap.median()), "FMN", float(fmn.median()))
    assert float(cheap.median()) <= float(exact.median()) * 1.002
    assert bool(fmn.isfinite().all())
