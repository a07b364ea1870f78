"""What the rules of a plan do: less is run, the same is found, whatever the batch."""

import textwrap
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import with_plan
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, AttackRun, Search
from robustatlas.attacks.search import SEARCHES, phases
from robustatlas.attacks.search.descent import Descent, Minimum
from robustatlas.attacks.search.phases import TRANSITIONS, Phase, state_diagram
from robustatlas.attacks.search.rules import (
    EarlyStop,
    MostPasses,
    Role,
    Rule,
    StopFruitless,
    StopLaggingRuns,
    StopSlowAscents,
    Trace,
)
from robustatlas.common.errors import UserError
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.scan import Scan
from robustatlas.optimizers.square import Square

BEGUN: list[str] = []


@dataclass(frozen=True)
class Ending(Optimizer[State]):
    """A minimum-size attack that says when it begins, and ends at the size that it is told to, one for each run."""

    needs_margin: ClassVar[bool] = True
    minimum_size: ClassVar[bool] = True

    sizes: tuple[float, ...]
    kind: str = ""
    steps: int = 1

    def init(self, problem: Problem, theta: Tensor) -> State:
        number = BEGUN.count(self.kind)
        BEGUN.append(self.kind)
        size = self.sizes[min(number, len(self.sizes) - 1)]
        return State(torch.full_like(problem.x, size), counter(problem.epsilon))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        return State(state.theta, state.step + 1)


def run_of(
    *runs: AttackRun, search: Search = "descent", rules: Sequence[Rule] | None = None, strength: float = 0.05
) -> tuple[list[str], float]:
    """The kinds that were run on one sample of a network that errs beyond a linf size of .1, in their order, and the
    size found."""
    net = nn.Linear(1, 4).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0], [1.0], [0.5], [0.2]]))
        net.bias.copy_(torch.tensor([0.0, -0.2, -0.2, -0.2]))
    BEGUN.clear()
    usual = {"descent": Descent.rules, "minimum": Minimum.rules}[search]
    attack = with_plan(attack_named("linf"), search, *runs, rules=usual if rules is None else rules)
    data = (torch.tensor([[0.1]], dtype=torch.float64), torch.tensor([0]))
    result = ra.evaluate(net, data, attack, search=search, strengths={"linf": [strength]}, progress=False)
    return list(BEGUN), float(result.minimal_size("linf")[0])


def bound(kind: str, *sizes: float) -> AttackRun:
    targets = "logits" if len(sizes) > 1 else None
    return AttackRun(Ending(sizes, kind), "margin", targets=targets, role="bound", count=len(sizes))


def restarts(count: int, *sizes: float) -> AttackRun:
    return AttackRun(Ending(sizes, "hop"), "margin", start="best", kick=1.0, role="restart", count=count)


FROM_ABOVE = pytest.mark.parametrize("search", ["descent", "minimum"])


def in_vain(search: Search, patience: int, stubborn: int) -> list[Rule]:
    rule = StopFruitless(patience, stubborn, threshold=0.003)
    return [
        rule if isinstance(old, StopFruitless) else old
        for old in {"descent": Descent.rules, "minimum": Minimum.rules}[search]
    ]


@FROM_ABOVE
def test_restarts_end_after_some_in_a_row_that_find_nothing_and_bounds_do_not_count(search: Search) -> None:
    kinds = (bound("a", 0.4), bound("b", 0.5), bound("c", 0.4), restarts(20, 0.5))
    for patience in (1, 2, 4):
        begun, found = run_of(*kinds, search=search, rules=in_vain(search, patience, 6))
        assert begun == ["a", "b", "c", *["hop"] * patience] and found == pytest.approx(0.4)


@FROM_ABOVE
def test_restarts_take_their_patience_from_the_first_example_that_a_bound_finds(search: Search) -> None:
    kinds = (bound("a", 0.01), bound("b", 0.01), bound("c", 0.3), restarts(9, 0.5))
    begun, found = run_of(*kinds, search=search, rules=in_vain(search, 3, 6))
    assert begun == ["a", "b", "c", "hop", "hop", "hop"] and found == pytest.approx(0.3)


def test_a_sample_for_which_a_restart_found_something_is_stubborn() -> None:
    rules = in_vain("minimum", 2, 5)
    kinds = (bound("a", 0.4), restarts(20, 0.3, 0.5))
    assert run_of(*kinds, search="minimum", rules=rules)[0] == ["a"] + ["hop"] * (1 + 5)
    assert run_of(bound("a", 0.4), bound("b", 0.3), restarts(20, 0.5), search="minimum", rules=rules)[0] == [
        "a", "b", "hop", "hop",
    ]  # fmt: skip


@FROM_ABOVE
def test_only_a_sample_without_any_example_is_tried_towards_further_classes(search: Search) -> None:
    ascent, further = (
        AttackRun(Counted(2, name=role), "margin", start="best", role=role, count=2) for role in ("ascend", "unbroken")
    )

    def begun(*sizes: float) -> list[str]:
        return run_of(bound("a", *sizes), ascent, further, search=search, rules=in_vain(search, 2, 2))[0]

    assert begun(0.01) == ["a", "ascend", "ascend", "unbroken", "unbroken"]
    assert begun(0.1001)[-1] == "ascend"


