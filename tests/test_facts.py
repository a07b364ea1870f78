"""What is said of results: the reference that fits, what is left out, and why."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import run_files
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.evaluation import evaluate
from robustatlas.metrics.intervals import proportion_interval
from robustatlas.metrics.references import Reference, available_references, load_reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts import choose_reference, facts_of, fitting_reference, hold_against, shared_of_runs
from robustatlas.report.facts.field import BENCHMARKED, field_places
from robustatlas.report.facts.rows import run_row
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.numbers.of_several import numbers_of_several, numbers_on_shared
from robustatlas.report.numbers.shared import distinct_names
from robustatlas.report.numbers.units import unit_of
from robustatlas.results.result import Result, Results, load_result
from robustatlas.threats.corruption import CORRUPTIONS

PUBLISHED = load_reference("multirobustbench-cifar10")


def made_up(attacks: tuple[str, ...], **more: Any) -> Result:
    """A run on the reference's strengths; corruptions judge each strength by itself."""
    strengths = {attack: PUBLISHED.accuracies.strengths(attack) for attack in attacks}
    sizes = {attack: np.linspace(0.1, 1.5, 20) * grid[-1] for attack, grid in strengths.items()}
    return Result.from_arrays([0] * 20, [0] * 20, sizes, strengths, **{"data": "cifar10"} | more)


def test_every_corruption_of_the_catalogue_is_one_of_the_reference() -> None:
    ours = {f"corruption-{name.replace('_', '-')}" for name in CORRUPTIONS}
    theirs = {attack for attack in PUBLISHED.accuracies.attacks if attack.startswith("corruption-")}
    assert ours == theirs and len(ours) == 19
    assert {PUBLISHED.source_names[attack] for attack in theirs} == {name.replace("-", "_") for name in CORRUPTIONS}
    held = hold_against(made_up(tuple(sorted(ours))), PUBLISHED)
    assert ours - held.shared.keys() == {"corruption-frost", "corruption-snow", "corruption-spatter"}
    assert all(len(grid) == 5 for grid in held.shared.values())


def test_maps_that_differ_from_the_source_s_are_left_out_with_a_sentence() -> None:
    result = made_up(("linf", "corruption-frost", "corruption-fog"))
    held = hold_against(result, PUBLISHED)
    assert list(held.unlike) == ["corruption-frost"]
    assert any("corruption-frost" in note for note in held.notes())
    facts = facts_of(result, reference=PUBLISHED)
    against = {attack.attack: set(attack.against) for attack in facts.attacks}
    assert against == {"linf": {"CR", "UAR"}, "corruption-frost": set(), "corruption-fog": {"CR", "UAR"}}
    row = run_row(result, PUBLISHED)
    assert row.accuracies.attacks == ("linf", "corruption-fog")
    assert "corruption-frost" in " ".join(row.notes)


@pytest.mark.parametrize(
    ("kind", "silent"),
    [("Elastic", False), ("HistoricalElastic", True), ("", False)],
    ids=["ours", "published", "unknown"],
)
def test_our_sets_are_not_silently_compared_with_published_numbers_of_others(
    kind: str, silent: bool, tmp_path: Path
) -> None:
    path = run_files.write(tmp_path / "run", made_up(("linf", "elastic")), {"elastic": {"kind": kind}} if kind else {})
    result = load_result(path)
    held = hold_against(result, PUBLISHED, result.records.values())
    assert held.own_threat == (() if silent else ("elastic",))
    said = "The reference's numbers of elastic are of the threat models as published" in " ".join(held.notes())
    assert said is not silent
    assert ("of the threat models as published" in " ".join(run_row(result, PUBLISHED).notes)) is not silent


def test_distances_of_the_models_own_features_are_nobody_elses(tmp_path: Path) -> None:
    """Even by the protocol of the paper; no headline rests on them, and the rank says about."""
    own = {"kind": "HistoricalPerceptual", "distance": {"features": {"network": {}, "layers": ["1"]}}}
    path = run_files.write(tmp_path / "run", made_up(("linf", "lpips")), {"lpips": own})
    result = load_result(path)
    held = hold_against(result, PUBLISHED, result.records.values())
    assert held.own_threat == ("lpips",) and held.approximate
    facts = facts_of(result, reference=PUBLISHED)
    assert facts.weakest is not None and facts.weakest.attack == "linf"
    assert [attack.own_threat for attack in facts.attacks] == [False, True]
    named = {**own, "distance": {"features": {"backbone": "alexnet_cifar"}}}
    path = run_files.write(tmp_path / "named", made_up(("linf", "lpips")), {"lpips": named})
    assert not hold_against(load_result(path), PUBLISHED, load_result(path).records.values()).own_threat


