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
from robustatlas.attacks.effort import at_effort
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.optimizers.pgd import PGD, PGDState
from robustatlas.search import Descent, Minimum

STRENGTHS = (0.1, 0.2, 0.3, 0.4)
FAILED, FOOLED = torch.tensor([False]), torch.tensor([True])


class Recorder(PGD):
    """PGD that keeps all points and objectives that it is told."""

    def step(self, problem: Problem, state: PGDState, evaluation: Evaluation) -> PGDState:
        SEEN.append((self.steps, int(state.step[0]), evaluation.objective.clone(), problem.epsilon.clone()))
        return super().step(problem, state, evaluation)


SEEN: list[tuple[int, int, Tensor, Tensor]] = []


def attack(last: Sequence[ra.Stage], rate: float = 0.2) -> ra.Attack:
    """Ascents that are too short to leave the middle of the set, and what comes after them."""
    short = ra.Stage(Recorder(3, rate=rate), "margin", start="neutral")
    return replace(
        attack_named("linf"), name="short", strengths=STRENGTHS, stages=(short,), bound=(), descent=None, polish=(),
        closing=tuple(last),
    )  # fmt: skip


RESUMED = ra.Stage(Recorder(10, rate=0.5), "margin", start="missed")


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


def test_it_goes_on_from_the_nearest_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Descent, "NEAR", 0.8)
    assert sizes_of(attack(()), slice(1)) == [float("inf")]
    SEEN.clear()
    assert 0.25 <= sizes_of(attack((RESUMED,)), slice(1))[0] <= 0.3
    lowest = max(float(value[0]) for steps, _, value, _ in SEEN if steps == 3)
    first = next(float(value[0]) for steps, step, value, _ in SEEN if steps == 10 and step == 0)
    assert first == lowest < 0


def test_nothing_goes_on_from_afar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Descent, "NEAR", 0.01)
    SEEN.clear()
    assert sizes_of(attack((RESUMED,)), slice(1)) == [float("inf")]
    assert {steps for steps, *_ in SEEN} == {3}


def test_samples_do_not_depend_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Descent, "NEAR", 0.8)
    alone = [sizes_of(attack((RESUMED,)), slice(k, k + 1))[0] for k in range(2)]
    assert sizes_of(attack((RESUMED,))) == alone == sizes_of(attack((RESUMED,)), batch_size=1)


def test_high_effort_goes_on_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Descent, "NEAR", 0.8)
    assert sizes_of(attack((RESUMED,)), slice(1), effort="high")[0] <= 0.3


def scheduled(kind: type[Descent] = Descent) -> Descent:
    return kind(attack_named("recolor"), torch.tensor(STRENGTHS), classes=10, todo=torch.tensor([True]))


def after_all_fail(schedule: Descent, share: float) -> None:
    """The bound comes to .45; the strong runs fail, the nearest leaving ``share`` of the clean margin."""
    row, best, missed = torch.tensor([0]), torch.tensor([0.45]), torch.tensor([share])
    while not schedule.done[0] and schedule.attempt[0] < schedule.resuming:
        schedule.advance(row, FAILED, best, torch.tensor([torch.inf]), missed)


@pytest.mark.parametrize("kind", [Descent, Minimum])
def test_only_near_misses_are_gone_on_from(kind: type[Descent]) -> None:
    near, far, unknown = scheduled(kind), scheduled(kind), scheduled(kind)
    after_all_fail(near, 0.99 * Descent.NEAR)
    after_all_fail(far, 1.01 * Descent.NEAR)
    after_all_fail(unknown, torch.inf)
    assert far.done[0] and unknown.done[0]
    assert not near.done[0] and near.attempts[int(near.attempt[0])].stage.start == "missed"
    near.advance(torch.tensor([0]), FAILED, torch.tensor([0.45]), torch.tensor([torch.inf]), torch.tensor([0.01]))
    assert near.done[0]


def test_after_a_success_it_goes_on_below() -> None:
    schedule = scheduled()
    after_all_fail(schedule, 0.01)
    level = int(schedule.level[0])
    schedule.advance(torch.tensor([0]), FOOLED, torch.tensor([0.4]), torch.tensor([0.4]), torch.tensor([torch.inf]))
    assert not schedule.done[0] and schedule.warm[0]
    assert schedule.level[0] == level - 1 and schedule.attempt[0] == schedule.resuming


def test_a_near_miss_is_gone_on_from_whatever_the_ratio() -> None:
    """Far below a bound few runs are made; a near miss of these few counts all the same."""
    schedule, row = scheduled(), torch.tensor([0])
    best, never, missed = torch.tensor([0.19]), torch.tensor([torch.inf]), torch.tensor([0.01])
    made = []
    while not schedule.done[0]:
        made.append(schedule.attempts[int(schedule.attempt[0])].stage.start)
        schedule.advance(row, FAILED, best, never, missed)
    assert len([start for start in made if start == "best"]) < schedule.strong
    assert made[-1] == "missed"


def test_high_effort_does_not_repeat_what_starts_at_one_point() -> None:
    closing = at_effort(attack_named("recolor"), "high").closing
    assert [stage.restarts for stage in closing] == [1, 1]
    assert closing[1].optimizer.steps == 2 * closing[0].optimizer.steps
