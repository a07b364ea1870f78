"""The search for smallest sizes: closed forms of linear networks, and nothing that depends on a grid."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from helpers_core import bounded, digits_images, digits_network, with_plan
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import AttackRun
from robustatlas.attacks.search.descent import Minimum
from robustatlas.attacks.search.rules import MINIMUM_SIZE, StopFruitless
from robustatlas.evaluation.attack_task import AttackTask
from robustatlas.evaluation.records import attack_record
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.sigma_zero import SigmaZero


def linear(dimensions: int = 12) -> tuple[nn.Linear, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A network of two classes, inputs far from the border of the box, labels, gaps of the logits, and the weights."""
    generator = torch.Generator().manual_seed(0)
    x = 0.5 + 0.02 * torch.randn(6, dimensions, generator=generator, dtype=torch.float64)
    net = nn.Linear(dimensions, 2).double()
    with torch.no_grad():
        net.weight.copy_(torch.randn(2, dimensions, generator=generator, dtype=torch.float64))
        labels = net(x).argmax(1)
        gap = net(x).gather(1, labels[:, None])[:, 0] - net(x).gather(1, 1 - labels[:, None])[:, 0]
    return net, x, labels, gap, (net.weight[0] - net.weight[1]).detach()


def rooms(x: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """How far each value can go towards the other class inside the box."""
    sign = torch.where(labels == 0, -1.0, 1.0).double()[:, None]
    return torch.where(sign * weights > 0, 1 - x, x)


def shortest(norm: str, gap: torch.Tensor, weights: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """[N]: size of the smallest change that closes the gap; in l1 and l0 the largest weights go first, to the box."""
    if norm in ("linf", "l2"):
        return gap / torch.linalg.vector_norm(weights, {"linf": 1, "l2": 2}[norm])
    order = weights.abs().argsort(descending=True) if norm == "l1" else (weights.abs() * room).argsort(1).flip(1)
    order = order.expand_as(room)
    gain = weights.abs().expand_as(room).gather(1, order) * room.gather(1, order)
    before = gain.cumsum(1) - gain
    full = before + gain < gap[:, None]
    if norm == "l0":
        return full.sum(1).double() + 1
    last = full.sum(1, keepdim=True)
    part = (gap[:, None] - before.gather(1, last)) / weights.abs().expand_as(room).gather(1, order).gather(1, last)
    return (room.gather(1, order) * full).sum(1) + part[:, 0]


@pytest.mark.parametrize(("norm", "slack"), [("linf", 0.01), ("l2", 0.01), ("l1", 0.01), ("l0", 0)])
def test_sizes_of_a_linear_network_are_the_closed_form(norm: str, slack: float) -> None:
    net, x, labels, gap, weights = linear()
    exact = shortest(norm, gap, weights, rooms(x, labels, weights)).numpy()
    found = ra.evaluate(net, (x, labels), norm, search="minimum", progress=False).minimal_size(norm)
    np.testing.assert_allclose(found, exact, rtol=slack)
    assert (found >= exact * (1 - 1e-9)).all()


def test_sizes_do_not_depend_on_the_strengths_and_lie_between_them() -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(3)
    grids = (None, {"l2": [0.3, 5.0]})
    found = [ra.evaluate(model, data, "l2", search="minimum", strengths=g, progress=False) for g in grids]
    sizes = [result.minimal_size("l2") for result in found]
    assert np.isfinite(sizes[0]).all()
    np.testing.assert_array_equal(sizes[1], sizes[0])
    coarse = ra.evaluate(model, data, "l2", search="descent", strengths=grids[1], progress=False).minimal_size("l2")
    assert sizes[0].mean() <= coarse.mean() * 1.001


def test_it_works_nearer_and_nearer_below_the_best_and_goes_on_from_every_success() -> None:
    plan = attack_named("linf").plan("minimum")
    several = AttackRun(PGD(15), "margin", targets="logits", count=2)
    runs, row = tuple(several if run.role == "ascend" else run for run in plan.runs), torch.tensor([0])
    plan = replace(plan, runs=runs)
    schedule = Minimum(plan, torch.tensor([0.1, 0.2]), classes=3, todo=torch.tensor([True]))
    best, seen = torch.tensor([1.0]), []
    while not schedule.done[0]:
        attempt = schedule.attempts[int(schedule.attempt[0])]
        epsilon = float(schedule.epsilon(row, best))
        first = attempt.run.role not in MINIMUM_SIZE and not seen
        if attempt.run.role not in MINIMUM_SIZE:
            seen.append(round(epsilon / float(best), 3))
        best = torch.tensor([epsilon]) if first else best
        schedule.advance(row, torch.tensor([first]), best, best)
    assert seen[:2] == [0.9, 0.9], "a success at .9 is followed by another try at .9 of the new best"
    assert seen == sorted(seen, reverse=False) and set(seen) == {0.9, 0.99}
    assert seen.count(0.9) == 2 and seen.count(0.99) == schedule.refine - schedule.ascend


def test_what_nothing_bounds_is_tried_at_the_largest_strength() -> None:
    plan, row, never = attack_named("linf").plan("minimum"), torch.tensor([0]), torch.tensor([torch.inf])
    schedule = Minimum(plan, torch.tensor([0.1, 0.2]), classes=3, todo=torch.tensor([True]))
    tried = []
    while not schedule.done[0]:
        if not schedule.bounds[schedule.attempt[0]]:
            tried.append(float(schedule.epsilon(row, never)))
        schedule.advance(row, torch.tensor([False]), never, never)
    assert len(tried) == schedule.refine - schedule.ascend
    assert tried == pytest.approx([0.2] * len(tried))


def test_what_a_plan_leaves_out_is_not_paid_for() -> None:
    attack = attack_named("l1")
    other = with_plan(attack, "minimum", *attack.plan("minimum").runs[1:])
    for search in attack.searches:
        tasks = [AttackTask(each, search, attack_record(each, search, 0, "float32")) for each in (attack, other)]
        weights = [task.cost_weight(10) for task in tasks]
        assert (weights[0] > weights[1]) == (search == "minimum")


def test_sigma_zero_alone_comes_within_a_value_of_the_fewest() -> None:
    net, x, labels, gap, weights = linear(40)
    attack = replace(attack_named("sigma-zero"), runs=(AttackRun(SigmaZero(150), "margin"),))
    found = ra.evaluate(net, (x, labels), attack, progress=False).minimal_size("sigma-zero")
    fewest = shortest("l0", gap, weights, rooms(x, labels, weights)).numpy()
    assert (found >= fewest).all() and (found <= fewest + 1).all(), (found, fewest)


def test_restarts_find_no_larger_sizes_and_are_asked_for_in_one_way() -> None:
    run = AttackRun(FMN(5), "margin")
    restarts = AttackRun(FMN(15), "margin", start="best", kick=4.0, role="restart", count=3)
    found = {}
    for name, runs in (("without", (run,)), ("with", (run, restarts))):
        data = digits_images(12, torch.float64)
        result = ra.evaluate(digits_network(torch.float64), data, bounded("l2", *runs), progress=False)
        found[name] = result.minimal_size("l2")
    assert (found["with"] <= found["without"]).all()
    assert (found["with"] < found["without"]).any()
    for other in (AttackRun(PGD(5), "margin", start="best"), run):
        with pytest.raises(ra.UserError, match=r"kick=2\.0; expected a positive number, and only for a minimum-size"):
            replace(other, role="restart" if other is run else "ascend", kick=2.0)
    for wrong in ({"patience": 0}, {"patience": 3, "stubborn": 2}):
        with pytest.raises(ra.UserError, match="expected numbers of runs, at least one, and no fewer for stubborn"):
            StopFruitless(**wrong)
