"""What the owner of a run says of its model: asked for once, kept in the run, shown by report and board alike."""

import json
from pathlib import Path

import pytest

from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable, Run, merge
from robustatlas.report.facts.rows import model_facts, read_card
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report
from robustatlas.results.result import Result, load_result
from run_files import write

STRENGTHS = {"linf": [0.01, 0.02]}
REFERENCE = Reference("small", "made up", AccuracyTable(90, {"linf": {0.01: 80, 0.02: 78}}), ("linf",))
CARD = {"title": "A <b>paper</b>", "url": "https://example.org/paper", "trained_on": {"linf": 0.01}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    table = Result.from_arrays([0, 1, 0], [0, 1, 1], {"linf": [0.015, 0.5, 0.0]}, STRENGTHS, model="mine")
    return write(tmp_path / "run", table)


def test_the_command_keeps_name_and_card(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps(CARD))
    words = "evaluate builtin:digits-linf --data digits --samples 2 --attacks linf --strengths linf=0.1 --name Ours"
    entered(*words.split(), "--about", tmp_path / "card.json", "--run", tmp_path / "run")
    result = load_result(tmp_path / "run")
    assert result.name == "Ours" and result.about == CARD


def test_report_and_board_say_the_same(run: Path, tmp_path: Path) -> None:
    load_result(run).describe(CARD)
    result = load_result(run)
    page = build_report([result], tmp_path / "report.html", REFERENCE).read_text(encoding="utf-8")
    assert "training not stated" not in page
    board = build_leaderboard([result], tmp_path / "site", REFERENCE).read_text(encoding="utf-8")
    assert '"trainedOn":{"linf":0.01}' in board and "https://example.org/paper" in board
    given = {"mine": {"trained_on": {}}}
    assert '"trainedOn":{}' in build_leaderboard([result], tmp_path / "site", REFERENCE, given).read_text()


def test_later_words_replace_earlier_ones(run: Path, tmp_path: Path) -> None:
    for words in ({"notes": "first", "title": "kept"}, {"notes": "second"}, {"notes": "first"}):
        load_result(run).describe(words)
    assert load_result(run).about == {"notes": "first", "title": "kept"}
    merge([run], tmp_path / "both")
    assert Run.open(tmp_path / "both").cards() == Run.open(run).cards()


def test_what_no_card_holds_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"trained": {"linf": 0.1}}')
    with pytest.raises(UserError, match=r"trained of .*card\.json is not known"):
        read_card(tmp_path / "card.json")
    load_result(run).describe({"trained_on": {"linf": -1}})
    with pytest.raises(UserError, match=r"trained_on\.linf of the card of mine"):
        model_facts(load_result(run), {})
    with pytest.raises(UserError, match="of no run"):
        Result.from_arrays([0], [0], {"linf": [1.0]}, {"linf": [1.0]}).describe({"title": "x"})
