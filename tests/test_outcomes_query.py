"""SQL over runs: it says what their tables say, and sees nothing else."""

import csv
import io
import math
import os
import signal
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import outcomes_examples as examples
import robustatlas as ra
from robustatlas.cli.query import query as command
from robustatlas.common.errors import UserError
from robustatlas.outcomes import query
from robustatlas.results.result import load_result
from test_draws import Smoothed

closed = import_module("robustatlas.outcomes.query")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """For all tests: SQL changes no run."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [folder / "it's run a", folder / "lr=0.1" / "run b"]
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
    expected = load_result(runs[0]).accuracies().entries
    assert rows == [(model, a, pytest.approx(expected[a][0.2])) for model in "ab" for a in ("l2", "linf")]


def test_the_folder_s_name_is_no_column(runs: list[Path]) -> None:
    rows = query("SELECT index FROM outcomes WHERE attack = 'linf' ORDER BY index", runs[1]).rows
    assert [row[0] for row in rows] == list(range(7))
    with pytest.raises(UserError):
        query("SELECT lr FROM outcomes", runs[1])


@pytest.fixture(scope="module")
def evaluated(evaluated_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that hold all that a run may: several searches of an attack, certificates, draws, queries, typical draws."""
    folder = tmp_path_factory.mktemp("evaluated")
    digits = ra.load_model("builtin:digits-linf")
    inputs = torch.tensor(np.random.default_rng(0).uniform(0.3, 0.7, (12, 6)))
    drawn = ra.Classifier(Smoothed(), draws=16)
    asked = ra.from_predictions(lambda x: digits.logits(torch.tensor(x)).softmax(1).detach().numpy(), queries=30)
    evaluate("grown", folder, digits, ["linf", "l2"], {"linf": [0.1, 0.2], "l2": [0.5]})
    evaluate("grown", folder, digits, "linf", {"linf": [0.1, 0.2, 0.3]}, seed=1, search="bisection")
    ra.certify(digits, ra.load_dataset("digits"), "linf", method="interval", samples=8, run=folder / "grown")
    evaluate("not nested", folder, digits, "corruption-contrast", {})
    evaluate("asked", folder, asked, "square-linf", {"square-linf": [0.1, 0.3]})
    evaluate("drawn", folder, drawn, "linf", {"linf": [0.1, 0.2]}, data=(inputs, (inputs[:, 0] < 0.5).long()))
    return {path.name: path for path in sorted(folder.iterdir())} | {"shared": evaluated_run}


def evaluate(name: str, folder: Path, model: Any, attacks: Any, strengths: Any, **given: Any) -> None:
    asked: dict[str, Any] = {"data": ra.load_dataset("digits"), "samples": 8, "diagnose": False, "audit": 0}
    asked |= {"run": folder / name, "progress": False, "strengths": strengths, **given}
    ra.evaluate(model, attacks=attacks, **asked)


