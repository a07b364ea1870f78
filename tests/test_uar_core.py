"""The five attacks that UAR suggests to start with, at the printed strengths, and what is ours among them said so."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import ProtocolName
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.results.result import Result
from robustatlas.training.calibration import calibrate

TABLES = json.loads((Path(__file__).parent / "goldens" / "metrics" / "uar_tables.json").read_text())
CALIBRATED = json.loads((files("robustatlas.attacks") / "uar_core_cifar10.json").read_text())
CORE = ("linf", "l1", "elastic", "fog", "snow")
OURS = ("fog", "snow")
SAID = "Strengths of fog and snow: calibrated here, not by the authors of UAR."


def _printed(table: str) -> dict[str, list[float]]:
    pixels = {"linf": 255, "l1": 255}
    rows = {name.lower(): row[0] for name, row in TABLES[table].items()}
    return {name: [s / pixels.get(name, 1) for s in rows[name]] for name in CORE if name in rows}


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_core_is_the_five_of_the_paper_at_its_strengths(protocol: ProtocolName) -> None:
    """Kang et al. 2019, section 4, and table 1."""
    attacks = {attack.name: attack for attack in resolve_attacks("uar-core", protocol)}
    assert tuple(attacks) == CORE
    for name, strengths in _printed("table1_imagenet100").items():
        assert attacks[name].strengths == pytest.approx(strengths), name
    assert not any(attack.about.calibrated for attack in attacks.values())


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_core_on_cifar10(protocol: ProtocolName) -> None:
    """Table 3 has three of them; the others are marked as ours."""
    attacks = {attack.name: attack for attack in resolve_attacks("uar-core-cifar10", protocol)}
    printed = _printed("table3_cifar10")
    assert tuple(attacks) == CORE
    assert tuple(printed) == ("linf", "l1", "elastic")
    for name, attack in attacks.items():
        ours = name in OURS
        assert attack.strengths == pytest.approx(CALIBRATED["strengths"][name] if ours else printed[name]), name
        assert attack.about.calibrated == ("calibrated here, not by the authors of UAR" if ours else "")
        assert attack.runs == resolve_attacks("uar-core", protocol)[CORE.index(name)].runs


@pytest.mark.parametrize("attack", OURS)
def test_our_strengths_are_what_the_calibration_chooses(attack: str) -> None:
    """From the accuracies that are kept beside them, by UAR's rule."""
    clean, ata = CALIBRATED["clean"], CALIBRATED["ata"]
    entries = {name: {float(s): a for s, a in grid.items()} for name, grid in ata.items()}
    found = calibrate(attack, ra.metrics.AccuracyTable(clean, entries))
    assert list(found.strengths) == CALIBRATED["strengths"][attack]
    assert found.is_far is False
    assert {"network", "training", "measured", "command"} <= CALIBRATED["how"].keys()


def test_elastic_of_uar_contains_the_clean_image() -> None:
    """Its authors ran it under PyTorch 1.0, which samples on the pixels; MultiRobustBench did not."""
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for suite in ("uar-cifar10", "uar-core"):
        (elastic,) = (attack for attack in resolve_attacks(suite, "paper") if attack.name == "elastic")
        torch.testing.assert_close(elastic.threat.apply(x, elastic.threat.neutral(x)), x, rtol=0, atol=0)
    theirs = attack_named("elastic", "paper").threat
    assert float((theirs.apply(x, theirs.neutral(x)) - x).abs().max()) > 0.1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits by our two, and by linf."""
    folder = tmp_path_factory.mktemp("core") / "run"
    ra.evaluate(
        ra.load_model("builtin:digits-linf"), ra.load_dataset("digits"), "uar-core-cifar10", samples=3,
        exclude=["l1", "elastic"], effort="low", run=folder, progress=False, diagnose=False,
    )  # fmt: skip
    return folder


def test_strengths_that_are_ours_are_called_so_wherever_they_are_shown(run: Path, tmp_path: Path) -> None:
    told = entered("attacks", "uar-core-cifar10").line
    assert told.count("calibrated here, not by the authors of UAR") == 2
    assert "calibrated here" not in entered("attacks", "uar-core").line
    assert SAID in entered("show", run).line
    assert json.loads(entered("show", run, "--json").out)["calibrations"] == [SAID]
    entered("report", run, "-o", tmp_path / "report.html")
    assert SAID in (tmp_path / "report.html").read_text()
    entered("leaderboard", "build", run, "-o", tmp_path / "site")
    assert SAID in (tmp_path / "site" / "index.html").read_text()


def test_strengths_of_ones_own_are_not_called_ours(run: Path, tmp_path: Path) -> None:
    marked = {record.name: record.calibrated for record in ra.load_result(run).records.values()}
    assert marked == {"linf": "", **dict.fromkeys(OURS, "calibrated here, not by the authors of UAR")}
    result = ra.evaluate(
        ra.load_model("builtin:digits-linf"), ra.load_dataset("digits"), "uar-core-cifar10", samples=2,
        exclude=["l1", "elastic", "linf", "snow"], strengths={"fog": [50.0]}, effort="low", progress=False,
        run=tmp_path / "own", diagnose=False,
    )  # fmt: skip
    assert [record.calibrated for record in result.records.values()] == [""]
    assert SAID not in entered("show", tmp_path / "own").line


def test_a_run_of_some_attacks_is_held_against_the_reference_whose_strengths_it_has() -> None:
    strengths = {a.name: a.strengths for a in resolve_attacks("uar-cifar10")}
    some = {name: strengths[name] for name in ("linf", "l2", "l1", "jpeg-linf", "elastic")}
    sizes = {name: [grid[2], float("inf")] for name, grid in some.items()}
    result = replace(Result.from_arrays([0, 1], [0, 1], sizes, some, model="mine"), data="cifar10")
    held = ra.report.facts.hold_against(result, ra.load_reference("uar-cifar10"))
    assert held.points == 30
    assert held.doubts == ()
