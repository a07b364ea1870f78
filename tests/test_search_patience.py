"""Which runs are given up, and that nothing else changes: smaller cost, the same sizes, whatever the batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.effort import at_effort
from robustatlas.classifier import Classifier
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.square import Square
from robustatlas.patience import Patience, Progress
from robustatlas.search import Descent, Minimum, Schedule


def descent(attack: ra.Attack | None = None, kind: type[Descent] = Descent) -> Descent:
    strengths = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    return kind(attack or attack_named("linf"), strengths, classes=10, todo=torch.tensor([True]))


def bounds_until(schedule: Schedule, sizes: list[float]) -> int:
    """How many bounds are run, where they come to ``sizes`` in turn."""
    row, best = torch.tensor([0]), torch.inf
    for count, size in enumerate(sizes, 1):
        best = min(best, size)
        known, reached = (torch.tensor([value], dtype=torch.float64) for value in (best, size))
        schedule.advance(row, torch.tensor([False]), known, reached)
        if not schedule.bounds[schedule.attempt[0]]:
            return count
    raise AssertionError("bounds without end")


@pytest.mark.parametrize("kind", [Descent, Minimum])
def test_bounds_end_where_two_kinds_agree(kind: type[Descent]) -> None:
    """Without hops in both searches; with them in the descent, but for one hop."""
    kinds = (ra.Stage(FMN(30), "margin", targets=3), ra.Stage(FMN(30), "dlr"), ra.Stage(FMN(20), "dlr", targets=2))
    catalogued = () if kind is Minimum else (attack_named("linf"),)
    for attack in (replace(attack_named("linf"), bound=kinds, minimum=None), *catalogued):
        every = (
            len([attempt for attempt in descent(attack).attempts if attempt.bound]) - 1
        )  # the last one is the polish
        classes = [0.2, 0.25, 0.2]  # towards three of them, by one kind
        hop = [0.3] if int(descent(attack).hops.sum()) else []
        for agreeing in ([*classes, 0.2004], [*classes, 0.1996], [*classes, 0.25, 0.2004]):
            assert bounds_until(descent(attack, kind), [*agreeing, *hop]) == len(agreeing) + len(hop)
        assert bounds_until(descent(attack, kind), [*classes, 0.19, *[0.2] * (every - 4)]) == every, (
            "the smallest is what counts"
        )
        assert bounds_until(descent(attack, kind), [torch.inf] * every) == every, "nothing found twice is no agreement"


@pytest.mark.parametrize("kind", [Descent, Minimum])
def test_hops_end_after_some_that_find_nothing(kind: type[Descent]) -> None:
    run = ra.Stage(FMN(30), "margin", targets=3)
    least = 5
    hops = ra.Stage(FMN(30), "margin", start="best", kick=4.0, restarts=20, fruitless=least)
    attack = replace(attack_named("linf"), bound=(run, hops), minimum=(run, hops))
    found = [0.5, 0.6, 0.7]
    assert bounds_until(descent(attack, kind), [*found, *[0.6] * 20]) == 3 + least
    gains = [0.4, 0.6, 0.3995, 0.2]  # the third is no gain: smaller by less than 0.3 %
    assert bounds_until(descent(attack, kind), [*found, *gains, *[0.6] * 20]) == 3 + 4 + least
    high = descent(at_effort(attack, "high"), kind)
    assert int(high.hops.sum()) == 40
    assert bounds_until(high, [0.5] * 60) == high.first - 40 + 3 * least


def test_the_smallest_size_is_hopped_for_even_where_two_kinds_agree() -> None:
    attack = attack_named("l2")
    assert bounds_until(descent(attack), [0.5] * 5) == 5, "one hop, to be sure"
    hops = attack.minimum_stages[-1]
    assert bounds_until(descent(attack, Minimum), [0.5] * 20) == 4 + hops.fruitless < 4 + hops.restarts


def test_the_hop_after_agreement_is_a_hop_wherever_hops_stand() -> None:
    run, other = ra.Stage(FMN(30), "margin"), ra.Stage(FMN(30), "dlr")
    hops = ra.Stage(FMN(20), "margin", start="best", kick=4.0, restarts=3)
    schedule = descent(replace(attack_named("l2"), bound=(run, other, hops, replace(run, targets=2))))
    for size in (0.5, 0.5):
        found = torch.tensor([size], dtype=torch.float64)
        schedule.advance(torch.tensor([0]), torch.tensor([False]), found, found)
    following = schedule.attempts[int(schedule.attempt[0])]
    assert (following.stage, following.number) == (hops, 2), "the last of three"


def test_one_kind_does_not_agree_with_itself() -> None:
    alone = replace(attack_named("linf"), bound=(ra.Stage(FMN(30), "margin", targets=4),))
    assert bounds_until(descent(alone), [0.2] * 4) == 4


def test_high_effort_waits_longer_and_leaves_no_kind_out() -> None:
    patient, usual = descent(at_effort(attack_named("linf"), "high")), descent(attack_named("linf"))
    looks = zip(patient.patience.behind, usual.patience.behind, strict=True)
    assert all(more[0] == less[0] and more[1] > less[1] for more, less in looks)
    assert patient.patience.hope == torch.inf
    bounds = [a for a in patient.attempts if a.bound and (a.stage.start != "best" or a.stage.kick)]
    assert bounds_until(patient, [0.2] * len(bounds)) == len(bounds) > 15


def test_what_has_no_gradient_is_never_given_up() -> None:
    progress = Progress(*(torch.tensor([value]) for value in (torch.inf, 5.0, 5.0, 0.0)))
    patience, at = Patience(behind=((0.0, 1.0),), hope=0.0), torch.tensor([10])
    for optimizer, given_up in ((FMN(20), True), (PGD(20), True), (Square(20), False)):
        assert patience.gives_up(progress, at, optimizer, torch.tensor([1.0])).tolist() == [given_up]


def test_without_end_of_hope_every_ascent_goes_on() -> None:
    progress = Progress(*(torch.tensor([value, value]) for value in (torch.inf, 5.0, 5.0)), torch.tensor([0.0, 0.1]))
    patience, known = Patience(behind=(), hope=torch.inf), torch.tensor([1.0, 1.0])
    for step in range(21):
        assert not patience.gives_up(progress, torch.tensor([step, step]), PGD(20), known).any()


def two_planes() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A linear network of three classes: one boundary is three times as far as the other."""
    net = nn.Linear(8, 3).double()
    with torch.no_grad():
        net.weight.zero_()
        net.weight[1, :4], net.weight[2, 4:] = 1.0, 1.0
        net.bias.copy_(torch.tensor([0.0, -2.4, -3.2]))
    return net, torch.full((3, 8), 0.5, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)


