"""Only like is compared: runs that differ in one thing, on every surface that sets runs beside each other."""

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import run_files
from command_line import entered
from robustatlas.common.errors import RobustnessWarning, UserError
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AttackRecord, merge, query
from robustatlas.outcomes.merge import join_best_known
from robustatlas.report.facts import hold_against, shared_of_runs
from robustatlas.report.gate import check_against
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report
from robustatlas.results.result import Result, load_result

GRID = {"zoom": [0.1, 0.2, 0.4], "linf": [0.1, 0.2]}
ZOOM = {"kind": "Zoomed", "border": "reflect"}
LINF = {"kind": "Linf", "starts": "surface", "p": "Infinity"}
OURS: dict[str, Any] = {
    "threats": {"zoom": ZOOM, "linf": LINF},
    "images_sha256": "a" * 64,
    "labels_sha256": "b" * 64,
}


def table(name: str = "net", scale: float = 1.0, count: int = 40) -> Result:
    index = np.arange(count)
    drawn = np.random.default_rng(0).uniform(0.02, 0.6, (len(GRID), 40))[:, :count]
    sizes = {attack: scale * drawn[k] for k, attack in enumerate(GRID)}
    return Result.from_arrays(index % 5, index % 5, sizes, GRID, model=name, data="made")


def run(path: Path, name: str, scale: float = 1.0, **changes: Any) -> Path:
    return run_files.write(path / name, table(name, scale), **(OURS | changes))


THREATS: dict[str, dict[str, Any]] = {
    "border": {"threats": {"zoom": {**ZOOM, "border": "black"}, "linf": LINF}},
    "interpolation": {"threats": {"zoom": {**ZOOM, "interpolation": "nearest"}, "linf": LINF}},
    "pixels": {"threats": {"zoom": {**ZOOM, "pixels": "8bit"}, "linf": LINF}},
    "version": {"threats": {"zoom": {**ZOOM, "version": 2}, "linf": LINF}},
}
DATA: dict[str, dict[str, Any]] = {"images": {"images_sha256": "c" * 64}, "labels": {"labels_sha256": "c" * 64}}