@pytest.mark.parametrize(
    ("sizes", "said", "option"),
    [
        (np.linspace(0.001, 0.009, 40), "below a tenth of the first strength", "--strengths linf=0.0099:20"),
        (np.linspace(0.001, 0.15, 40), "at 19 of 20 strengths the accuracy is below 1 %", "--strengths linf=0.17:20"),
        (np.where(np.arange(40) < 35, np.inf, 1.0), "at or above 87 % throughout", "--strengths linf=8:20"),
        (np.linspace(0.1, 2.0, 40), None, None),
    ],
)
def test_strengths_that_tell_little_are_said(sizes: np.ndarray, said: str | None, option: str | None) -> None:
    grid = {"linf": np.linspace(0.1, 2, 20)}
    advice = facts_of(Result.from_arrays(np.zeros(40), np.zeros(40), {"linf": sizes}, grid)).attacks[0].advice
    assert (advice and advice.option) == option
    assert advice is None or said in advice.why


def test_no_strengths_are_proposed_that_no_images_differ_by() -> None:
    data, net = (torch.rand(8, 4), torch.zeros(8, dtype=torch.int64)), torch.nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.copy_(torch.tensor([1.0, 0.0]))
    result = evaluate(net, data, "linf", strengths={"linf": [0.2, 0.4]}, progress=False, diagnose=False)
    advice = facts_of(result).attacks[0].advice
    assert advice is not None and advice.option == "--strengths linf=1:10"


@pytest.mark.parametrize("name", available_references())
def test_what_a_shipped_reference_says_of_its_sets_is_about_its_attacks(name: str) -> None:
    reference = load_reference(name)
    assert {*reference.historical, *reference.unlike} <= set(reference.accuracies.attacks)
    assert not {*reference.historical} & {*reference.unlike}


def test_the_reference_that_shares_most_is_the_default() -> None:
    uar = load_reference("uar-cifar10")
    calibrated = {"linf": uar.accuracies.strengths("linf")}
    one = Result.from_arrays([0], [0], {"linf": [0.01]}, calibrated, data="cifar10")
    found = fitting_reference([one])
    assert found is not None and found.name == "uar-cifar10"
    both = fitting_reference([one, made_up(("linf",))])
    assert both is not None and both.name == "multirobustbench-cifar10"
    assert choose_reference("none", [one]) is None
    assert choose_reference(None, [made_up(("linf",), data="digits")]) is None


def test_no_shared_point_is_said_in_a_sentence() -> None:
    foreign = Reference("mine", "made up", AccuracyTable(90, {"fog": {1: 50}}), ranked=("fog",))
    held = hold_against(made_up(("linf",)), foreign)
    assert held.points == 0 and held.ranked_points == 1
    with pytest.raises(UserError, match="no attack at the same strength"):
        held.require()
    assert facts_of(made_up(("linf",)), reference=foreign).reference is None


def test_units_stand_in_the_catalogue_alone() -> None:
    assert unit_of("linf", "as recorded") == "as recorded"
    assert "side" in unit_of("patch") and "covered" not in unit_of("patch")
    assert all(unit_of(attack) for attack in PUBLISHED.accuracies.attacks)
    assert unit_of("mine") == ""


def test_a_comparison_has_the_intervals_of_the_runs() -> None:
    """Where runs share all they have, the numbers beside each other are those of each alone, interval for interval."""
    runs = [made_up(("linf", "l2"), model=name) for name in ("a", "b")]
    shared = shared_of_runs(runs)
    found = numbers_of_several(shared, hold_against(shared.table(0), PUBLISHED)).models[0].numbers
    alone = facts_of(runs[0], reference=PUBLISHED)
    assert alone.reference is not None
    assert found["clean accuracy"] == alone.clean
    assert found["average accuracy"] == alone.average
    assert found["union accuracy"] == alone.worst
    assert {name: found[name] for name in alone.reference.numbers} == alone.reference.numbers
    assert found["average linf"] == alone.attacks[0].average


def test_compared_runs_that_are_read_again_say_the_same(tmp_path: Path) -> None:
    paths = [run_files.write(tmp_path / name, made_up(("linf", "l2"))) for name in "abcd"]
    once, kept = shared_of_runs(Results(paths)), shared_of_runs(Results(paths, kept=4))
    for run in range(len(paths)):
        ours, theirs = (numbers_on_shared(each, run, None, {}, {}).numbers for each in (once, kept))
        assert ours == theirs
    assert kept.results[0] is kept.results[0] and once.names == kept.names


def test_a_rejected_clean_input_is_no_error_in_a_comparison() -> None:
    result = made_up(("linf",))
    rejects = replace(result, clean_prediction=result.labels + 1, clean_rejected=np.ones(20, np.bool_))
    assert shared_of_runs([rejects, result]).table(0).clean_accuracy == 100.0


