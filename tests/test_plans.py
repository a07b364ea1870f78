"""Runs are data: what a search runs is what the attack names, what its key says, and what ``attacks NAME`` prints."""

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import brief, digits_images, digits_network, plans_of, with_plan
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, AttackRun, Plan, Search
from robustatlas.attacks.description import to_plain_data
from robustatlas.attacks.effort import scale_effort
from robustatlas.attacks.search import SEARCHES, search_named
from robustatlas.attacks.search.descent import Descent
from robustatlas.attacks.search.rules import Rule
from robustatlas.attacks.suites import WAYS_BACK, resolve_attacks
from robustatlas.attacks.table import plan_rows
from robustatlas.common.noise import Noise
from robustatlas.engine.numerics import NUMERICS, Numerics
from robustatlas.evaluation.chunks import Chunk, ChunkSettings
from robustatlas.evaluation.preparation import prepare_attacks
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.records import attack_record
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.samples import choose_samples
from robustatlas.models.defenses import BitDepthReduction
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State
from robustatlas.optimizers.crafting import Opponent, craft
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.sweeping import SweepingOptimizer
from robustatlas.outcomes.tables import read_abouts, read_parquet, write_parquet
from robustatlas.threats.lp import Linf

# What was wrong, as a user saw it.


@pytest.mark.parametrize(("norm", "strengths"), [("linf", [0.2, 0.3]), ("l2", [1.5, 2.0])])
def test_no_search_of_the_suite_for_transformations_sees_a_flat_gradient(norm: str, strengths: list[float]) -> None:
    net = ra.load_model("builtin:digits-linf").net
    model = ra.Classifier(nn.Sequential(BitDepthReduction(3, backward="true"), net).eval())
    data, found = ra.load_dataset("digits").take(8), {}
    (attack,) = (each for each in resolve_attacks("input-transformation") if each.name == norm)
    for search in ("descent", "frontier"):
        result = ra.evaluate(model, data, attack, search=search, strengths={norm: strengths}, progress=False)
        found[search] = result.accuracies().values(norm)
    assert (np.abs(found["frontier"] - found["descent"]) <= 100 / 8).all(), found


def test_every_run_of_the_suite_for_transformations_has_a_way_back() -> None:
    for attack in resolve_attacks("input-transformation"):
        for search, plan in plans_of(attack).items():
            ascending = [run for run in plan.runs if run.optimizer.needs_gradient]
            assert ascending and all(run.backward not in (None, "true") for run in ascending), (attack.name, search)


def test_a_changed_run_changes_nothing_else() -> None:
    """Four runs of the ascents instead of one: all else stays."""
    usual = attack_named("elastic")
    more = usual.with_runs(lambda run: replace(run, count=4) if run.role == "ascend" else run)
    for search, plan in plans_of(usual).items():
        changed = more.plan(search)
        assert [run.settings for run in changed.runs] == [run.settings for run in plan.runs]
        assert [run.role for run in changed.runs] == [run.role for run in plan.runs]
        assert changed.rules == plan.rules
    assert more.plan("descent") != usual.plan("descent") and more.plan("descent").runs_in("restart")
    name = replace(usual, name="other", strengths=(0.5,))
    assert name.runs == usual.runs and replace(usual, runs=name.runs) == usual


def test_a_search_takes_the_runs_that_name_it_or_else_those_that_name_none() -> None:
    shared, own = AttackRun(PGD(3), "margin"), AttackRun(PGD(5), "margin", searches=("every",))
    attack = Attack("mine", Linf(), (own, shared), (0.1,))
    steps = {search: [run.optimizer.steps for run in attack.plan(search).runs] for search in attack.searches}
    assert steps == {"descent": [3], "bisection": [3], "every": [5], "minimum": [3]}