@pytest.fixture(params=THREATS)
def other_threat(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """Two runs, of which one zooms otherwise and is much more robust against that."""
    return [run(tmp_path, "one"), run(tmp_path, "two", 3.0, **THREATS[request.param])]


@pytest.fixture(params=DATA)
def other_data(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """Two runs on data of one name whose images or labels differ."""
    return [run(tmp_path, "one"), run(tmp_path, "two", 3.0, **DATA[request.param])]


def test_how_an_attack_searches_does_not_change_its_threat_model():
    """The starts of a search and its name make no other set; its radius, its pixels and what counts as an error do."""
    known = AttackRecord(name="linf", strengths=(0.1,), threat=LINF)
    same = [
        {"name": "mine"},
        {"strengths": (0.2, 0.3)},
        {"threat": {**LINF, "starts": "volume"}},
        {"protocol": {"seed": 3, "search": "every"}},
    ]
    other = [{"threat": {**LINF, "pixels": "8bit"}}, {"threat": {"kind": "L2"}}, {"protocol": {"errors": "improbable"}}]
    assert {known.model_copy(update=change).threat_identity for change in same} == {known.threat_identity}
    assert len({known.model_copy(update=change).threat_identity for change in other} | {known.threat_identity}) == 4


def test_an_attack_with_another_threat_model_is_left_out_and_says_how_it_differs(other_threat: list[Path]) -> None:
    shared = shared_of_runs([load_result(path) for path in other_threat])
    assert set(shared.grid) == {"linf"} and set(shared.unlike) == {"zoom"}
    assert "of one" in shared.unlike["zoom"] and "of two" in shared.unlike["zoom"]


def compared(paths: list[Path], folder: Path) -> str:
    return entered("compare", *paths).line


def compared_as_json(paths: list[Path], folder: Path) -> str:
    told = json.loads(entered("compare", *paths, "--json").out)
    assert set(told["attacks"]) == {"linf"}
    return " ".join(told["notes"])


def compared_as_csv(paths: list[Path], folder: Path) -> str:
    told = entered("compare", *paths, "--csv")
    assert "zoom" not in told.out
    return told.err


def grouped(paths: list[Path], folder: Path) -> str:
    return entered("compare", *[part for path in paths for part in ("--group", f"{path.name}={path}")]).line


def drawn(paths: list[Path], folder: Path) -> str:
    return entered("figure", *paths, "-o", folder / "curves.svg").line


def reported(paths: list[Path], folder: Path) -> str:
    page = build_report([load_result(path) for path in paths], folder / "report.html").read_text()
    return page.replace("&#39;", "'")


def on_a_board(paths: list[Path], folder: Path) -> str:
    page = build_leaderboard([load_result(path) for path in paths], folder / "board", None).read_text()
    assert '"name": "zoom"' not in page and '"name":"zoom"' not in page
    return page


def queried(paths: list[Path], folder: Path) -> str:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rows = query("SELECT DISTINCT threat FROM accuracies WHERE attack = 'zoom'", paths).rows
    assert len(rows) == 2
    return " ".join(str(warning.message) for warning in told if issubclass(warning.category, RobustnessWarning))


SURFACES: Mapping[str, Callable[[list[Path], Path], str]] = {
    function.__name__: function
    for function in (compared, compared_as_json, compared_as_csv, grouped, drawn, reported, on_a_board, queried)
}


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_leaves_the_unlike_attack_out(surface: str, other_threat: list[Path], tmp_path: Path) -> None:
    assert "zoom is not compared" in SURFACES[surface](other_threat, tmp_path)


@pytest.mark.parametrize("surface", ["compared", "grouped", "drawn", "on_a_board"])
def test_no_surface_compares_runs_on_other_data(surface: str, other_data: list[Path], tmp_path: Path) -> None:
    commands: dict[str, Callable[[], Any]] = {
        "compared": lambda: entered("compare", *other_data, code=1).err,
        "grouped": lambda: (
            entered("compare", "--group", f"a={other_data[0]}", "--group", f"b={other_data[1]}", code=1).err
        ),
        "drawn": lambda: entered("figure", *other_data, "-o", tmp_path / "curves.svg", code=1).err,
        "on_a_board": lambda: entered("leaderboard", "build", *other_data, "-o", tmp_path / "board", code=1).err,
    }
    assert "which hold different" in commands[surface]()


def test_pages_and_queries_say_that_the_data_differ(other_data: list[Path], tmp_path: Path) -> None:
    assert "which hold different" in reported(other_data, tmp_path)
    with pytest.warns(RobustnessWarning, match="which hold different"):
        assert len(query("SELECT DISTINCT images FROM runs", other_data).rows) == 2


def test_a_board_beside_a_reference_holds_runs_on_one_data_set(other_data: list[Path], tmp_path: Path) -> None:
    reference = Reference.from_models("best", "made", {"one": table().accuracies()})
    with pytest.raises(UserError, match="which hold different"):
        build_leaderboard([load_result(path) for path in other_data], tmp_path / "board", reference)


def test_a_gate_fails_where_the_threat_model_changed(other_threat: list[Path]) -> None:
    """The new model looks better by zooming otherwise, which shows nothing."""
    old, new = map(load_result, other_threat)
    found = {check.name.partition(" ")[0]: check for check in check_against(new, old, 0.0)}
    assert not found["zoom"].passed and "threat models differ" in found["zoom"].sentence
    assert found["linf"].passed and found["clean"].passed


def test_a_reference_knows_the_threat_models_of_its_runs(other_threat: list[Path], tmp_path: Path) -> None:
    first, second = other_threat
    also = run(tmp_path, "also", 1.2)
    entered("compare", first, also, "--save-reference", tmp_path / "mine.json")
    from robustatlas.metrics.references import load_reference

    reference = load_reference(str(tmp_path / "mine.json"))
    for path, attacks in ((first, {"zoom", "linf"}), (second, {"linf"})):
        result = load_result(path)
        held = hold_against(result, reference, result.records.values(), result.identity)
        assert set(held.ranked) == attacks
        assert ("zoom" in held.unlike) == ("zoom" not in attacks)


def test_a_row_on_other_images_than_the_reference_has_no_place(tmp_path: Path) -> None:
    one, also = run(tmp_path, "one"), run(tmp_path, "also", 1.2)
    entered("compare", one, also, "--save-reference", tmp_path / "mine.json")
    other = run(tmp_path, "other", 3.0, images_sha256="c" * 64)
    for path, placed in ((one, True), (other, False)):
        page = build_leaderboard([load_result(path)], tmp_path / path.name / "board", _loaded(tmp_path)).read_text()
        board = page.partition('id="board-data"')[2] or page
        assert ('"unranked": ""' in board or '"unranked":""' in board) == placed


def _loaded(folder: Path) -> Reference:
    from robustatlas.metrics.references import load_reference

    return load_reference(str(folder / "mine.json"))


# ---- unfinished runs -------------------------------------------------------------------------------------------------


@pytest.fixture
def unfinished(tmp_path: Path) -> list[Path]:
    """Two runs of which the second was asked for 40 samples and has 25."""
    whole, part = run(tmp_path, "one"), tmp_path / "two"
    run_files.write(part, table("two", 1.5, count=25), **OURS)
    (plan,) = (part / "plans").glob("*.json")
    told = json.loads(plan.read_text())
    plan.write_text(json.dumps(told | {"spans": [[0, 40]]}))
    assert load_result(part).missing == {"zoom": 15, "linf": 15}
    return [whole, part]


def test_every_surface_says_what_an_unfinished_run_lacks(unfinished: list[Path], tmp_path: Path) -> None:
    said = "zoom (15), linf (15)"
    for surface in (compared, grouped, drawn, reported):
        assert said in surface(unfinished, tmp_path), surface
    assert said in entered("compare", *unfinished, "--csv").err
    assert said in " ".join(json.loads(entered("compare", *unfinished, "--json").out)["notes"])
    assert said in build_leaderboard([load_result(path) for path in unfinished], tmp_path / "board", None).read_text()
    with pytest.warns(RobustnessWarning, match="linf"):
        assert query("SELECT missing FROM runs ORDER BY missing", unfinished).rows == [(0,), (15,)]
    old, new = map(load_result, unfinished)
    assert [check.passed for check in check_against(new, old, 0.0) if said in check.sentence] == [False]


# ---- joining ---------------------------------------------------------------------------------------------------------


def same_model(path: Path, name: str, **changes: Any) -> Path:
    return run_files.write(path / name, replace(table(), name="net"), **(OURS | changes))


@pytest.mark.parametrize("into", ["new", "empty", "run"])
@pytest.mark.parametrize("change", [*THREATS, *DATA])
def test_a_refused_merge_leaves_nothing(change: str, into: str, tmp_path: Path) -> None:
    given = tmp_path / "given"
    first = same_model(given, "first")
    second = same_model(given, "second", seed=2, **{**THREATS, **DATA}[change])
    target = tmp_path / "out" / "joined"
    if into == "empty":
        target.mkdir(parents=True)
    if into == "run":
        target = same_model(tmp_path / "out", "joined", seed=7)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for join in (merge, join_best_known):
        with pytest.raises(UserError):
            join([first, second], target)
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_merge_that_certificates_contradict_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robustatlas.outcomes import store

    first, second = same_model(tmp_path, "first"), same_model(tmp_path, "second", seed=2)

    def crossed(*_: object) -> None:
        raise UserError("The two sides cross.")

    monkeypatch.setattr(store.Run, "_certified", crossed)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(UserError, match="cross"):
        merge([first, second], tmp_path / "joined")
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_merging_into_a_run_that_is_there_adds_to_it(tmp_path: Path) -> None:
    first, second = same_model(tmp_path, "first"), same_model(tmp_path, "second", seed=2)
    merge([second], first)
    assert len(load_result(first).records) == 4
    assert merge([first, second], tmp_path / "new").path == tmp_path / "new"


def test_best_known_joins_attacks_by_their_threat_model(tmp_path: Path) -> None:
    """Three attacks on one set, one of them on its own: each is held against the smallest size of any."""
    labels = np.zeros(4, int)
    sizes = {"linf": [0.1, 0.4, 0.3, np.inf], "mine": [0.2, 0.2, 0.3, 0.4], "l2": [1.0, 1.0, 1.0, 1.0]}
    threats = {"linf": LINF, "mine": {**LINF, "starts": "volume"}, "l2": {"kind": "L2", "starts": "surface", "p": 2.0}}
    paths = []
    for attack, size in sizes.items():
        grid = [0.1, 0.2, 0.3, 0.4] if attack != "l2" else [1.0]
        made = Result.from_arrays(labels, labels, {attack: size}, {attack: grid}, model="net", data="made")
        paths.append(run_files.write(tmp_path / attack, made, threats, images_sha256="a" * 64, labels_sha256="b" * 64))
    best = Result.from_run(join_best_known(paths, tmp_path / "best"))
    for attack in ("linf", "mine"):
        assert best.minimal_size(attack).tolist() == [0.1, 0.2, 0.3, 0.4]
    assert best.minimal_size("l2").tolist() == [1.0] * 4
    assert load_result(paths[0]).optimality(best)["linf"] < 1
    text = entered("best-known", *paths, "-o", tmp_path / "again").line
    assert "are on one threat model" in text