def values_of(column: Any) -> list[Any]:
    """Numbers as SQL has them: those that are not there are NULL."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in np.asarray(column).tolist()]


def lists_of(rows: Any) -> list[Any]:
    return [values_of(row) for row in rows]


@pytest.mark.parametrize("name", ["grown", "not nested", "shared", "asked", "drawn"])
def test_what_sql_says_is_what_load_result_says(evaluated: dict[str, Path], name: str) -> None:
    path, result = evaluated[name], load_result(evaluated[name])
    assert result.identity is not None
    ((*about,),) = query("SELECT * FROM runs", path).rows
    images, missing = result.identity.data.fingerprint, max(result.missing.values(), default=0)
    created = result.identity.created
    assert about == [str(path), result.name, result.data, created, result.samples, images, missing]
    threats = {record.name: record.threat_identity for record in result.records.values()}
    assert {*query("SELECT DISTINCT attack, threat FROM outcomes", path).rows} == {*threats.items()}
    samples = {
        "index": result.index,
        "label": result.labels,
        "clean_prediction": result.clean_prediction,
        "clean_margin": result.clean_margin,
    }
    for column, expected in samples.items():
        rows = query(f'SELECT "{column}" FROM samples ORDER BY "index"', path).rows
        assert [row[0] for row in rows] == values_of(expected), column
    assert {row[0] for row in query("SELECT attack FROM attacks", path).rows} == set(result.attacks)
    for attack in result.attacks:
        outcome, of_it = result.outcome(attack), f"WHERE attack = '{attack}'"
        rows = query(f"SELECT unit, strengths, monotone, origins FROM attacks {of_it}", path).rows
        assert rows == [(outcome.unit, result.strengths(attack).tolist(), outcome.monotone, [*outcome.origins])]
        known = {
            "minimal_strength": values_of(result.minimal_strength(attack)),
            "minimal_size": values_of(result.minimal_size(attack)),
            "found_class": values_of(outcome.found_class),
            "forward": values_of(outcome.forward),
            "backward": values_of(outcome.backward),
            "strengths": [result.strengths(attack).tolist()] * result.samples,
            "broken": lists_of(~result.correct(attack)),
            "margins": lists_of(result.margins(attack)),
            "fooled": lists_of(outcome.fooled),
            "certified_size": [None] * result.samples,
            "queries": [None] * result.samples,
            "typical": [None] * result.samples,
            "drawn": [None] * result.samples,
            "mistakes": [None] * result.samples,
        }
        if attack in result.certified_sizes:
            known["certified_size"] = values_of(result.certified_size(attack))
        if outcome.queries is not None:
            known["queries"] = [[None if n < 0 else n for n in row] for row in outcome.queries.tolist()]
        if outcome.typical is not None:
            known["typical"] = lists_of(outcome.typical)
        if outcome.drawn is not None and outcome.mistakes is not None:
            known["drawn"] = [n or None for n in outcome.drawn.tolist()]
            known["mistakes"] = [
                m if n else None for m, n in zip(outcome.mistakes.tolist(), outcome.drawn.tolist(), strict=True)
            ]
        everything = query(f'SELECT * FROM outcomes {of_it} ORDER BY "index"', path)
        assert set(everything.columns) == {"run", "attack", "index", "threat", *known}
        for column, expected in known.items():
            found = [row[everything.columns.index(column)] for row in everything.rows]
            assert found == expected, (attack, column)
        sql = f"SELECT strength, accuracy, typical FROM accuracies {of_it} ORDER BY strength"
        typical = None if outcome.typical is None else outcome.typical_accuracies()
        for position, row in enumerate(query(sql, path).rows):
            strength = result.strengths(attack)[position]
            expected = [strength, result.accuracies().at(attack, strength)]
            assert list(row) == [*expected, None if typical is None else typical[position]]
            asked = f'SELECT broken FROM broken({strength}) {of_it} ORDER BY "index"'
            assert [each[0] for each in query(asked, path).rows] == (~result.correct(attack)[:, position]).tolist()


def test_those_runs_hold_what_they_are_to_hold(evaluated: dict[str, Path]) -> None:
    grown = load_result(evaluated["grown"])
    assert len(grown.outcome("linf").origins) == 2 and "linf" in grown.certified_sizes
    assert not load_result(evaluated["not nested"]).outcome("corruption-contrast").monotone
    assert load_result(evaluated["shared"]).outcome("rotation").typical is not None
    assert (load_result(evaluated["asked"]).outcome("square-linf").queries > 0).any()  # type: ignore[operator]
    drawn = load_result(evaluated["drawn"]).outcome("linf").drawn
    assert drawn is not None and (drawn > 0).any()


def test_there_are_these_views_and_no_others(runs: list[Path]) -> None:
    views = query("SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary ORDER BY 1", runs).rows
    assert [row[0] for row in views] == ["accuracies", "attacks", "outcomes", "runs", "samples"]


def test_attacks_say_their_strengths_and_how_they_were_searched(runs: list[Path]) -> None:
    rows = query("SELECT attack, strengths, monotone, origins FROM attacks ORDER BY attack", runs[0]).rows
    assert rows == [(attack, [0.1, 0.2, 0.4], True, ["every, seed 0"]) for attack in ("l2", "linf")]


def test_what_was_not_searched_is_null(runs: list[Path]) -> None:
    missing = query("SELECT count(*) - count(m) FROM (SELECT unnest(margins) AS m FROM outcomes)", runs[0]).rows[0][0]
    result = load_result(runs[0])
    assert missing == sum(int(np.isnan(result.margins(attack)).sum()) for attack in result.attacks) > 0


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT nothing FROM outcomes", "SELECT * FROM nowhere"])
def test_bad_sql(runs: list[Path], sql: str) -> None:
    with pytest.raises(UserError, match="SQL"):
        query(sql, runs)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


OUTSIDE = [  # SQL that names something else than the views
    "COPY outcomes TO '{run}/outcomes/more.parquet'",
    "COPY (SELECT 1) TO '{run}/run.json'",
    "COPY (SELECT 1 AS a) TO '{here}/new.csv' (HEADER)",
    "EXPORT DATABASE '{here}/exported'",
    "IMPORT DATABASE '{here}/exported'",
    "SELECT * FROM '{here}/file.csv'",
    "FROM '{here}/file.csv'",
    "SELECT * FROM read_csv('{here}/file.csv')",
    "SELECT * FROM sniff_csv('{here}/file.csv')",
    "SELECT * FROM read_text('{run}/run.json')",
    "SELECT * FROM read_blob('/etc/hostname')",
    "SELECT * FROM read_json('{run}/run.json')",
    "SELECT * FROM read_parquet('{run}/samples/*.parquet')",
    "SELECT * FROM parquet_kv_metadata('{run}/samples/*.parquet')",
    "SELECT * FROM glob('{here}/*')",
    "SELECT * FROM query_table('{here}/file.csv')",
    "SELECT * FROM 'https://example.com/file.csv'",
    "SELECT * FROM paths",
    "SELECT * FROM opened",
    "SELECT getenv('HOME')",
    "ATTACH '{here}/new.db'",
    "ATTACH '{here}/new.db' AS run (TYPE sqlite)",
    "INSTALL httpfs",
    "FORCE INSTALL 'https://example.com/x.duckdb_extension'",
    "LOAD httpfs",
    "LOAD '{here}/x.duckdb_extension'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "SET temp_directory = '{here}/spilt'",
    "SET memory_limit = '100GB'",
    "RESET memory_limit",
    "SET home_directory = '{here}'",
    "SET python_enable_replacements = true",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA profiling_output = '{here}/profile.json'",
    "SET log_query_path = '{here}/log.txt'",
    "CREATE PERSISTENT SECRET mine (TYPE http)",
    "SELECT 1; COPY outcomes TO '{here}/new.csv'",
    "SET enable_external_access = true; SELECT * FROM '{here}/file.csv'",
    "PREPARE leave AS COPY outcomes TO '{here}/new.csv'; EXECUTE leave",
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_sql_sees_the_views_and_nothing_else(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file.csv").write_text("a,b\n1,2\n")
    before = files(tmp_path) | files(runs[0]) | files(runs[1])
    with pytest.raises(UserError, match="SQL") as caught:
        query(sql.format(run=runs[1], here=tmp_path), runs)
    assert "\n" not in str(caught.value)
    assert files(tmp_path) | files(runs[0]) | files(runs[1]) == before


def test_sql_has_a_limit_of_memory_and_writes_nothing_on_its_way(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where DuckDB by itself would go on in a folder ``.tmp`` here; with the limits lifted it does."""
    monkeypatch.chdir(tmp_path)
    asked = "SELECT current_setting('temp_directory'), current_setting('memory_limit')"
    assert query(asked, runs).rows == [("", "3.7 GiB")]
    assert query(asked, runs, unrestricted=True).rows[0][0] != ""
    assert not list(tmp_path.rglob("*"))