def test_runs_for_the_smallest_size_come_first_from_above_and_are_ascents_on_a_grid() -> None:
    attack = Attack("mine", Linf(), (AttackRun(PGD(3), "margin"), AttackRun(FMN(4), "margin")), (0.1,))
    assert [(run.role, run.optimizer.steps) for run in attack.plan("descent").runs] == [("bound", 4), ("ascend", 3)]
    assert [(run.role, run.optimizer.steps) for run in attack.plan("every").runs] == [("ascend", 3), ("ascend", 4)]
    alone = Attack("mine", Linf(), (AttackRun(FMN(4), "margin", "bound"),), (0.1,))
    assert [run.role for run in alone.plan("bisection").runs] == ["ascend"]


@dataclass(frozen=True)
class Marching(Optimizer[State]):
    """An optimizer of one's own, whose length has another name; ascends by its gradient's sign."""

    counted_by: ClassVar[str] = "marches"

    marches: int = 4

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.marches

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        theta = state.theta + 0.1 * problem.threat.steepest(problem.x, evaluation.gradient)
        return State(problem.threat.project(problem.x, theta, problem.epsilon), state.step + 1)


def test_an_optimizer_says_itself_how_effort_scales_it() -> None:
    attack = Attack("mine", Linf(), (AttackRun(Marching(), "margin"),), (0.1,))
    steps = {effort: [run.optimizer.steps for run in scale_effort(attack, effort).plan("every").runs] for effort in
             ("low", "default", "high")}  # fmt: skip
    assert steps == {"low": [2], "default": [4], "high": [4, 8]}


class Costly(Linf):
    """Measuring a size is what must not happen."""

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        raise AssertionError("nobody looks at the size")


def test_training_measures_sizes_only_for_optimizers_that_look_at_them() -> None:
    net, (x, y) = digits_network(), digits_images(3)
    value = partial(nn.functional.cross_entropy, target=y, reduction="none")
    arguments = (x, y, torch.full((3,), 0.1), Noise.for_samples(0, torch.arange(3), "test"), value)
    found = craft(net, Opponent("mine", Costly(), 0.1, Marching()), *arguments)
    assert (found.x - x).abs().max() <= 0.1 + 1e-6
    with pytest.raises(AssertionError, match="nobody"):
        craft(net, Opponent("mine", Costly(), 0.1, FMN(2)), *arguments)


# What there is not.


