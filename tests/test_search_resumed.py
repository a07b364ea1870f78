"""Near misses: what the descent goes on from where all ascents at a strength failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Leg, Search, Stage
from robustatlas.attacks.plans import DESCENT
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.optimizers.pgd import PGD, PGDState
from robustatlas.search import search_named
from robustatlas.search.plan import ruled
from robustatlas.search.rules import NearMisses

STRENGTHS = (0.1, 0.2, 0.3, 0.4)
ROW, FAILED, FOOLED = torch.tensor([0]), torch.tensor([False]), torch.tensor([True])


class Recorder(PGD):
    """PGD that keeps all points and objectives that it is told."""

    def step(self, problem: Problem, state: PGDState, evaluation: Evaluation) -> PGDState:
        SEEN.append((self.steps, int(state.step[0]), evaluation.objective.clone(), problem.epsilon.clone()))
        return super().step(problem, state, evaluation)


SEEN: list[tuple[int, int, Tensor, Tensor]] = []


def attack(last: Sequence[Leg], near: float = 0.8) -> ra.Attack:
    """Ascents that are too short to leave the middle of the set, and what comes after them."""
    short = Leg(Stage(Recorder(3, rate=0.2), "margin", start="neutral"))
    rules = tuple(replace(rule, within=near) if isinstance(rule, NearMisses) else rule for rule in DESCENT)
    plans = {"descent": ruled((short, *last), rules)}
    return replace(attack_named("linf"), name="short", strengths=STRENGTHS, plans=plans)


RESUMED = Leg(Stage(Recorder(10, rate=0.5), "margin", start="missed"), "resume")


def line() -> tuple[ra.Classifier, Tensor, Tensor]:
    """Two features; class 1 where their sum is above 1.3: at linf distances .25 and .15."""
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        net.bias.copy_(torch.tensor([0.0, -1.3]))
    return ra.Classifier(net, name="line"), torch.tensor([[0.4, 0.4], [0.5, 0.5]]), torch.tensor([0, 0])


def sizes_of(one: ra.Attack, rows: slice = slice(None), **settings: Any) -> list[float]:
    model, x, labels = line()
    result = ra.evaluate(model, (x[rows], labels[rows]), one, progress=False, search="descent", **settings)
    return [float(size) for size in result.minimal_size("short")]


def test_it_goes_on_from_the_nearest_miss() -> None:
    assert sizes_of(attack(()), slice(1)) == [float("inf")]
    SEEN.clear()
    assert 0.25 <= sizes_of(attack((RESUMED,)), slice(1))[0] <= 0.3
    lowest = max(float(value[0]) for steps, _, value, _ in SEEN if steps == 3)
    first = next(float(value[0]) for steps, step, value, _ in SEEN if steps == 10 and step == 0)
    assert first == lowest < 0


def test_nothing_goes_on_from_afar() -> None:
    SEEN.clear()
    assert sizes_of(attack((RESUMED,), near=0.01), slice(1)) == [float("inf")]
    assert {steps for steps, *_ in SEEN} == {3}


def test_samples_do_not_depend_on_each_other() -> None:
    alone = [sizes_of(attack((RESUMED,)), slice(k, k + 1))[0] for k in range(2)]
    assert sizes_of(attack((RESUMED,))) == alone == sizes_of(attack((RESUMED,)), batch_size=1)


def test_high_effort_goes_on_as_well() -> None:
    assert sizes_of(attack((RESUMED,)), slice(1), effort="high")[0] <= 0.3


def scheduled(search: Search = "descent", share: float = torch.inf) -> Any:
    """One sample, of which the nearest of its failed ascents left ``share`` of the clean margin."""
    plan, one = attack_named("recolor").plans[search], torch.tensor([True])
    schedule = search_named(search)(plan, torch.tensor(STRENGTHS), classes=10, todo=one)
    schedule.begin(torch.tensor([1.0]), torch.zeros(1, 2))
    schedule.misses.share[:] = share
    return schedule


def after_all_fail(schedule: Any) -> None:
    """The bound comes to .45; the ascents fail."""
    while not schedule.done[0] and schedule.attempt[0] < schedule.resuming:
        schedule.advance(ROW, FAILED, torch.tensor([0.45]), torch.tensor([torch.inf]))


@pytest.mark.parametrize("search", ["descent", "minimum"])
def test_only_near_misses_are_gone_on_from(search: Search) -> None:
    rule = attack_named("recolor").plans[search].rule(NearMisses)
    assert rule is not None
    near, far, unknown = (scheduled(search, share) for share in (0.99 * rule.within, 1.01 * rule.within, torch.inf))
    for schedule in (near, far, unknown):
        after_all_fail(schedule)
    assert far.done[0] and unknown.done[0]
    assert not near.done[0] and near.attempts[int(near.attempt[0])].leg.role == "resume"
    near.advance(ROW, FAILED, torch.tensor([0.45]), torch.tensor([torch.inf]))
    assert near.done[0]


def test_after_a_success_it_goes_on_below() -> None:
    schedule = scheduled(share=0.01)
    after_all_fail(schedule)
    level = int(schedule.level[0])
    schedule.misses.share[:] = torch.inf  # a success forgets those before it
    schedule.advance(ROW, FOOLED, torch.tensor([0.4]), torch.tensor([0.4]))
    assert not schedule.done[0] and schedule.warm[0]
    assert schedule.level[0] == level - 1 and schedule.attempt[0] == schedule.resuming


def test_a_near_miss_is_gone_on_from_whatever_the_ratio() -> None:
    """Far below a bound few runs are made; a near miss of these few counts all the same."""
    schedule, made = scheduled(share=0.01), []
    while not schedule.done[0]:
        made.append(schedule.attempts[int(schedule.attempt[0])].leg.role)
        schedule.advance(ROW, FAILED, torch.tensor([0.19]), torch.tensor([torch.inf]))
    assert 0 < made.count("ascend") < schedule.ascents
    assert made[-1] == "resume"