def test_smaller_is_a_share_of_the_size_or_for_a_descent_a_strength() -> None:
    kinds = (bound("a", 0.4), restarts(20, 0.3, 0.2995, 0.5))
    minimum = run_of(*kinds, search="minimum", rules=in_vain("minimum", 2, 2))
    assert minimum == (["a", "hop", "hop", "hop"], pytest.approx(0.2995)), "the second gains less than .3 %"
    descent = run_of(*kinds, rules=in_vain("descent", 2, 2))
    assert descent == (["a", "hop", "hop"], pytest.approx(0.2995)), "no strength lies between"


def test_what_is_within_the_smallest_strength_is_settled_by_a_descent() -> None:
    kinds = (bound("a", 0.15), bound("b", 0.12), restarts(9, 0.11))
    strengths = {"descent": ["a", "b"], "minimum": ["a", "b", "hop"]}
    for search, begun in strengths.items():
        made = run_of(*kinds, search=search, rules=in_vain(search, 1, 1), strength=0.2)[0]  # type: ignore[arg-type]
        assert made[: len(begun)] == begun


@FROM_ABOVE
def test_no_run_begins_that_could_go_beyond_the_passes_that_there_may_be(search: Search) -> None:
    """One pass looks at the clean image; each run takes two evaluations and is verified: five passes."""
    kinds = (bound("a", 0.4), restarts(20, 0.39, 0.38, 0.37, 0.36))
    last = AttackRun(Ending((0.4,), "last"), "margin", start="best", role="refine")
    assert run_of(*kinds, search=search, rules=[MostPasses(16)])[0] == ["a", "hop", "hop"]
    assert run_of(*kinds, search=search, rules=[MostPasses(15)])[0] == ["a", "hop"]
    assert run_of(*kinds, last, search=search, rules=[MostPasses(16)])[0] == ["a", "hop", "last"]


def test_settled_is_what_ascents_of_all_kinds_failed_on() -> None:
    ascents = [AttackRun(Counted(4, name=kind), objective, start="neutral", count=2)
               for kind, objective in (("margin", "margin"), ("other", "cross-entropy"))]  # fmt: skip
    BEGUN.clear()
    attack = with_plan(attack_named("linf"), "descent", bound("a", 0.4), *ascents, rules=Descent.rules)
    net, x = nn.Linear(2, 2).double(), torch.full((1, 2), 0.5, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        net.bias.copy_(torch.tensor([1.0 + 2 * 0.14, 0.0]))
    ra.evaluate(net, (x, torch.tensor([0])), attack, strengths={"linf": [0.1]}, progress=False)
    assert BEGUN == ["a", "margin", "margin", "other", "other"]


@dataclass(frozen=True)
class Counted(PGD):
    """PGD that says when it begins."""

    name: str = "ascend"

    def init(self, problem: Problem, theta: Tensor) -> State:
        BEGUN.append(self.name)
        return super().init(problem, theta)


def test_what_has_no_gradient_always_goes_on() -> None:
    trace = replace(Trace.begin(torch.zeros(1)), lowest=torch.tensor([5.0]), fall=torch.zeros(1))
    at, known = torch.tensor([10]), torch.tensor([1.0])
    lagging, slow = StopLaggingRuns(0.0, 1.0), StopSlowAscents()
    for optimizer, ending in ((FMN(20), [lagging]), (PGD(20), [slow]), (Square(20), []), (Scan(20), [])):
        assert [rule for rule in (lagging, slow) if rule.can_end(optimizer)] == ending
        assert all(rule.ends(trace, at, optimizer, known).item() for rule in ending)


def test_a_rule_ends_runs_of_its_purpose_alone() -> None:
    """Whatever its `ends` says: a rule that is about ascents leaves the bounds of the same plan alone."""

    @dataclass(frozen=True)
    class OneStep(EarlyStop):
        """Ends each ascent at its second evaluation."""

        reason: ClassVar[str] = "a test"
        roles: ClassVar[Set[Role]] = frozenset({"ascend"})

        def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer, known: Tensor) -> Tensor:
            return step >= 1

        def earliest_end(self, optimizer: Optimizer) -> int:
            return 2

    with pytest.raises(UserError, match="the rule OneStep, which no search obeys"):
        replace(attack_named("linf"), rules=(OneStep(),))

    class Obeying(Descent):
        """A descent that obeys it."""

        reads = (*Descent.reads, OneStep)

    SEARCHES["obeying"] = Obeying
    try:
        net, x, labels = two_planes()
        runs = AttackRun(FMN(20), "margin", "bound"), AttackRun(PGD(20), "margin", start="neutral")
        attack = replace(
            attack_named("linf"), runs=runs, search_order=("obeying",), usual_rules=False, rules=(OneStep(),)
        )
        result = ra.evaluate(net, (x[:1], labels[:1]), attack, progress=False)
    finally:
        del SEARCHES["obeying"]
    # 21 evaluations of the bound, and two of the ascent below its example, which fails.
    assert result.passes("linf")[1] == 21 + 2