def test_an_attack_has_the_searches_that_it_names() -> None:
    run = AttackRun(PGD(3), "margin")
    attack = Attack("mine", Linf(), (run,), (0.1,), search_order=("descent", "every"))
    with pytest.raises(ra.UserError, match="'minimum' is not valid for 'mine': it has no runs for it; expected"):
        ra.evaluate(digits_network(), digits_images(2), attack, search="minimum", progress=False)
    with pytest.raises(ra.UserError, match="'mine' has no runs; expected at least one"):
        replace(attack, runs=())
    with pytest.raises(ra.UserError, match="'mine' cannot be searched by 'descent': its threat model is not nested"):
        replace(attack, nested=False)
    with pytest.raises(ra.UserError, match=r"runs of 'mine' is \(0\.1,\); expected a tuple of robustatlas\.AttackRun"):
        Attack("mine", Linf(), (0.1,), (0.1,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"role": "wander"}, "role='wander'; expected one of 'bound', 'restart'"),
        ({"count": 0}, "count=0; expected a whole number from 1"),
        ({"targets": "random", "count": 2}, "1 towards a random class"),
        ({"role": "bound"}, "PGD cannot bound"),
        ({"role": "restart", "optimizer": FMN()}, r"role='restart' with kick=0\.0"),
    ],
)
def test_a_run_checks_itself(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        AttackRun(**{"optimizer": PGD(), "objective": "margin"} | wrong)


def test_a_search_refuses_runs_that_it_cannot_carry_out() -> None:
    linf = attack_named("linf")
    runs = linf.plan("descent").runs
    with pytest.raises(ra.UserError, match="Every takes runs with the roles 'ascend', and got 'bound'"):
        with_plan(linf, "every", *runs)
    with pytest.raises(ra.UserError, match="got 'refine', 'ascend'"):
        with_plan(linf, "descent", *runs[:-3:-1])
    with pytest.raises(ra.UserError, match="Descent does not obey Approach"):
        Descent.check(linf.plan("minimum"))


# The key is the hash of what runs.


def keys(attack: Attack) -> dict[Search, str]:
    return {search: attack_record(attack, search, 0, "float32").fingerprint for search in attack.searches}


def changes(value: Any) -> Iterator[Any]:
    """``value`` with each number of it changed in turn, wherever it stands."""
    if is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            if isinstance(value, SweepingOptimizer) and each.name == "strengths":  # those of the attack
                continue
            for other in changes(getattr(value, each.name)):
                try:
                    yield replace(value, **{each.name: other})  # type: ignore[type-var]
                except ra.UserError:  # what cannot be
                    continue
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            for other in changes(item):
                yield (*value[:place], other, *value[place + 1 :])
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value * 1.5 + 0.125


def exactly(attack: Attack, search: Search, plan: Plan) -> Attack:
    """The attack with all of its plans as they are, but one."""
    plans = plans_of(attack) | {search: plan}
    runs = [replace(run, searches=(each,)) for each, plan in plans.items() for run in plan.runs]
    return replace(attack, runs=tuple(runs))


@pytest.mark.parametrize("name", ["linf", "l1", "l0", "elastic", "hue", "fmn-l2", "patch"])
def test_every_number_of_a_run_is_in_the_key_of_its_search_and_in_no_other(name: str) -> None:
    attack = attack_named(name)
    known = keys(attack)
    assert keys(exactly(attack, *next(iter(plans_of(attack).items())))) == known
    for search, plan in plans_of(attack).items():
        seen = {known[search]}
        for other in (replace(plan, runs=runs) for runs in changes(plan.runs)):
            try:
                changed = keys(exactly(attack, search, other))
            except ra.UserError:  # an optimizer that cannot search the set
                continue
            key = changed.pop(search)
            assert key not in seen, (search, to_plain_data(other))
            assert changed == {each: key for each, key in known.items() if each != search}
            seen.add(key)
        assert len(seen) > len(plan.runs)


def test_the_threat_the_gradient_and_what_all_searches_read_are_in_all_keys() -> None:
    attack = attack_named("l2")
    known = keys(attack)
    changed = [replace(attack, threat=replace(attack.threat, starts="volume")), replace(attack, repairs=True),
               replace(attack, strengths=(0.1,)), replace(attack, name="other")]  # fmt: skip
    for other in changed:
        assert not set(keys(other).values()) & set(known.values())
    bounded = keys(replace(attack, unbounded=False))
    assert {search for search in known if bounded[search] == known[search]} == {"bisection", "every"}
    about = replace(attack, about=ra.AttackInfo("pixels", "somebody", "a note"))
    assert keys(about) == known, "what is only told changes no key"


def bumped(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "version", getattr(kind, "version", 1) + 1, raising=False)


def test_a_new_version_of_a_part_changes_the_keys_of_the_plans_that_it_is_part_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attack = attack_named("linf")
    known = keys(attack)
    plan_of = {search: to_plain_data(plan) for search, plan in plans_of(attack).items()}
    kinds = {type(run.optimizer) for plan in plans_of(attack).values() for run in plan.runs}
    kinds |= {type(rule) for plan in plans_of(attack).values() for rule in plan.rules}
    for kind in [*kinds, *SEARCHES.values(), type(attack.threat), Numerics]:
        with monkeypatch.context() as patch:
            bumped(kind, patch)
            now = keys(attack)
        for search in attack.searches:
            part = repr(kind.__name__) in str(plan_of[search]) or search_named(search) is kind
            part |= kind in (type(attack.threat), Numerics)
            assert (now[search] != known[search]) == part, (kind.__name__, search)
    with monkeypatch.context() as patch:
        patch.setattr("robustatlas.models.objectives._VERSIONS", {"dlr": 2})
        now = keys(attack)
    assert {search for search in known if now[search] == known[search]} == {"frontier"}, "which has no dlr"


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


@pytest.mark.parametrize("name", ["linf", "stadv", "snow", "affine", "jpeg-linf"])
def test_what_determines_numbers_is_recorded_by_codes_and_not_by_phrases(name: str) -> None:
    attack = attack_named(name)
    for search in attack.searches:
        record = attack_record(attack, search, 0, "float32")
        assert not [text for text in texts_in([record.protocol, record.threat]) if " " in text]


class Watched(dict[str, set[str]]):
    """What was read of objects of some classes, by their names."""

    def watch(self, kind: type, patch: pytest.MonkeyPatch) -> None:
        def read(this: Any, name: str) -> Any:
            self.setdefault(type(this).__name__, set()).add(name)
            return object.__getattribute__(this, name)

        patch.setattr(kind, "__getattribute__", read, raising=False)


@pytest.mark.parametrize("search", get_args(Search))
def test_a_search_reads_nothing_that_its_key_does_not_hold(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are watched at work: of runs, rules, optimizers and the engine's constants whatever is read
    stands in the record, and of the attack nothing but its own plan."""
    attack, read = brief(attack_named("l1")), Watched()
    net, (x, y) = digits_network(), digits_images(3)
    (task,) = prepared_task(net, (x, y), attack, search)
    with monkeypatch.context() as patch:
        for kind in (Attack, Plan, AttackRun, Rule, Optimizer, Numerics):
            read.watch(kind, patch)
        run_task(net, task, x, y)
    said = str(task.record.protocol)
    settings = {name: {f.name for f in fields(kind)} for name, kind in described_kinds(task.attack, search).items()}
    assert settings.keys() & read.keys() > {"Attack", "Plan", "AttackRun", "Numerics"}
    for name, known in settings.items():
        for setting in (read.get(name, set()) & known) - {"about", "searches"}:
            told = name == "Attack" or f"'{setting}':" in said
            assert told, f"{name}.{setting} is read by {search} and is not in its key"
    constants = [(rule, name) for rule in task.attack.plan(search).rules for name in read.get(type(rule).__name__, ())]
    for rule, name in constants:
        value = getattr(type(rule), name, None)
        assert name in settings[type(rule).__name__] or not isinstance(value, (int, float, tuple)), (
            f"{name} of {rule} is a constant that no key holds; make it a field"
        )
    assert read["Attack"] & {f.name for f in fields(Attack)} <= {
        "name", "threat", "strengths", "nested", "repairs", "unbounded", "errors", "typical", "eight_bit",
        *("runs", "rules", "usual_rules", "effort", "search_order"),  # all of which the plan holds
    }  # fmt: skip


def test_draws_and_pixels_are_in_the_key() -> None:
    attack = attack_named("l1")
    known, drawn, rounded = (
        keys(each) for each in (attack, replace(attack, typical=3), replace(attack, eight_bit=True))
    )
    assert all(len({known[search], drawn[search], rounded[search]}) == 3 for search in attack.searches)


def described_kinds(attack: Attack, search: Search) -> dict[str, type]:
    plan = attack.plan(search)
    parts = [attack, plan, NUMERICS, *plan.runs, *plan.rules]
    parts += [run.optimizer for run in plan.runs]
    return {type(part).__name__: type(part) for part in parts}


def prepared_task(net: nn.Module, data: tuple[Tensor, Tensor], attack: Attack, search: Search) -> list[Any]:
    model, work = ra.Classifier(net), choose_samples(data, None)
    return list(prepare_attacks(model, work, Request(attacks=attack, search=search), Progress()).tasks)


def run_task(net: nn.Module, task: Any, x: Tensor, y: Tensor) -> None:
    task.run(ra.Classifier(net), Chunk(0, 0, x, y, np.arange(len(x))), ChunkSettings(0, 2), lambda finished: None)


def test_evidence_of_another_plan_counts_and_is_computed_anew_where_it_is_asked_for(tmp_path: Path) -> None:
    attack, data, net = brief(attack_named("linf"), (0.05, 0.2)), digits_images(6), digits_network()
    first = ra.evaluate(net, data, attack, run=tmp_path, progress=False)
    (record,) = first.records.values()
    other = record.model_copy(update={"protocol": record.protocol | {"search_version": 2}})
    (tmp_path / "attacks" / f"{record.key}.json").unlink()
    (tmp_path / "attacks" / f"{other.key}.json").write_text(other.to_json())
    (tmp_path / "outcomes" / record.key).rename(tmp_path / "outcomes" / other.key)
    for plan in (tmp_path / "plans").glob("*.json"):
        plan.write_text(plan.read_text().replace(record.key, other.key))
    for part in (tmp_path / "outcomes" / other.key).glob("*.parquet"):
        about = {what: text.replace(record.key, other.key) for what, text in read_abouts([part])[part].items()}
        write_parquet(part, read_parquet(part), about)
    read = ra.load_result(tmp_path)
    np.testing.assert_array_equal(read.minimal_size("linf"), first.minimal_size("linf"))
    said = Said()
    again = ra.evaluate(net, data, attack, run=tmp_path, progress=said)
    assert len(again.records) == 2 > len(first.records), "both count"
    np.testing.assert_array_equal(again.minimal_size("linf"), first.minimal_size("linf"))
    assert any("'linf' was found by another plan; it counts, and is computed anew." in note for note in said.notes)
    quiet = Said()
    ra.evaluate(net, data, attack, run=tmp_path, progress=quiet)
    assert not any("another plan" in note for note in quiet.notes), "said once"


class Said(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


# What is printed.


@pytest.mark.parametrize("name", ["linf", "l0", "fog", "corruption-fog", "lpips"])
def test_the_table_of_a_plan_names_each_run_and_rule_of_each_effort(name: str) -> None:
    attack = attack_named(name)
    for search in attack.searches:
        rows = plan_rows(attack, search)
        for place, effort in enumerate(("low", "default", "high")):
            plan = scale_effort(attack, effort).plan(search)
            told = [row.cells[place] for row in rows if row.cells[place]]
            runs = [cell for cells in told for cell in cells.split(", ") if " x " in cell]
            expected = [f"{run.count} x {run.optimizer.steps}" for run in plan.runs]
            assert sorted(runs) == sorted(expected)
            assert told.count("yes") == len(plan.rules)


@pytest.mark.parametrize("search", get_args(Search))
@pytest.mark.parametrize("effort", ["low", "default", "high"])
def test_no_sample_on_which_all_comes_to_nothing_takes_more_passes_than_are_told(search: Search, effort: Any) -> None:
    """A model that never errs: its logits are those of the label, whatever is done."""
    net = nn.Linear(4, 3).double()
    with torch.no_grad():
        net.weight.mul_(1e-3)
        net.bias.copy_(torch.tensor([9.0, 0.0, 1.0]))
    data = (torch.rand(2, 4, dtype=torch.float64), torch.zeros(2, dtype=torch.int64))
    for name in ("linf", "l1", "cw-l2") if search != "frontier" else ("linf", "l1"):
        attack = brief(attack_named(name))
        result = ra.evaluate(net, data, attack, search=search, effort=effort, progress=False)
        (most,) = (row.cells[0] for row in plan_rows(attack, search, 3, (effort,)) if not row.role)
        assert np.isinf(result.minimal_size(name)).all()
        outcome = result.outcome(name)
        assert (outcome.forward + outcome.backward).max() <= int(most.replace(",", "")) + 1, "one clean pass"


def test_margins_behind_a_transformation_are_searched_by_every_way_back() -> None:
    plain = {attack.name: attack for attack in resolve_attacks("hypervolume")}
    for attack in resolve_attacks("hypervolume-input-transformation"):
        ways = {run.backward for run in attack.plan("frontier").runs if run.optimizer.needs_gradient}
        assert ways == set(WAYS_BACK)
        assert attack.strengths == plain[attack.name].strengths
        assert set(attack.searches) == set(plain[attack.name].searches)


def test_every_constant_of_every_attack_stands_in_the_committed_tables() -> None:
    """A change shows which attacks it touches: run `python scripts/attack_tables.py` and read the difference."""
    path = Path(__file__).parents[1] / "scripts" / "attack_tables.py"
    spec = importlib.util.spec_from_file_location("attack_tables", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = script.tables() == script.FILE.read_text(encoding="utf-8")
    assert found, "run python scripts/attack_tables.py, and read what the difference says was touched"
