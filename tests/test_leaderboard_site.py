"""The leaderboard site: what is written, and what is refused."""

import gc
import json
import re
import resource
import threading
import urllib.request
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import entered
from robustatlas.cli.leaderboard import server
from robustatlas.common.errors import UserError
from robustatlas.common.wording import LONGEST_NAME
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.report import pages
from robustatlas.report.facts.ranks import score_of
from robustatlas.report.facts.rows import About, Row, published_rows, read_about, run_row
from robustatlas.report.leaderboard import MOST_BESIDE, board_data, build_leaderboard
from robustatlas.report.numbers.number import HYPERVOLUME
from robustatlas.report.pages import LONGEST_PART, parts
from robustatlas.results.result import Result
from run_files import write

REFERENCE = Reference(
    name="small",
    source="made up",
    accuracies=AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}, "fog": {1.0: 70.0}}),
    ranked=("linf",),
)


def result(name: str = "mine", **more: object) -> Result:
    sizes = {"linf": [0.015, np.inf, 0.0, 0.005]}
    return Result.from_arrays([0, 1, 2, 3], [0, 1, 0, 3], sizes, {"linf": [0.01, 0.02, 0.5]}, model=name, **more)


def test_cells_are_those_of_the_reference() -> None:
    board = board_data(REFERENCE, [run_row(result(), REFERENCE)], "title")
    assert [attack["name"] for attack in board["attacks"]] == ["linf", "fog"]
    assert board["attacks"][0]["strengths"] == [0.01, 0.02]
    assert board["defenses"][0]["accuracies"] == {"linf": [50.0, 25.0]}
    assert board["defenses"][0]["clean"] == 75.0


@pytest.mark.parametrize("more", ["recolor", "my own attack"])
def test_what_the_reference_lacks_of_a_training_counts_as_unseen(tmp_path: Path, more: str) -> None:
    close = replace(REFERENCE, accuracies=AccuracyTable(90.0, {"linf": {0.01: 89.0, 0.02: 88.0}}), ranked=("linf",))

    def constant(trained_on: dict[str, float], reference: Reference = close) -> float | None:
        row = run_row(Result.from_arrays([0, 1, 2, 3], [0, 1, 0, 3], {"linf": [0.015, np.inf, 0.0, 0.005]},
                                         {"linf": [0.01, 0.02]}), reference, About(trained_on=trained_on))  # fmt: skip
        found = score_of(row, reference)
        return None if found is None else found[1]

    assert constant({"linf": 0.01, more: 0.06}) == constant({"linf": 0.01}) == 25.0  # 75, 50 and 25 % a point apart
    assert constant({more: 0.06}) == constant({})
    assert constant({"linf": 0.01}, REFERENCE) is None, "its accuracies are too far apart for a pair"
    page = build_leaderboard([result()], tmp_path, REFERENCE, {"mine": {"trained_on": {more: 0.06}}})
    assert more in page.read_text(encoding="utf-8")


