"""A number exists only for what was searched: between searched strengths an interval, which holds whatever is found."""

import csv
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import RobustnessWarning
from robustatlas.metrics import AccuracyTable, average_accuracy
from robustatlas.metrics.references import Reference
from robustatlas.metrics.references.building import ReferenceModel, build_reference
from robustatlas.outcomes import Outcome, query
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.rows import Ground, run_row
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.gate import Requirement, check_requirements
from robustatlas.report.numbers.number import Status
from robustatlas.studies.numbers import number_of
from robustatlas.training.calibration import calibrate
from run_files import write

FINE = [round(0.05 * k, 2) for k in range(1, 13)]
"""The strengths of a search that looks everywhere."""

TRUE_SIZES = st.lists(st.sampled_from([0.0, *(size - 0.02 for size in FINE), np.inf]), min_size=1, max_size=12)
GRIDS = st.lists(st.sampled_from(FINE), min_size=1, max_size=4, unique=True).map(sorted)


def found_by_searching(true: Sequence[float], grid: Sequence[float], slack: Sequence[float]) -> NDArray[np.float64]:
    """Sizes that a search at the strengths of ``grid`` finds: it is right at each of them, and its example is some
    ``slack`` in [0, 1] of the way from the smallest one to the smallest strength that breaks the sample."""
    found = []
    for size, part in zip(true, slack, strict=True):
        above = next((strength for strength in grid if strength >= size), np.inf)
        found.append(size if size == 0 or above == np.inf else size + part * (above - size))
        if above == np.inf and size > 0:
            found[-1] = np.inf
    return np.array(found)


def searched(true: Sequence[float], grid: Sequence[float], slack: Sequence[float], name: str = "linf") -> ra.Result:
    sizes = found_by_searching(true, grid, slack)
    return ra.Result.from_arrays(np.zeros(len(true)), np.array(true) == 0, {name: sizes}, {name: grid})


def nothing_else(outcome: Outcome) -> Outcome:
    """The same sizes without a searched strength."""
    return replace(outcome, searched_at=np.zeros(len(outcome.strengths), np.bool_))


@given(TRUE_SIZES, GRIDS, st.data())
@settings(max_examples=200, deadline=None)
def test_the_interval_holds_what_a_denser_search_finds(true: list[float], grid: list[float], data: Any) -> None:
    slack = data.draw(st.lists(st.floats(0, 1), min_size=len(true), max_size=len(true)))
    outcome = searched(true, grid, slack).outcome("linf")
    dense = searched(true, FINE, [0.0] * len(true)).outcome("linf")
    for strength, accuracy in zip(FINE, dense.accuracies(), strict=True):
        known = outcome.accuracy_bounds(strength)
        assert known.low <= accuracy <= known.high and not (known.certain & ~known.possible).any()
        assert known.searched == (strength in grid) and (not known.searched or known.low == known.high)
        alone = nothing_else(outcome).accuracy_bounds(strength)
        assert alone.low == 0 and alone.high == known.high and not alone.searched
    assert (outcome.certain_sizes() <= np.array(true)).all()


@given(TRUE_SIZES, GRIDS, st.sampled_from(FINE), st.integers(0, 100), st.sampled_from([">=", "<="]), st.data())
@settings(max_examples=150, deadline=None)
def test_a_gate_that_passes_never_fails_where_more_is_searched(
    true: list[float], grid: list[float], strength: float, bound: int, sign: str, data: Any
) -> None:
    """Searching that strength may leave the sizes, or bring any that keep what the first search says."""
    slack = data.draw(st.lists(st.floats(0, 1), min_size=len(true), max_size=len(true)))
    first = searched(true, grid, slack)
    more = sorted({*grid, strength})
    same = ra.Result.from_arrays(
        first.labels, first.clean_prediction, {"linf": first.minimal_size("linf")}, {"linf": more}
    )
    smaller = searched(true, more, slack)
    known = [(one, facts_of(one)) for one in (first, same, smaller)]
    for text in (f"linf@{strength}{sign}{bound}", f"median-linf{sign}{strength}"):
        for judged in ("interval", "value"):
            asked = [Requirement.parse(text)]
            before, *after = (
                check_requirements(asked, one, facts, judged)[0].passed  # type: ignore[arg-type]
                for one, facts in known
            )
            assert not before or all(after)


