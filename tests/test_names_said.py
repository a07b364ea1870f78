"""What a model is called after its run was made, in every output; and runs in the order in which they are typed."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import run_files
from command_line import entered
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report
from robustatlas.results.result import Result, load_result

STRENGTHS = {"linf": [0.1, 0.2]}
TITLE = "_A & B_ $50$ <i>"


def run(path: Path, name: str, size: float) -> Path:
    table = Result.from_arrays([0, 1, 0, 1], [0, 1, 0, 0], {"linf": [size, size, 0.5, 0.0]}, STRENGTHS, model=name)
    return run_files.write(path, table)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """The weaker one first; the first is called otherwise since."""
    made = [run(tmp_path / "one", "weak", 0.05), run(tmp_path / "two", "strong", 0.3)]
    load_result(made[0]).describe(title=TITLE)
    return made


def test_a_title_is_the_name_everywhere(runs: list[Path], tmp_path: Path) -> None:
    first = load_result(runs[0])
    assert (first.name, first.recorded_name) == (TITLE, "weak")
    assert TITLE in repr(first) and "&lt;i&gt;" in first._repr_html_()
    commands: dict[str, tuple[Any, ...]] = {
        "show": ("show", runs[0]),
        "compare": ("compare", *runs),
        "csv": ("compare", *runs, "--csv"),
    }
    for said in commands.values():
        assert TITLE in entered(*said).out and "weak" not in entered(*said).out
    for said in (("show", runs[0], "--latex"), ("compare", *runs, "--latex")):
        assert r"\_A \& B\_ \$50\$ \textless{}i\textgreater{}" in entered(*said).out
    entered("figure", *runs, "-o", tmp_path / "curves.svg")
    drawn = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(drawn)
    assert "_A &amp; B_ $50$ &lt;i>" in drawn or "_A &amp; B_ $50$ &lt;i&gt;" in drawn
    page = build_report([load_result(path) for path in runs], tmp_path / "page.html").read_text(encoding="utf-8")
    shown = re.sub(r"<wbr>|\s+", " ", page).replace(" ", "")
    assert "_A&amp;B_$50$&lt;i&gt;" in shown and "<i>" not in page and ">weak<" not in page
    board = build_leaderboard([first], tmp_path / "site", None).read_text(encoding="utf-8")
    assert "_A \\u0026 B_ $50$ \\u003ci\\u003e" in board


def test_what_is_said_last_holds_and_a_name_stands_before_a_title(runs: list[Path]) -> None:
    load_result(runs[0]).describe({"title": "paper"}, name="mine")
    assert load_result(runs[0]).name == "mine" and load_result(runs[0]).about["title"] == "paper"
    load_result(runs[0]).describe(notes="nothing")
    assert load_result(runs[0]).name == "mine"
    load_result(runs[0]).describe(title="again")
    assert load_result(runs[0]).name == "again"


def test_a_name_on_the_command_line_holds_for_a_run_that_is_there(tmp_path: Path) -> None:
    words = "evaluate builtin:digits-linf --data digits --samples 2 --attacks linf --strengths linf=0.1 --audit 0"
    entered(*words.split(), "--run", tmp_path / "run")
    assert load_result(tmp_path / "run").name == "builtin:digits-linf"
    assert "Ours" in entered(*words.split(), "--run", tmp_path / "run", "--name", "Ours").out
    assert load_result(tmp_path / "run").name == "Ours"
    entered(*words.split(), "--run", tmp_path / "run")
    assert load_result(tmp_path / "run").name == "Ours", "no name was said"


@pytest.mark.parametrize("turned", [False, True])
def test_runs_stand_in_the_order_in_which_they_are_typed(runs: list[Path], tmp_path: Path, turned: bool) -> None:
    load_result(runs[0]).describe(name="weak")
    typed = runs[::-1] if turned else runs
    names = ["strong", "weak"] if turned else ["weak", "strong"]
    heads = entered("compare", *typed, "--csv").out.splitlines()[1:]
    assert list(dict.fromkeys(line.split(",")[0] for line in heads)) == names
    table = next(line for line in entered("compare", *typed).out.splitlines() if "95 % intervals" in line)
    assert table.split()[-2:] == names
    page = build_report([load_result(path) for path in typed], tmp_path / "page.html").read_text(encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", page)
    assert title is not None and title[1].index(names[0]) < title[1].index(names[1])