@pytest.fixture
def settled() -> None:
    """Looks for garbage pass over all that other tests have imported and made."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("settled")
def test_of_many_runs_most_are_let_go_again(tmp_path: Path) -> None:
    alive: list[weakref.ref[Result]] = []

    def loaded() -> Iterator[Result]:
        for number in range(MOST_BESIDE + 6):
            gc.collect()
            assert sum(one() is not None for one in alive) <= MOST_BESIDE + 1
            mine = result(f"model {number}")
            alive.append(weakref.ref(mine))
            yield mine
            del mine

    page = build_leaderboard(loaded(), tmp_path / "board", REFERENCE)
    assert f"model {MOST_BESIDE + 5}" in page.read_text()


def test_of_a_long_board_the_data_are_compressed(tmp_path: Path) -> None:
    rows = [Row(f"model {k}", AccuracyTable(80.0, {"linf": {0.01: 70.0, 0.02: 60.0}}), samples=10) for k in range(101)]
    assert board_data(REFERENCE, rows, "title")["long"] and not board_data(REFERENCE, rows[1:], "title")["long"]
    small, large = (len(pages.packed(json.dumps(board_data(REFERENCE, some, "")))) for some in (rows[:1], rows))
    assert large < 10 * small


def test_strengths_match_up_to_rounding_and_holes_stay_empty() -> None:
    row = Row("single", AccuracyTable(80.0, {"linf": {float(np.float32(0.02)): 40.0}}))
    assert board_data(REFERENCE, [row], "title")["defenses"][0]["accuracies"]["linf"] == [None, 40.0]


def test_bounds_stand_beside_every_accuracy() -> None:
    board = board_data(REFERENCE, [run_row(result(), REFERENCE)], "title")
    defense, (bounds,) = board["defenses"][0], board["bounds"]
    assert defense["samples"] == 4 and defense["ratios"].keys() == {"ind-avg", "ind-worst", "exp", "max"}
    assert bounds["samples"] == 4 and {defense["clean"], *defense["accuracies"]["linf"]} <= set(bounds["of"])
    for low, value, high in zip(bounds["low"], bounds["of"], bounds["high"], strict=True):
        assert low < value < high
    assert defense["trainedOn"] is None
    clean = run_row(result(), REFERENCE, About(trained_on={}))
    assert board_data(REFERENCE, [clean], "title")["defenses"][0]["trainedOn"] == {}


def test_few_images_are_marked_beside_many() -> None:
    rows = [Row(str(samples), AccuracyTable(80.0, {"linf": {0.02: 40.0}}), samples=samples) for samples in (20, 10_000)]
    assert [defense["few"] for defense in board_data(REFERENCE, rows, "title")["defenses"]] == [True, False]
    assert not board_data(REFERENCE, rows[:1], "title")["defenses"][0]["few"]


def test_an_attack_that_is_searched_in_part_is_missing_and_said(tmp_path: Path) -> None:
    fooled = {"linf": [[1, -1], [0, 0], [1, 1], [1, 1]]}
    grid = {"linf": [0.01, 0.02]}
    partly = Result.from_arrays([0] * 4, [0] * 4, {"linf": [0.01] * 4}, grid, fooled=fooled, monotone=False)
    row = run_row(partly, REFERENCE)
    assert row.accuracies.attacks == () and not [one for one in row.numbers if one.what.startswith("CR")]
    assert any("linf" in note for note in row.notes)
    assert build_leaderboard([partly, result()], tmp_path, REFERENCE).is_file()


@pytest.mark.parametrize("name", ["a", "x" * 300, "Some-Long_Name" * 21, "Dai2023MultiRobustBench_LPIPS", "模" * 50])
def test_names_are_cut_into_short_pieces(name: str) -> None:
    assert all(len(part) <= LONGEST_PART for part in parts(name))
    assert len("".join(parts(name))) <= LONGEST_NAME
    assert "".join(parts(name)) == name or "…" in "".join(parts(name))


def test_equal_names_are_told_apart() -> None:
    rows = [run_row(result(name), REFERENCE) for name in ("mine", "mine", "mine (2)")]
    names = [defense["name"] for defense in board_data(REFERENCE, rows, "title")["defenses"]]
    assert len(set(names)) == 3
    assert names[:2] == ["mine", "mine (2)"]


def test_addresses_that_run_code_are_dropped() -> None:
    row = run_row(result(), REFERENCE, About(url="javascript:alert(1)"))
    assert board_data(REFERENCE, [row], "title")["defenses"][0]["url"] == ""


def test_missing_clean_accuracy_is_null() -> None:
    bare = Reference("bare", "made up", AccuracyTable(float("nan"), {"linf": {0.01: 80.0}}), ranked=("linf",))
    assert board_data(bare, [run_row(result(), bare)], "title")["reference"]["clean"] is None


def test_hypervolume_is_given_where_margins_are_known() -> None:
    sizes, strengths = {"linf": [np.inf, 0.02]}, {"linf": [0.01, 0.02]}
    margins = {"linf": [[0.8, 0.4], [0.5, -0.1]]}
    known = Result.from_arrays([0, 1], [0, 1], sizes, strengths, [0.9, 0.7], margins)
    assert run_row(known, REFERENCE).numbers.find(HYPERVOLUME).value == pytest.approx((0.6 + 0.25) / 2)
    assert run_row(result(), REFERENCE).numbers.find(HYPERVOLUME) is None


def test_bad_input_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to show"):
        build_leaderboard([], tmp_path, REFERENCE)
    with pytest.raises(UserError, match=r"stranger .*mine"):
        build_leaderboard([result()], tmp_path, REFERENCE, about={"stranger": {}})
    with pytest.raises(UserError, match=r"mine\.colour"):
        read_about({"mine": {"colour": "red"}})
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file; give a folder"):
        build_leaderboard([result()], tmp_path / "file", REFERENCE)


def test_text_from_runs_cannot_end_the_data(tmp_path: Path) -> None:
    page = build_leaderboard([result("</script><script>alert(1)</script>")], tmp_path, REFERENCE).read_text()
    assert "alert(1)</script>" not in page


def test_published_defenses_and_about_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "about.json"
    about.write_text(json.dumps({"mine": {"trained_on": {"linf": 0.01}, "architecture": "tiny"}}))
    page = build_leaderboard([result()], tmp_path / "site", REFERENCE, about=about, title="A title")
    text = page.read_text()
    assert "<h1>A title</h1>" in text
    assert '"trainedOn":{"linf":0.01}' in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert published_rows(REFERENCE) == []


def test_a_browser_without_scripts_gets_the_first_ranking(tmp_path: Path) -> None:
    less, better = (
        Result.from_arrays([0, 1], [0, 1], {"linf": [np.inf, np.inf]}, {"linf": grid}, model=name)
        for name, grid in (("less", [0.01]), ("<better>", [0.01, 0.02]))
    )
    page = build_leaderboard([less, result("middle"), better], tmp_path, REFERENCE).read_text()
    rows = re.findall("<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", page)
    ratio = (100 / 90 + 100 / 80 + 100 / 60) / 3
    assert rows == [("1", "&lt;better&gt;", f"{100 * ratio:.2f}"), ("2", "middle", "62.50"), ("", "less", "incomplete")]


def test_points_where_the_reference_is_0_rank_nobody(tmp_path: Path) -> None:
    """The board is that of a reference without them, and says so."""
    entries = {"linf": {0.01: 80.0, 0.02: 60.0, 0.5: 0.0}, "fog": {1.0: 0.0}}
    zero = replace(REFERENCE, accuracies=AccuracyTable(90.0, entries), ranked=("linf", "fog"))
    without = replace(REFERENCE, accuracies=AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}}))
    row = run_row(result(), without)
    assert score_of(row, zero) == score_of(row, without)
    assert score_of(row, without) == (pytest.approx(100 * (75 / 90 + 50 / 80 + 25 / 60) / 3), None)
    page = build_leaderboard([result()], tmp_path, zero).read_text()
    drawn = json.loads(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)[0])
    assert [attack["reference"] for attack in drawn["attacks"]] == [[80.0, 60.0]]
    assert "linf@0.5, fog@1" in drawn["defenses"][0]["notes"]
    assert "NaN" not in page
    with pytest.raises(UserError, match="0 at every"):
        build_leaderboard([result()], tmp_path, replace(zero, ranked=("fog",)))


def test_a_site_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: both fail in the middle of writing."""
    page = build_leaderboard([result()], tmp_path, REFERENCE, title="before")
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept["leaderboard.js"]) - 1, before[1]))
    try:
        with pytest.raises(UserError, match=str(tmp_path)):
            build_leaderboard([result()], tmp_path, REFERENCE, title="after")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    assert "before" in page.read_text()


