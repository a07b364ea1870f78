"""A number that is masked wins nothing, wherever it stands: it is an upper bound only, and the page says why."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import run_files
from command_line import entered
from helpers_core import broken_defense
from robustatlas.common.errors import UserError
from robustatlas.common.wording import MASKED
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.card import card
from robustatlas.report.facts import facts_of, field_places, shared_of_runs, standings_of
from robustatlas.report.field import views
from robustatlas.report.gate import Requirement, check_against, check_requirements
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.numbers.of_several import numbers_of_several
from robustatlas.report.numbers.shared import distinct_names
from robustatlas.report.page import build_report
from robustatlas.report.words import headline, summary, verdict
from robustatlas.results.result import Result, load_result

GRID = {"linf": [0.01, 8 / 255, 0.04], "hue": [0.1, 0.2]}
WHY = "the gradient of the margin is missing or misleads at every sample"


def result(name: str, scale: float, **more: Any) -> Result:
    """Sizes of 200 images, the larger the ``scale``; hue is the same for all."""
    spread = np.random.default_rng(0).permutation(np.linspace(0.05, 1, 200))
    wrong = spread < 0.08
    sizes = {"linf": np.where(wrong, 0.0, scale * spread), "hue": np.where(wrong, 0.0, 0.25 * spread)}
    sizes = {attack: np.where(size > GRID[attack][-1], np.inf, size) for attack, size in sizes.items()}
    return Result.from_arrays(np.zeros(200), wrong, sizes, GRID, model=name, **{"data": "cifar10"} | more)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The blind one would win under linf by far, and so in every average."""
    folder = tmp_path_factory.mktemp("runs")
    made = {"blind": result("blind", 1.0), "strong": result("strong", 0.04), "weak": result("weak", 0.02)}
    threats = {"linf": {"kind": "Linf"}}
    return {
        name: run_files.write(folder / name, one, threats, blind=["linf"] if name == "blind" else [])
        for name, one in made.items()
    }


@pytest.fixture(scope="module")
def runs(paths: dict[str, Path]) -> dict[str, Result]:
    return {name: load_result(path) for name, path in paths.items()}


def test_one_function_says_what_may_compete(runs: dict[str, Result]) -> None:
    blind = runs["blind"]
    assert (
        masked_shares(blind)
        == masked_shares(blind.accuracies(), ["linf", "hue"])
        == masked_shares(facts_of(blind))
        == {"linf": 1.0}
    )
    assert not masked_shares(blind, ["hue"]) and not masked_shares(blind, []) and not masked_shares(runs["strong"])
    assert masked_shares(blind.select(np.arange(9)).select_judged().restrict({"linf": [0.04]})) == {"linf": 1.0}


@pytest.mark.parametrize("order", [("blind", "strong"), ("strong", "blind")])
def test_compare_lets_it_win_nothing(order: tuple[str, str], paths: dict[str, Path]) -> None:
    text = entered("compare", *(paths[name] for name in order), "--reference", "none").line
    assert text.count(MASKED) >= 4 and f"† linf: {WHY}" in text
    assert "more robust" not in text and "- linf: " not in text
    differences = text.partition("difference p ahead")[2]
    assert "average hue" in differences and "average accuracy" not in differences and "average linf" not in differences


def test_among_three_the_others_are_compared(paths: dict[str, Path]) -> None:
    text = entered("compare", paths["strong"], paths["weak"], paths["blind"], "--reference", "none").line
    assert "strong is the most robust" in text and "blind † is the m" not in text


def test_no_reference_is_made_of_it(paths: dict[str, Path], runs: dict[str, Result], tmp_path: Path) -> None:
    entered("compare", *paths.values(), "--reference", "none", "--save-reference", tmp_path / "mine.json")
    made = load_reference(tmp_path / "mine.json")
    np.testing.assert_array_equal(made.accuracies.values("linf"), runs["strong"].outcome("linf").accuracies())
    assert made.models == ("blind", "strong", "weak")
    with pytest.raises(UserError, match=MASKED):
        Reference.from_models("none", "", {"blind": runs["blind"].accuracies()})


def test_standings_have_no_lead_for_it(runs: dict[str, Result]) -> None:
    several = list(runs.values())
    found = standings_of(numbers_of_several(shared_of_runs(several, distinct_names(several))))
    assert found.together is not None
    assert found.together.masked == (0,) and found.together.leaders == (1,) and found.together.is_told_apart
    linf, hue = found.attacks
    assert (linf.masked, linf.leaders) == ((0,), (1,)) and (hue.masked, hue.leaders) == ((), ())
    said = verdict(found)
    assert "strong is the most robust" in said[0] and said[1].startswith(f"blind † is {MASKED}") and WHY in said[1]
    alone = standings_of(numbers_of_several(shared_of_runs(several[:2], distinct_names(several[:2]))))
    assert alone.together is not None
    assert alone.together.leaders == () and not alone.together.is_told_apart
    assert verdict(alone)[0].startswith(f"blind † is {MASKED}") and not any("robust:" in one for one in verdict(alone))


def test_the_report_has_no_badge_for_it(runs: dict[str, Result], tmp_path: Path) -> None:
    two = build_report([runs["blind"], runs["strong"]], tmp_path / "two.html").read_text()
    assert "most robust" not in two and "is the more robust" not in two and "not compared" in two
    assert two.count(MASKED) > 6 and WHY in two
    three = build_report(list(runs.values()), tmp_path / "three.html").read_text()
    (leader,) = re.findall(r'<tr class="leader">.*?</tr>', three, re.S)
    assert "strong" in leader and "most robust" in leader and "blind" not in leader