def test_every_rule_says_why_it_is_there() -> None:
    kinds = [*Rule.__subclasses__(), *(each for kind in Rule.__subclasses__() for each in kind.__subclasses__())]
    told = [kind for kind in kinds if not kind.__subclasses__()]
    assert len(told) >= 6
    assert all(kind.reason and kind.source and kind.roles for kind in told)
    assert len({kind.reason for kind in told}) == len(told)


def two_planes() -> tuple[nn.Module, Tensor, Tensor]:
    """A linear network of three classes: one boundary is three times as far as the other."""
    net = nn.Linear(8, 3).double()
    with torch.no_grad():
        net.weight.zero_()
        net.weight[1, :4], net.weight[2, 4:] = 1.0, 1.0
        net.bias.copy_(torch.tensor([0.0, -2.4, -3.2]))
    return net, torch.full((3, 8), 0.5, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)


def of_runs(*runs: AttackRun) -> Attack:
    return with_plan(attack_named("linf"), "descent", *runs, rules=Descent.rules)


def test_runs_towards_a_far_class_are_cut_short_and_the_near_one_is_found() -> None:
    net, x, labels = two_planes()
    attack = of_runs(AttackRun(FMN(30), "margin", targets="logits", role="bound", count=2))
    result = ra.evaluate(net, (x, labels), attack, progress=False)
    np.testing.assert_allclose(result.minimal_size("linf"), 0.1, rtol=0.01)
    whole = 2 * 31
    forward, backward = result.passes("linf")
    assert backward < 0.8 * whole and backward > 31, "the second run ends early, the first does not"
    alone = ra.evaluate(net, (x[:1], labels[:1]), attack, progress=False)
    assert sum(alone.passes("linf")) == forward + backward


def test_an_ascent_whose_margin_falls_too_slowly_is_cut_short() -> None:
    net, x, labels = two_planes()
    short = AttackRun(PGD(20, rate=1e-3), "margin")
    result = ra.evaluate(net, (x, labels), of_runs(short), strengths={"linf": [0.15]}, progress=False)
    assert np.isinf(result.minimal_size("linf")).all()
    assert result.passes("linf")[1] == 6, "ended after a quarter: three more parts of the same would not arrive"
    direct = of_runs(AttackRun(PGD(20, rate=0.1), "margin"))
    found = ra.evaluate(net, (x, labels), direct, strengths={"linf": [0.15]}, progress=False)
    assert (found.minimal_size("linf") <= 0.15 * (1 + 1e-5)).all()


def test_early_stopping_saves_passes_and_keeps_the_sizes() -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(6)
    attack = attack_named("l2")
    found = ra.evaluate(model, data, attack, progress=False)
    kept = tuple(rule for rule in attack.plan("descent").rules if isinstance(rule, StopFruitless))
    patient = replace(attack, rules=kept, usual_rules=False)
    whole = ra.evaluate(model, data, patient, progress=False)
    assert sum(found.passes("l2")) < 0.85 * sum(whole.passes("l2"))
    np.testing.assert_allclose(found.minimal_size("l2"), whole.minimal_size("l2"), rtol=0.02)


def test_the_guide_and_the_module_show_the_table_of_phases() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "searches.md").read_text(encoding="utf-8")
    assert f"```text\n{state_diagram()}\n```" in guide
    assert textwrap.indent(state_diagram(), "    ") in str(phases.__doc__)


def test_a_sample_passes_through_the_phases_of_the_table() -> None:
    """Whatever runs find: each phase that follows another one stands in the table, or is passed through on the way."""
    steps: dict[Phase, set[Phase]] = {phase: {phase} for phase in Phase}
    for each in TRANSITIONS:
        steps[each.source].add(each.target)
    reached = {source: set(targets) for source, targets in steps.items()}
    for _ in Phase:
        for targets in reached.values():
            targets |= {far for near in set(targets) for far in steps[near]}
    generator = torch.Generator().manual_seed(0)
    plan = attack_named("stadv").plan("descent")
    schedule = Descent(plan, torch.tensor([0.1, 0.2, 0.3]), 5, torch.tensor([True] * 40 + [False]))
    best, seen = torch.full((41,), torch.inf), set()
    while not schedule.done.all():
        rows = (~schedule.done).nonzero().squeeze(1)
        before = schedule.phase[rows]
        found = torch.rand(len(rows), generator=generator) < 0.1
        best[rows] = torch.where(
            found, torch.minimum(best[rows], torch.rand(len(rows), generator=generator)), best[rows]
        )
        fooled = best[rows] <= schedule.epsilon(rows, best[rows])
        schedule.advance(rows, fooled, best[rows], best[rows])
        seen |= set(zip(before.tolist(), schedule.phase[rows].tolist(), strict=True))
    places = list(Phase)
    assert all(places[after] in reached[places[source]] for source, after in seen)
    assert {Phase.BOUNDING, Phase.RESTARTING, Phase.ASCENDING} <= {places[source] for source, _ in seen}
    assert schedule.phase[-1] == Phase.SETTLED.place, "a sample that is not attacked is settled"