def test_a_linear_model_lies_within_at_every_strength() -> None:
    """Of a linear model in one dimension the distance to its boundary is the smallest size under linf."""
    points = torch.linspace(0.05, 0.95, 60)[:, None]
    labels = (points[:, 0] > 0.5).long()
    net = torch.nn.Linear(1, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-8.0], [8.0]]))
        net.bias.copy_(torch.tensor([4.0, -4.0]))
    true = (points[:, 0] - 0.5).abs().numpy()
    for attack, search in (("linf", "descent"), ("pgd-linf", "every"), ("pgd-linf", "bisection")):
        result = ra.evaluate(
            net,
            (points, labels),
            attack,
            search=search,
            strengths={attack: [0.13, 0.31]},
            progress=False,  # type: ignore[arg-type]
        )
        for strength in np.linspace(0.011, 0.5, 40):
            accuracy, known = 100 * int((true > strength).sum()) / 60, result.accuracy_bounds({attack: strength})
            assert known.low <= accuracy <= known.high


def fence(name: str, grids: Mapping[str, Sequence[float]], **more: Any) -> ra.Result:
    """Of 100 samples the first 40 break at 0.15 under every attack, and 30 more at 0.5."""
    sizes = np.array([0.15] * 40 + [0.5] * 30 + [np.inf] * 30)
    wrong = np.zeros(100, int)
    return ra.Result.from_arrays(wrong, wrong, dict.fromkeys(grids, sizes), grids, model=name, **more)


def coarse(tmp_path: Path, strength: float = 1.0) -> Path:
    """A run at one strength, whose search left its examples just within it."""
    sizes = np.where(np.arange(100) < 70, 0.9 * strength, np.inf)
    wrong = np.zeros(100, int)
    return write(
        tmp_path / "coarse", ra.Result.from_arrays(wrong, wrong, {"pgd-linf": sizes}, {"pgd-linf": [strength]})
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pgd-linf@0.2>=75", 3),  # no example within 0.2 was found, as nobody looked
        ("pgd-linf@0.2>=20", 0),  # 30 withstand 1, so that many withstand 0.2
        ("pgd-linf@0.2<=75", 3),
        ("pgd-linf@0.95<=45", 0),  # the examples say so
        ("pgd-linf@2>=1", 3),
        ("pgd-linf@2<=45", 0),
        ("pgd-linf@1>=20", 0),
        ("median-pgd-linf>=0.5", 3),
        ("median-pgd-linf<=0.95", 0),
    ],
)
@pytest.mark.parametrize("value", [[], ["--value"]])
def test_a_gate_between_searched_strengths(tmp_path: Path, text: str, code: int, value: list[str]) -> None:
    said = entered("check", coarse(tmp_path), "--require", text, *value, code=code).line
    assert code == 0 or text.startswith("median") or "--strengths pgd-linf=" in said


def test_a_gate_on_several_attacks_at_once(tmp_path: Path) -> None:
    run = write(tmp_path / "run", fence("a", {"linf": [0.1, 0.6], "l2": [0.2, 0.6]}))
    both = ["--require", "union>=45", "--value"]
    assert entered("check", run, *both, "--union", "linf=0.1,l2=0.2", code=0)
    assert entered("check", run, *both, "--union", "linf=0.6,l2=0.2", code=3)
    assert entered("check", run, "--require", "linf@0.1,l2@0.2>=45", code=0)
    between = entered("check", run, *both, "--union", "linf=0.3,l2=0.2", code=3).line
    assert "between" in between and "--strengths linf=0.3" in between
    assert entered("check", run, "--require", "union<=72", "--union", "linf=0.3,l2=0.2", code=0)
    assert "linf twice" in entered("check", run, "--require", "linf@0.1,linf@0.1>=1", code=1).err