def test_sentences_carry_the_mark(runs: dict[str, Result]) -> None:
    facts = facts_of(runs["blind"])
    assert MASKED in headline(facts).partition(" of 200")[0]
    told = dict(summary(facts))
    assert MASKED in told["How robust?"] and "Against what?" not in told  # hue alone is left
    assert MASKED not in headline(facts_of(runs["strong"]))


def test_the_board_ranks_it_nowhere(runs: dict[str, Result], tmp_path: Path) -> None:
    reference = Reference.from_models("mine", "", {name: one.accuracies() for name, one in runs.items()})
    for given in (None, reference):
        page = build_leaderboard(runs.values(), tmp_path / str(given is None), given).read_text()
        rows = re.findall(r"<tr><td>(\d*)</td><td>(\w+)[^<]*</td><td>([^<]*)</td>", page)
        assert [(place, name) for place, name, _ in rows] == [("1", "strong"), ("2", "weak"), ("", "blind")]
        assert rows[-1][2].endswith(MASKED)
        (board,) = re.findall(r'<script type="application/json" id="board-data">(.*?)</script>', page, re.S)
        assert [defense["invalid"] for defense in json.loads(board)["defenses"]] == [["linf"], [], []]
        assert WHY in board


def test_a_card_says_it_instead_of_a_place(runs: dict[str, Result]) -> None:
    facts = facts_of(runs["blind"])
    drawn = card([runs["blind"]], "none", [facts]).svg()
    assert drawn.count(MASKED) >= 3 and "L∞ †" in drawn and "Hue †" not in drawn
    assert MASKED not in card([runs["strong"]], "none").svg()


def test_a_gate_tests_neither_side_of_it(runs: dict[str, Result]) -> None:
    for new, old in (("blind", "strong"), ("strong", "blind")):
        found = {check.name.partition(" ")[0]: check for check in check_against(runs[new], runs[old], 5.0)}
        assert not found["linf"].passed and f"linf of blind † is {MASKED}" in found["linf"].sentence
        assert "p =" not in found["linf"].sentence and WHY in found["linf"].sentence
        assert found["clean"].passed and found["hue"].passed
    asked = [Requirement.parse(text) for text in ("linf@0.04>=1", "average>=1", "hue@0.1>=1", "clean>=50")]
    checks = check_requirements(asked, runs["blind"], facts_of(runs["blind"]))
    assert [check.passed for check in checks] == [False, False, True, True] and MASKED in checks[0].sentence


def test_it_has_no_place_beside_the_field(runs: dict[str, Result]) -> None:
    (blind,), (strong,) = field_places(runs["blind"]), field_places(runs["strong"])
    assert MASKED in blind.sentence and WHY in blind.sentence
    assert blind.to_dict()["place"] is None and strong.to_dict()["place"]["of"] == strong.places_count
    assert "1st" not in blind.sentence and blind.accuracy.value > strong.accuracy.value
    rows = views("blind", [blind])[0].rows
    assert rows[-1].own and MASKED in rows[-1].notes  # below all entries, though its number is above


def test_show_and_what_reads_it(paths: dict[str, Path]) -> None:
    text = entered("show", paths["blind"], "--reference", "none", "--explain").line
    assert text.count(MASKED) > 6 and WHY in text
    told = json.loads(entered("show", paths["blind"], "--json").out)
    assert told["masked"].startswith(f"{MASKED}. † linf") and told["invalid"] == {"linf": 1.0}
    table = csv.DictReader(io.StringIO(entered("show", paths["blind"], "--csv").out))
    status = {row["attack"]: row["status"] for row in table}
    assert status == {"clean": "ok", "linf": MASKED, "hue": "ok"}


def test_what_is_best_known_is_itself_masked(paths: dict[str, Path], tmp_path: Path) -> None:
    again = run_files.write(
        tmp_path / "again", result("blind", 0.9), {"linf": {"kind": "Linf"}}, seed=1, blind=["linf"]
    )
    text = entered("best-known", paths["blind"], again, "-o", tmp_path / "best").line
    assert text.count(MASKED) >= 3 and WHY in text


def test_the_table_of_a_field_carries_the_mark(tmp_path: Path) -> None:
    blind = broken_defense("false_gradients.py:zero_gradient")
    (tmp_path / "models.txt").write_text(f"{blind} --name blind\nbuiltin:digits-linf --name sound\n")
    asked = ("--data", "digits", "--attacks", "linf", "--strengths", "linf=0.1,0.2", "--samples", "12")
    text = entered("field", tmp_path / "models.txt", *asked, "--store", tmp_path / "runs").line
    assert text.count(f", {MASKED}") == 1 and f"blind: † linf: {WHY}" in text
    runs = [load_result(tmp_path / "runs" / name) for name in ("blind", "sound")]
    assert masked_shares(runs[0]) == {"linf": 1.0} and not masked_shares(runs[1])
    found = standings_of(numbers_of_several(shared_of_runs(runs, distinct_names(runs))))
    assert found.attacks[0].masked == (0,) and found.attacks[0].leaders == ()
