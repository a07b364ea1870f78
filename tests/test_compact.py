"""Many runs as one file: the rows that SQL reads of it are those of the runs."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import robustatlas as ra
from command_line import entered
from robustatlas.outcomes import compact, query


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs on other grids, one of which has a certificate; no test changes them."""
    place = tmp_path_factory.mktemp("runs")
    folders = [place / "one", place / "two"]
    evaluate(folders[0], ["linf", "l2"], {"linf": [0.1, 0.3], "l2": [0.2]})
    evaluate(folders[1], ["linf"], {"linf": [0.05, 0.1, 0.3]})
    ra.certify(net(), data(), "linf", run=folders[1], progress=False)
    return folders


@pytest.fixture(scope="module")
def file(runs: list[Path]) -> Path:
    """Both runs as one file, which no test changes."""
    return compact(runs, runs[0].parent / "all.duckdb")


@pytest.fixture(scope="module")
def first(runs: list[Path]) -> Path:
    """The first run as a file."""
    return compact(runs[:1], runs[0].parent / "first.duckdb")


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(9, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return x, net()(x).argmax(1)


def evaluate(run: Path, attacks: list[str], strengths: dict[str, list[float]], samples: int = 6) -> None:
    ra.evaluate(
        net(), data(), attacks, strengths=strengths, samples=samples, run=run, diagnose=False, audit=0, progress=False
    )


def rows(sql: str, of: Any) -> list[tuple[Any, ...]]:
    return query(sql, of).rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM runs ORDER BY ALL",
        "SELECT * FROM attacks ORDER BY ALL",
        "SELECT * FROM samples ORDER BY ALL",
        "SELECT * FROM certified ORDER BY ALL",
        'SELECT run, attack, "index", minimal_strength, minimal_size, certified_size, found_class, forward, backward, '
        "mistakes, drawn, queries, strengths, broken FROM outcomes ORDER BY ALL",
        "SELECT * FROM accuracies ORDER BY ALL",
        "SELECT * FROM broken(0.1) ORDER BY ALL",
        "SELECT * FROM broken(0.07) ORDER BY ALL",
    ],
)
def test_it_says_what_the_runs_say(sql: str, runs: list[Path], file: Path, first: Path) -> None:
    assert rows(sql, file) == rows(sql, [first, runs[1]]) == rows(sql, runs)


def test_sets_that_are_not_nested_keep_what_was_found_at_each_strength(tmp_path: Path) -> None:
    model, digits = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    ra.evaluate(
        model, digits, ["corruption-contrast"], samples=8, run=tmp_path / "run", diagnose=False, audit=0, progress=False
    )
    file = compact([tmp_path / "run"], tmp_path / "all.duckdb")
    ((middle,),) = rows("SELECT strengths[len(strengths) // 2 + 1] FROM attacks", file)
    for sql in ("SELECT attack, broken, strengths FROM outcomes ORDER BY ALL", f"FROM broken({middle}) ORDER BY ALL"):
        assert rows(sql, file) == rows(sql, tmp_path / "run")


def test_accuracies_are_the_shares_of_unbroken_samples(runs: list[Path]) -> None:
    ((kept,),) = rows("SELECT accuracy FROM accuracies WHERE attack = 'l2' AND strength = 0.2", runs)
    ((counted,),) = rows("SELECT 100 * avg((NOT broken)::INT) FROM broken(0.2)", runs)
    assert kept == pytest.approx(counted)
    assert kept == ra.load_result(runs[0]).accuracies().at("l2", 0.2)


def test_what_a_file_leaves_out_is_said(file: Path) -> None:
    with pytest.raises(ra.UserError, match="Compact files leave out margins and fooled; ask the runs themselves"):
        query("SELECT margins FROM outcomes", file)


def test_runs_that_have_grown_are_renewed_and_others_passed_over(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [shutil.copytree(run, tmp_path / run.name) for run in runs]
    file = compact(runs, tmp_path / "all.duckdb")
    evaluate(runs[0], ["linf", "l2"], {"linf": [0.1, 0.3], "l2": [0.2]}, samples=9)
    read: list[Path] = []
    usual = ra.outcomes.Run.table

    def table(run: Any, *args: Any, **kwargs: Any) -> Any:
        read.append(run.path)
        return usual(run, *args, **kwargs)

    monkeypatch.setattr(ra.outcomes.Run, "table", table)
    compact(runs, file)
    assert read == [runs[0]]
    assert rows("SELECT run, count(*) FROM outcomes GROUP BY run ORDER BY 1", file) == [
        (str(runs[0]), 18), (str(runs[1]), 6),
    ]  # fmt: skip


def test_the_sql_sees_the_views_and_writes_nothing(file: Path) -> None:
    for sql in ("DELETE FROM compact0.outcomes", "SELECT * FROM read_csv('/etc/passwd')", "ATTACH 'x.duckdb'"):
        with pytest.raises(ra.UserError):
            query(sql, file)


def test_files_that_are_something_else_are_left_alone(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ra.UserError, match="is not a compact file"):
        compact(runs, tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(ra.UserError, match="No runs are given"):
        compact([], tmp_path / "all.duckdb")


def test_on_the_command_line(runs: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "all.duckdb"
    assert "2 runs" in entered("compact", *runs, "-o", file).line
    assert entered("query", "SELECT count(*) FROM outcomes", file, "--csv").out.splitlines()[1] == "18"