def test_what_compares_needs_strengths_that_were_searched(tmp_path: Path) -> None:
    grids = {"linf": [0.1, 0.6], "l2": [0.2, 0.6]}
    runs = [write(tmp_path / name, fence(name, grids)) for name in ("a", "b")]
    for line in (("--union", "linf=0.3,l2=0.2"), ("--headline", "linf@0.3")):
        assert "--strengths linf=0.3" in entered("compare", *runs, *line, code=1).err
    for name in ("show", "card"):
        assert "--strengths linf=0.3" in entered(name, runs[0], "--headline", "linf@0.3", code=1).err


def test_sizes_alone_are_upper_bounds_on_every_surface(tmp_path: Path) -> None:
    net, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    options: dict[str, Any] = {"strengths": {"linf": [0.01, 0.3]}, "samples": 12, "progress": False, "diagnose": False}
    sizes = ra.evaluate(net, data, "linf", search="minimum", run=tmp_path / "sizes", **options)
    assert sizes.unsearched == (("linf", 0.01), ("linf", 0.3)) and not sizes.select_searched().attacks
    for text in ("linf@0.01>=1", "average>=1", "median-linf>=0.001"):
        entered("check", tmp_path / "sizes", "--require", text, code=3)
        entered("check", tmp_path / "sizes", "--require", text, "--value", code=3)
    entered("check", tmp_path / "sizes", "--require", "linf@0.3<=50", code=0)
    entered("check", tmp_path / "sizes", "--require", "clean>=1", code=0)
    first = facts_of(sizes).headline
    assert first is not None and first.leading.status is Status.UPPER_BOUND and "not searched" in first.leading.why
    assert "upper bound only" in entered("show", tmp_path / "sizes").line
    old = ra.evaluate(net, data, "linf", run=tmp_path / "old", **options)
    assert "not searched" in entered("check", tmp_path / "sizes", "--against", tmp_path / "old", code=3).line
    compared = ["compare", tmp_path / "sizes", tmp_path / "old", "--reference", "none"]
    assert "upper bound only" in entered(*compared).line
    assert "not searched" in entered(*compared, "--save-reference", tmp_path / "mine.json", code=1).err
    for name in ("linf@0.3", "average", "average linf"):
        with pytest.raises(ra.UserError, match="not searched"):
            number_of(name, [sizes], None, {})
        assert 0 <= number_of(name, [old], None, {}).over.trainings.value <= 100
    both = ra.evaluate(net, data, "linf", run=tmp_path / "sizes", **options)
    assert not both.unsearched and both.outcome("linf").accuracy_bounds(0.01).low >= 50
    entered("check", tmp_path / "sizes", "--require", "linf@0.01>=1", code=0)
    with pytest.raises(ra.UserError, match="in common"):
        Ground.from_results([sizes, both])
    row = run_row(sizes, Ground.from_results([both]).reference)
    assert not row.accuracies.attacks and "upper bound" in " ".join(row.notes)


def made_of_sizes(strengths: Mapping[str, Sequence[float]], searched_at: Sequence[bool]) -> ra.Result:
    """Ten samples under attacks that judged some of their strengths and looked for sizes alone at the others."""
    sizes = {name: [grid[0]] * 3 + [grid[-1]] * 3 + [np.inf] * 4 for name, grid in strengths.items()}
    made = ra.Result.from_arrays([0] * 10, [0] * 10, sizes, strengths)
    marks = np.array(searched_at)
    outcomes = {name: replace(outcome, searched_at=marks) for name, outcome in made.outcomes.items()}
    return replace(made, outcomes=outcomes)


@pytest.mark.parametrize("grids", [{"linf": [0.1, 0.2]}, {"resolution": [80, 20]}], ids=["rises", "falls"])
def test_what_was_not_searched_is_said_with_its_accuracy(grids: dict[str, list[float]], tmp_path: Path) -> None:
    """In frames, JSON, CSV, SQL and exports, at the very strengths that were not searched."""
    ((attack, (first, last)),) = grids.items()
    result = made_of_sizes(grids, [False, True])
    table = result.accuracies()
    assert table.unsearched == {attack: (first,)} and result.unsearched == ((attack, first),)
    columns = table._columns()
    assert dict(zip(columns["strength"], columns["status"], strict=True))[last] == ""
    assert columns["status"].tolist() == ["", "upper bound only", ""]
    assert AccuracyTable.from_dict(table.to_dict()).unsearched == table.unsearched
    assert table.restrict([attack], {attack: [last]}).unsearched == {}
    assert pickle.loads(pickle.dumps(table)).unsearched == table.unsearched
    assert run_as_json(facts_of(result))["attacks"][attack]["upper bound only at"] == [first]