def test_runs_towards_a_far_class_are_cut_short_and_the_near_one_is_found() -> None:
    net, x, labels = two_planes()
    attack = replace(attack_named("linf"), bound=(ra.Stage(FMN(30), "margin", targets=2),), descent=(), polish=())
    result = ra.evaluate(net, (x, labels), attack, progress=False)
    np.testing.assert_allclose(result.minimal_size("linf"), 0.1, rtol=0.01)
    whole = 2 * 31
    forward, backward = result.passes("linf")
    assert backward < 0.8 * whole and backward > 31, "the second run ends early, the first does not"
    alone = ra.evaluate(net, (x[:1], labels[:1]), attack, progress=False)
    assert sum(alone.passes("linf")) == forward + backward


def test_an_ascent_whose_margin_falls_too_slowly_is_cut_short() -> None:
    net, x, labels = two_planes()
    short = ra.Stage(PGD(20, rate=1e-3), "margin")
    attack = replace(attack_named("linf"), bound=(), descent=(short,), polish=())
    result = ra.evaluate(net, (x, labels), attack, strengths={"linf": [0.15]}, progress=False)
    assert np.isinf(result.minimal_size("linf")).all()
    assert result.passes("linf")[1] == 6, "given up after a quarter: three more parts of the same would not arrive"
    direct = replace(attack, descent=(replace(short, optimizer=PGD(20, rate=0.1)),))
    found = ra.evaluate(net, (x, labels), direct, strengths={"linf": [0.15]}, progress=False)
    assert (found.minimal_size("linf") <= 0.15 * (1 + 1e-5)).all()


def test_patience_saves_passes_and_keeps_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(6)
    assert isinstance(model, Classifier)
    found = ra.evaluate(model, data, "l2", progress=False)
    monkeypatch.setattr(Descent, "PATIENCE", Patience(behind=(), hope=float("inf")))
    monkeypatch.setattr(Descent, "AGREE", -1.0)
    patient = ra.evaluate(model, data, "l2", progress=False)
    assert sum(found.passes("l2")) < 0.85 * sum(patient.passes("l2"))
    np.testing.assert_allclose(found.minimal_size("l2"), patient.minimal_size("l2"), rtol=0.02)
