from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import outcomes_examples as examples
from robustatlas.cli.query import query as command
from robustatlas.errors import UserError
from robustatlas.outcomes import query
from robustatlas.result import load_result


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "it's run a", tmp_path / "lr=0.1" / "run b"]
    for path in paths:
        examples.fill(examples.begin(path, name=path.name[-1]))
    return paths


def test_one_run(runs: list[Path]) -> None:
    table = query(
        "SELECT attack, count(*) AS n, avg(forward) AS f FROM outcomes GROUP BY attack ORDER BY attack", runs[0]
    )
    result = load_result(runs[0])
    assert table.columns == ("attack", "n", "f")
    assert table.rows == [(attack, 7, pytest.approx(result.passes(attack)[0])) for attack in ("l2", "linf")]


def test_many_runs_joined(runs: list[Path]) -> None:
    sql = """
        SELECT model, attack, 100.0 * avg((NOT broken)::INT) AS accuracy
        FROM broken(0.2) JOIN samples USING (run, index) JOIN runs USING (run) GROUP BY ALL ORDER BY ALL
    """
    rows = query(sql, runs).rows
    expected = load_result(runs[0]).accuracies().cells
    assert rows == [(model, a, pytest.approx(expected[a][0.2])) for model in "ab" for a in ("l2", "linf")]


def test_the_folder_s_name_is_no_column(runs: list[Path]) -> None:
    rows = query("SELECT index FROM outcomes WHERE attack = 'linf' ORDER BY index", runs[1]).rows
    assert [row[0] for row in rows] == list(range(7))
    with pytest.raises(UserError):
        query("SELECT lr FROM outcomes", runs[1])


def test_attacks_say_their_strengths_and_how_they_were_searched(runs: list[Path]) -> None:
    rows = query("SELECT attack, strengths, monotone, origins FROM attacks ORDER BY attack", runs[0]).rows
    assert rows == [(attack, [0.1, 0.2, 0.4], True, ["every, seed 0"]) for attack in ("l2", "linf")]


def test_what_was_not_searched_is_null(runs: list[Path]) -> None:
    missing = query("SELECT count(*) - count(m) FROM (SELECT unnest(margins) AS m FROM outcomes)", runs[0]).rows[0][0]
    result = load_result(runs[0])
    assert missing == sum(int(np.isnan(result.margins(attack)).sum()) for attack in result.attacks) > 0


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT nothing FROM outcomes", "SELECT * FROM nowhere"])
def test_bad_sql(runs: list[Path], sql: str) -> None:
    with pytest.raises(UserError, match="The SQL could not be run"):
        query(sql, runs)


def test_bad_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        query("SELECT 1", [tmp_path / "nowhere"])
    with pytest.raises(UserError, match="No runs given"):
        query("SELECT 1", [])


def test_command(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    command("SELECT attack, max(margins) AS m FROM outcomes GROUP BY 1 ORDER BY 1", runs)
    text = capsys.readouterr().out
    assert "linf" in text
    assert "2 rows" in text


def test_command_csv(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    command("SELECT index, minimal_size AS s FROM outcomes WHERE attack = 'l2' ORDER BY 1", runs[:1], as_csv=True)
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["index", "s"]
    assert [float(row[1]) for row in rows] == load_result(runs[0]).minimal_size("l2").tolist()