def test_equal_names_are_told_apart_in_one_way(tmp_path: Path) -> None:
    runs = [load_result(run_files.write(tmp_path / name, made_up(("linf",)))) for name in ("a", "b")]
    assert distinct_names(runs) == ["arrays (a)", "arrays (b)"]


def test_a_run_beside_the_field() -> None:
    """The union of the attacks on the field's sets at its very strength, as far as a grid without it says it."""
    sizes = {"linf": np.linspace(0, 0.1, 200), "l2": np.linspace(0, 2, 200)}
    grid = {"linf": [0.02, 0.05], "l2": [0.25, 0.4]}
    run = Result.from_arrays(np.zeros(200), np.zeros(200), sizes, grid, data="cifar10")
    (beside,) = field_places(run)  # l2 ends below 0.5
    alive, certain = (int((sizes["linf"] > size).sum()) for size in (8 / 255, 0.05))
    assert beside.field.name == "robustbench-cifar10-linf" and beside.attacks == ("linf",)
    assert beside.accuracy.value == pytest.approx(100 * certain / 200) and not beside.searched
    assert beside.accuracy.high == proportion_interval(alive, 200, 0.95).high > 100 * alive / 200
    searched = Result.from_arrays(np.zeros(200), np.zeros(200), sizes, grid | {"linf": [8 / 255]}, data="cifar10")
    assert field_places(searched)[0].accuracy == proportion_interval(alive, 200, 0.95)
    entries = beside.field.entries
    assert beside.rank == 1 + sum(entry.accuracy > beside.accuracy.value for entry in entries)
    assert beside.best <= beside.rank <= beside.worst <= beside.places_count == 100
    assert "on 200 images" in beside.sentence and "99 entries" in beside.sentence
    assert [one.words.partition(":")[0] for one in beside.elsewhere] == ["L∞ 4/255"]
    names = [entry.name for entry in beside.neighbours]
    assert names[0] == entries[0].name and len(names) <= 5
    assert run_as_json(facts_of(run))["field"]["robustbench-cifar10-linf"]["place"]["of"] == 100
    assert field_places(Result.from_arrays([0], [0], {"linf": [1.0]}, {"linf": [1.0]}, data="digits")) == ()


def test_attacks_on_the_same_sets_count_together(tmp_path: Path) -> None:
    sizes = {"linf": [0.05, 0.01, 0.05, 0.05], "square-linf": [0.01, 0.05, 0.05, 0.05], "jpeg-linf": [0.001] * 4}
    run = Result.from_arrays([0] * 4, [0] * 4, sizes, {name: [0.04] for name in sizes}, data="cifar10")
    kinds = {"linf": {"kind": "Linf"}, "square-linf": {"kind": "Linf"}, "jpeg-linf": {"kind": "Jpeg"}}
    (beside,) = field_places(load_result(run_files.write(tmp_path / "run", run, kinds)))
    assert beside.attacks == ("linf", "square-linf") and beside.accuracy.value == 50.0
    assert "under L∞ and square-linf at once" in beside.sentence


def test_a_run_of_all_corruptions_beside_the_field() -> None:
    attacks = [f"corruption-{name}" for name in BENCHMARKED]
    grid = {name: [1.0, 2.0, 3.0, 4.0, 5.0] for name in attacks}
    sizes = dict.fromkeys(attacks, np.where(np.arange(50) < 20, 3.0, np.inf))
    (beside,) = field_places(Result.from_arrays(np.zeros(50), np.zeros(50), sizes, grid, data="cifar10"))
    assert beside.accuracy.value == pytest.approx((2 * 100 + 3 * 60) / 5)
    assert "common corruptions" in beside.sentence


def test_a_grid_below_what_breaks_names_the_command_that_extends_the_run_to_half(tmp_path: Path) -> None:
    """The command is run, and half of the images fall within its strengths."""
    command = "evaluate builtin:digits-linf --data digits --attacks linf --samples 24 --no-diagnose --audit 0"
    run = tmp_path / "run"
    entered(*command.split(), "--strengths", "linf=0.02:4", "--run", run)
    first = load_result(run)
    assert first.outcome("linf").accuracies().min() > 80
    shown = entered("show", run).out
    joined = re.sub(r"\s*\\\s*\n\s*", " ", shown)
    again = " ".join(joined.partition("better:\n    robustatlas ")[2].partition("\n")[0].split())
    assert facts_of(first).extended == f"robustatlas {again}"
    entered(*shlex.split(again))
    extended = load_result(run)
    assert set(first.strengths("linf")) < set(extended.strengths("linf"))
    assert extended.outcome("linf").accuracies().min() <= 50
    assert facts_of(extended).attacks[0].advice is None