@pytest.mark.parametrize("command", [["build"], []])
def test_the_board_takes_the_reference_that_fits(command: list[str], tmp_path: Path) -> None:
    for data in ("cifar10", "digits"):
        run = write(tmp_path / f"run-{data}", result(data=data))
        entered("leaderboard", *command, run, "-o", tmp_path / data)
        page = (tmp_path / data / "index.html").read_text()
        assert ("multirobustbench-cifar10" in page) == (data == "cifar10")


def board_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8").split('id="board-data">')[1].split("</script>")[0]
    return json.loads(text)


def test_options_before_the_runs_build_too(tmp_path: Path) -> None:
    entered("leaderboard", "-o", tmp_path / "site")
    assert "serve" in entered("leaderboard", "--help").out


def test_a_board_without_a_reference_ranks_what_all_runs_share(tmp_path: Path) -> None:
    sizes = {"linf": [0.015, np.inf, 0.0, 0.005], "l2": [0.3, 0.3, 0.0, 0.1]}
    both = Result.from_arrays([0, 1, 2, 3], [0, 1, 0, 3], sizes, {"linf": [0.01, 0.02], "l2": [0.2]}, model="both")
    board = board_of(build_leaderboard([result(), both], tmp_path, None))
    ranked = {attack["name"]: attack["strengths"] for attack in board["attacks"] if attack["ranked"]}
    assert ranked == {"linf": [0.01, 0.02]}
    assert {attack["name"] for attack in board["attacks"]} == {"linf", "l2"}
    one, two = board["defenses"]
    assert one["union"] is None and two["union"] is None  # they share one attack alone
    means = [np.mean([row["clean"], *row["accuracies"]["linf"]]) for row in (one, two)]
    assert means == [50.0, 50.0]
    assert one["ratios"]["ind-avg"] == two["ratios"]["ind-avg"] and one["ratios"]["ind-avg"][0] < 50
    assert "robustatlas reference" in (tmp_path / "index.html").read_text()


def test_runs_that_share_nothing_cannot_be_ranked(tmp_path: Path) -> None:
    other = Result.from_arrays([0], [0], {"l2": [0.3]}, {"l2": [0.2]})
    with pytest.raises(UserError, match="no attack"):
        build_leaderboard([result(), other], tmp_path, None)
    with pytest.raises(UserError, match="no run is given"):
        build_leaderboard([], tmp_path, None)


def test_the_header_counts_what_is_there(tmp_path: Path) -> None:
    def lede(results: list[Result], reference: Reference) -> str:
        text = build_leaderboard(results, tmp_path, reference).read_text()
        return text.split('<p class="lede">')[1].split("</p>")[0]

    assert lede([result()], REFERENCE).startswith("1 run ")
    assert "counts 1 attack." in lede([result()], REFERENCE)
    assert lede([result(), result()], REFERENCE).startswith("2 runs ")
    published = load_reference("multirobustbench-cifar10")
    assert lede([], published).startswith("21 published defenses")
    assert lede([result()], published).startswith("21 published defenses and 1 run ")


def test_commands(tmp_path: Path) -> None:
    site = tmp_path / "site"
    said = entered("leaderboard", "build", "-o", site).out
    assert str(site / "index.html") in said.replace("\n", "")
    running = server(site, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{running.server_port}/metrics.js") as answer:
        assert b"stabilityConstant" in answer.read()
    running.shutdown()
    with pytest.raises(UserError, match="cannot be used"):
        server(site, running.server_port)
    running.server_close()
    with pytest.raises(UserError, match="holds no leaderboard"):
        server(tmp_path, 0)
