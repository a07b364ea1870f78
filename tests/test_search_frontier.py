"""The frontier search: closed forms on a linear network, and not above what other searches and restarts find."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from helpers_core import with_plan
from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import AttackRun, grid
from robustatlas.attacks.search.frontier import FrontierSearch
from robustatlas.attacks.search.plan import Plan
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.wording import UPPER_BOUND
from robustatlas.metrics import adversarial_hypervolume
from robustatlas.models.defenses import BitDepthReduction, Defended
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.run_json import run_as_json


@pytest.fixture(scope="module")
def digits() -> tuple[ra.Classifier, ra.Dataset]:
    return ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(8)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_margins_of_a_linear_network_of_two_classes_are_the_closed_form(norm: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = 0.5 + 0.02 * torch.randn(6, 12, generator=generator, dtype=torch.float64)
    net = nn.Linear(12, 2).double()
    with torch.no_grad():
        net.weight.copy_(torch.randn(2, 12, generator=generator, dtype=torch.float64))
        labels = net(x).argmax(1)
        gap = net(x).gather(1, labels[:, None])[:, 0] - net(x).gather(1, 1 - labels[:, None])[:, 0]
        slope = torch.linalg.vector_norm(net.weight[0] - net.weight[1], 1 if norm == "linf" else 2)
    strengths = np.linspace(0.1, 1, 10) * float((gap / slope).median()) * 1.3
    result = ra.evaluate(net, (x, labels), norm, search="frontier", strengths={norm: strengths}, progress=False)
    lowest = torch.tanh((gap[:, None] - slope * torch.tensor(strengths)) / 2).numpy()
    found = result.margins(norm)
    open_ = lowest > 0
    assert open_.any() and not open_.all()
    np.testing.assert_allclose(found[open_], lowest[open_], rtol=1e-3)
    assert (found[~open_] <= 1e-6).all()
    np.testing.assert_allclose(result.minimal_size(norm), gap / slope, rtol=0.01)


def volume(result: ra.Result) -> float:
    (attack,) = result.attacks
    return adversarial_hypervolume(result.margins(attack), result.clean_margin, result.strengths(attack)).mean


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_it_is_below_every_other_search_and_a_long_ascent_at_each_strength(digits, norm: str) -> None:
    model, data = digits
    last = {"linf": 0.3, "l2": 1.5}[norm]
    attack = replace(catalogue()[norm], strengths=grid(last, 5))
    long = replace(attack, runs=(AttackRun(APGD(60), "margin"),), search_order=())
    found = volume(ra.evaluate(model, data, attack, search="frontier", progress=False))
    assert found <= volume(ra.evaluate(model, data, attack, search="descent", progress=False))
    assert found <= volume(ra.evaluate(model, data, long, search="every", progress=False))


def test_the_suite_takes_it_and_other_searches_are_called_an_upper_bound(digits, tmp_path: Path) -> None:
    model, data = digits
    assert [attack.choose_search(None) for attack in resolve_attacks("hypervolume")] == ["frontier", "frontier"]
    linf = catalogue()["linf"]
    brief = replace(with_plan(linf, "every", AttackRun(APGD(5), "margin")), strengths=grid(0.06, 3))
    words = {}
    for search in ("frontier", "every"):
        run = tmp_path / search
        result = ra.evaluate(model, data, brief, search=search, run=run, progress=False)
        words[search] = run_as_json(facts_of(result))["attacks"]["linf"]["AH is"]
    assert words == {"frontier": "", "every": UPPER_BOUND}
    finer = replace(brief, strengths=grid(0.06, 6))
    more = ra.evaluate(model, data, finer, search="every", run=tmp_path / "frontier", progress=False)
    assert not more.outcome("linf").frontier, "half of the strengths were not searched for their margin"


def test_published_attacks_by_themselves_and_sets_that_are_not_nested_do_not_offer_it() -> None:
    for name, reason in (("pgd-linf", "no runs"), ("square-l2", "no runs"), ("corruption-fog", "not nested")):
        with pytest.raises(ra.UserError, match=f"'frontier' is not valid for '{name}': .*{reason}"):
            catalogue()[name].choose_search("frontier")


def test_each_strength_that_is_open_is_visited_once_a_round_down_down_and_up() -> None:
    strengths = torch.tensor([0.1, 0.2, 0.3])
    schedule = FrontierSearch(catalogue()["linf"].plan("frontier"), strengths, classes=3, todo=torch.tensor([True]))
    row, seen = torch.tensor([0]), []
    while not schedule.done[0]:
        attempt = int(schedule.attempt[0])
        seen.append((int(schedule.level[0]), int(schedule.number_of[attempt]), int(schedule.source(row))))
        best = 0.15 if len(seen) > schedule.first + 3 else 0.25
        schedule.advance(row, torch.tensor([False]), torch.tensor([best]), torch.tensor([best]))
    bounds, rest = seen[: schedule.first], seen[schedule.first :]
    assert [number for _, number, _ in bounds] == [0, 1, 0, 1], "towards both other classes, then two hops"
    assert rest[:2] == [(1, 1, 2), (0, 0, 1)], "two strengths are open, each with a target of its own"
    assert rest[2:4] == [(1, 0, 2), (0, 0, 1)], "down"
    assert rest[4:] == [(0, 0, 0)], "up, as far as the strengths are still open"


def test_runs_that_press_on_work_below_each_example_until_they_fail() -> None:
    press = AttackRun(PGD(5), "margin", "press", count=2, start="best")
    bound = AttackRun(FMN(5), "margin", "bound")
    plan = Plan((bound, press, AttackRun(PGD(5), "log-margin", start="best"), AttackRun(PGD(5), "margin", "sweep")))
    strengths = torch.tensor([0.1, 0.2, 0.3, 0.4])
    schedule = FrontierSearch(plan, strengths, classes=3, todo=torch.tensor([True]))
    row, seen = torch.tensor([0]), []
    for best, fooled in ((0.35, False), (0.25, True), (0.25, False), (0.15, True), (0.15, False)):
        seen.append((int(schedule.attempt[0]), int(schedule.level[0]), bool(schedule.warm[0])))
        schedule.advance(row, torch.tensor([fooled]), torch.tensor([best]), torch.tensor([best]))
    assert seen[1:] == [(1, 2, False), (1, 1, True), (2, 1, False), (2, 0, True)]
    assert (int(schedule.attempt[0]), int(schedule.level[0]), bool(schedule.warm[0])) == (3, 0, True)
    schedule = FrontierSearch(plan, strengths, classes=3, todo=torch.tensor([True]))
    for _ in range(2):
        schedule.advance(row, torch.tensor([True]), torch.tensor([0.05]), torch.tensor([0.05]))
    assert schedule.done[0], "nothing is left to press on"


def test_it_leaves_no_more_than_a_descent_behind_a_transformation() -> None:
    defended = Defended(ra.load_model("builtin:digits-standard").net, BitDepthReduction(2))
    data, strengths = ra.load_dataset("digits").take(16), {"l2": [0.4, 0.5, 0.6]}
    left = {
        search: ra.evaluate(
            defended, data, "input-transformation", exclude=["linf"], search=search, strengths=strengths, progress=False
        ).accuracies()
        for search in ("descent", "frontier")
    }
    for strength in strengths["l2"]:
        assert left["frontier"].at("l2", strength) <= left["descent"].at("l2", strength)