def test_what_the_minimum_search_found_is_an_upper_bound_in_files(tmp_path: Path) -> None:
    net, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    common: dict[str, Any] = {"samples": 6, "run": tmp_path / "run", "progress": False, "diagnose": False}
    ra.evaluate(net, data, "linf", strengths={"linf": [0.1, 0.3]}, search="minimum", **common)
    ra.evaluate(net, data, "linf", strengths={"linf": [0.3]}, **common)
    views = query("SELECT strength, status FROM accuracies ORDER BY strength", tmp_path / "run").rows
    assert views == [(0.1, "upper bound only"), (0.3, "")]
    assert query("SELECT searched FROM attacks", tmp_path / "run").rows == [([0.3],)]
    rows = [*csv.DictReader(entered("show", tmp_path / "run", "--csv").out.splitlines())]
    assert [row["status"] for row in rows] == ["ok", "upper bound only", "ok"]
    entered("export", tmp_path / "run", "-o", tmp_path / "told.json")
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert told["unsearched"] == {"linf": [0.1]}
    entered("export", tmp_path / "run", "--to", "parquet", "-o", tmp_path / "told.parquet")
    sql = f"SELECT value FROM parquet_kv_metadata('{tmp_path / 'told.parquet'}') WHERE key = 'robustatlas'"
    ((text,),) = duckdb.sql(sql).fetchall()
    assert json.loads(bytes(text))["unsearched"] == {"linf": [0.1]}


def test_references_and_calibrations_need_strengths_that_were_searched() -> None:
    grid = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    result = made_of_sizes({"linf": grid, "l2": grid}, [True, False, True, True, True, True])
    table = result.accuracies()
    made: dict[str, Callable[[], object]] = {
        "from_models": lambda: Reference.from_models("mine", "made up", {"a": table}),
        "build_reference": lambda: build_reference(
            "mine", "made up", [ReferenceModel("linf", 0.1, 0, table)], {"linf": [0.1]}, "ata"
        ),
        "calibrate": lambda: calibrate("l2", table),
    }
    for make in made.values():
        with pytest.raises(ra.UserError, match=r"not searched at 0\.2.*--strengths"):
            make()
    with pytest.warns(RobustnessWarning, match="upper bound only, as linf was not searched"):
        average_accuracy(table, ["linf"])
    searched = made_of_sizes({"linf": grid, "l2": grid}, [True] * 6).accuracies()
    assert calibrate("l2", searched).cost == 0


def test_what_is_certified_counts_where_nobody_searched() -> None:
    result = fence("a", {"linf": [0.6]})
    certified = np.where(np.arange(100) < 80, 0.1, 0.0)
    proved = replace(result, certified_sizes={"linf": CertifiedSizes("linf", certified)})
    assert result.accuracy_bounds({"linf": 0.05}).low == 30
    assert proved.accuracy_bounds({"linf": 0.05}).low == 100 and proved.accuracy_bounds({"linf": 0.1}).low == 30
    check = check_requirements([Requirement.parse("linf@0.05>=90")], proved, facts_of(proved))
    assert check[0].passed


def test_between_strengths_that_are_judged_by_themselves_nothing_is_known() -> None:
    wrong = np.zeros(4, int)
    fooled = {"fog": np.array([[1, 0], [0, 1], [0, 0], [0, 0]], np.int8)}
    sizes = {"fog": np.array([1.0, 2.0, np.inf, np.inf])}
    result = ra.Result.from_arrays(wrong, wrong, sizes, {"fog": [1.0, 2.0]}, fooled=fooled, monotone=False)
    known = result.outcome("fog").accuracy_bounds(1.5)
    assert (known.low, known.high, known.searched) == (0.0, 100.0, False)
    assert result.outcome("fog").accuracy_bounds(2.0).low == result.outcome("fog").accuracy_bounds(2.0).high == 75.0
    asked = [Requirement.parse("median-fog>=1")]
    assert not check_requirements(asked, result, facts_of(result))[0].passed