def test_sql_returns_no_more_than_fits_a_process(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.process_time()
    with pytest.raises(UserError, match="10,000,000"):
        query("SELECT range, range, range, range FROM range(1000000000000)", runs)
    assert time.process_time() - begun < 60
    monkeypatch.setattr(closed, "MOST_VALUES", 60_000)
    assert len(query("SELECT range, 1 FROM range(30000)", runs).rows) == 30_000
    with pytest.raises(UserError, match="60,000"):
        query("SELECT range, 1 FROM range(30001)", runs)
    assert len(query("SELECT range, 1 FROM range(30001)", runs, unrestricted=True).rows) == 30_001


def test_what_is_refused_says_how_it_is_allowed(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("a,b\n1,2\n")
    sql = f"SELECT a, b FROM '{tmp_path}/file.csv'"
    with pytest.raises(UserError, match="--unrestricted"):
        query(sql, runs)
    assert query(sql, runs, unrestricted=True).rows == [(1, 2)]
    written = tmp_path / "sizes.csv"
    query(f"COPY (SELECT index FROM outcomes WHERE attack = 'l2') TO '{written}'", runs[1], unrestricted=True)
    assert len(written.read_text().splitlines()) == 8


def test_an_interrupt_of_sql_is_an_interrupt(runs: list[Path]) -> None:
    """And ends it, whichever of DuckDB's threads is at work: whole it takes half a minute."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = time.process_time()
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            query("SELECT count(*) FROM range(2000000000) a, range(1000) b WHERE hash(a.range) % 7 = b.range", runs)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.process_time() - begun < 10


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


def test_csv_holds_no_formula_and_no_escape(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Of a stranger's run whose names are made to be opened in a spreadsheet, or to be read on a terminal."""
    hostile = {
        "=HYPERLINK('a')": "'=HYPERLINK('a')",
        "+1": "'+1",
        "-1": "'-1",
        "@SUM(A1)": "'@SUM(A1)",
        "\t=1": "' =1",
        "\r=1": "' =1",
        "red\x1b[31m": "red\ufffd[31m",
        "fine, and a 'quote'": "fine, and a 'quote'",
    }
    for given, shown in hostile.items():
        text = given.replace("'", "''")
        command(f"SELECT '{text}' AS name, -1.5 AS number, -2 AS whole, NULL AS none", runs[:1], as_csv=True)
        assert list(csv.reader(io.StringIO(capsys.readouterr().out)))[1] == [shown, "-1.5", "-2", ""]
    command("SELECT 1 AS \"=1+1\", ['=1'] AS list", runs[:1], as_csv=True)
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [["'=1+1", "list"], ["1", "['=1']"]]
