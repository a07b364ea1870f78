"""How results show themselves, travel and become tables of other packages."""

import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import outcomes_examples as examples
import robustatlas as ra
from robustatlas.cli._accuracies import print_accuracies
from robustatlas.common.tabular import MOST_ROWS, Tabular
from robustatlas.metrics import AccuracyTable, RobustnessCurve
from robustatlas.outcomes import display
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.outcomes.query import Table
from robustatlas.report.numbers.number import CERTIFIED, ROBUST
from robustatlas.report.numbers.of_run import numbers_of_run
from robustatlas.report.numbers.texts import range_text, value_text

COLUMNS = ["index", "label", "clean_prediction", "attack", "minimal_strength", "minimal_size", "found_class", "forward",
           "backward"]  # fmt: skip


@pytest.fixture
def result() -> ra.Result:
    return ra.Result.from_arrays(
        labels=[0, 1, 1, 0],
        clean_prediction=[0, 1, 0, 0],
        minimal_size={"linf": [0.15, np.inf, 0.0, np.inf], "l2": [0.5, 1.5, 0.0, 0.6]},
        strengths={"linf": [0.1, 0.2], "l2": [1.0]},
        model="net [b]<b>",
        data="mine",
    )


def test_repr_is_a_few_lines(result: ra.Result) -> None:
    assert repr(result).splitlines() == [
        "net [b]<b> on 4 samples of mine (2 classes): 75.0 % clean accuracy",
        "  linf: median size never, strengths 0.1 to 0.2 (2), 0 passes a sample",
        "  l2: median size 0.6, strengths 1, 0 passes a sample",
    ]


def test_many_attacks_are_counted() -> None:
    sizes = {f"a{number}": [0.1] for number in range(40)}
    many = ra.Result.from_arrays([0], [0], sizes, {name: [0.1] for name in sizes})
    assert repr(many).endswith("and 28 more attacks")
    assert len(repr(many).splitlines()) == 14


def test_displays_show_names_as_they_are(result: ra.Result) -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(result)
    assert "net [b]<b>" in console.export_text()
    assert "net [b]&lt;b&gt;" in result._repr_html_()


def test_a_notebook_shows_the_rows_of_the_table_of_numbers() -> None:
    """Each accuracy with its interval, what is certified, and the curves as a picture."""
    sizes, grids = {"linf": [0.08, 0.0, 0.15, np.inf], "l2": [0.5, 0.0, np.inf, 1.0]}, {"linf": [0.1, 0.2], "l2": [1]}
    shown = ra.Result.from_arrays([0] * 4, [0, 1, 0, 0], sizes, grids, model="net")
    held = CertifiedSizes("linf", np.array([0.05, 0.0, 0.12, 0.12]), ("by hand",), strengths=(0.1, 0.2))
    shown = replace(shown, certified_sizes={"linf": held})
    page = shown._repr_html_()
    rows = numbers_of_run(shown, {}).select(ROBUST) + numbers_of_run(shown, {}).select(CERTIFIED)
    assert len(rows) == 5
    for row in rows:
        assert f">{value_text(row)}<br>" in page and range_text(row) in page
    assert page.count("data:image/png;base64,") == 1 and "certified by by hand" in page


def test_one_long_table(result: ra.Result) -> None:
    columns = display.columns_of(result)
    assert sorted(columns) == sorted(COLUMNS)
    assert columns["attack"].tolist() == ["linf"] * 4 + ["l2"] * 4
    np.testing.assert_array_equal(columns["minimal_strength"], [0.2, np.inf, 0, np.inf, 1.0, np.inf, 0, 1.0])


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_frames(result: ra.Result, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = {"pandas": result.to_pandas, "polars": result.to_polars, "pyarrow": result.to_arrow}[package]
    with monkeypatch.context() as context:
        context.setitem(sys.modules, package, None)
        with pytest.raises(ra.UserError, match=f"needs the package {package}"):
            make()
    pytest.importorskip(package)
    assert make().shape == (8, len(COLUMNS))


def test_a_curve_shows_where_shares_of_the_samples_break() -> None:
    curve = RobustnessCurve(np.concatenate([np.zeros(5), np.arange(1, 86) / 100, np.full(10, np.inf)]), "linf")
    assert repr(curve).splitlines() == [
        "linf on 100 samples: half break at 0.45",
        "  size  robust error, %  95 % interval",
        "     0              5.0    1.6 to 11.3",
        "  0.05             10.0    4.9 to 17.6",
        "   0.2             25.0   16.9 to 34.7",
        "  0.45             50.0   39.8 to 60.2",
        "   0.7             75.0   65.3 to 83.1",
        "  0.85             90.0   82.4 to 95.1",
    ]
    assert repr(RobustnessCurve([0.1, np.inf, np.inf])).splitlines() == [
        "Robustness curve on 3 samples: half never break",
        "  size  robust error, %  95 % interval",
        "     0              0.0    0.0 to 70.8",
        "   0.1             33.3    0.8 to 90.6",
    ]


def test_an_accuracy_table_shows_a_line_for_each_attack() -> None:
    table = AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}, "l2": {0.5: 70.0}})
    assert repr(table).splitlines() == [
        "90.0 % clean accuracy",
        "  attack  strengths         accuracy, %   mean",
        "  linf    0.01 to 0.02 (2)  80.0 to 60.0  70.0",
        "  l2      0.5               70.0          70.0",
    ]
    assert repr(AccuracyTable(float("nan"), {})).startswith("no clean accuracy")


MARKUP = "[b]<b>"
TABULAR = [
    (RobustnessCurve([0.0, 0.1, np.inf], MARKUP), {"size": [0.0, 0.1], "robust_error": [100 / 3, 200 / 3]}),
    (AccuracyTable(90.0, {MARKUP: {0.1: 50.0}}), {"attack": ["clean", MARKUP], "accuracy": [90.0, 50.0]}),
    (Table(("run", "n"), [(MARKUP, 1.5), ("b", None), ("c", [1])]), {"run": [MARKUP, "b", "c"], "n": [1.5, None, [1]]}),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "columns"), TABULAR, ids=lambda value: type(value).__name__)
def test_every_table_has_displays_and_frames(shown: Tabular, columns: dict[str, list[object]]) -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(shown)
    assert MARKUP in console.export_text() and MARKUP in repr(shown)
    assert "[b]&lt;b&gt;" in shown._repr_html_() and MARKUP not in shown._repr_html_()
    for name, values in columns.items():
        found = shown._columns()[name]
        assert found.tolist() == (pytest.approx(values) if found.dtype == float else values)
    pandas = pytest.importorskip("pandas")
    assert isinstance(shown.to_pandas(), pandas.DataFrame) and len(shown.to_pandas()) == len(
        next(iter(columns.values()))
    )


def test_long_tables_say_how_much_they_leave_out() -> None:
    table = Table(("n",), [(n,) for n in range(MOST_ROWS + 7)])
    assert repr(table).splitlines()[-1].strip() == "and 7 more rows"
    assert len(repr(table).splitlines()) == 1 + MOST_ROWS + 1
    assert repr(Table(("n",), [])).strip() == "n"


def test_results_are_picklable(tmp_path: Path, result: ra.Result) -> None:
    examples.fill(examples.begin(tmp_path / "run"))
    for one in (result, ra.load_result(tmp_path / "run")):
        again = pickle.loads(pickle.dumps(one))
        assert repr(again) == repr(one)
        np.testing.assert_array_equal(again.minimal_size("linf"), one.minimal_size("linf"))
        assert again.complete == one.complete


def test_one_table_has_the_worst_case_and_the_mean_of_what_is_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """Over attacks at the same strengths of one unit; never over numbers that only look alike."""
    sizes = {"corruption-fog": [1, 3, 9, 9], "corruption-frost": [3, 1, 3, 9], "l2": [3, 3, 3, 3]}
    result = ra.Result.from_arrays(np.zeros(4), np.zeros(4), sizes, {name: [1, 2, 3] for name in sizes})
    print_accuracies(result, Console(width=100, highlight=False))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    fog = rows.index(["corruption-fog", "75.0", "75.0", "50.0", "66.7"])
    assert rows[fog - 1] == ["strength", "1", "2", "3", "mean"]
    both = rows.index(["worst", "case", "50.0", "50.0", "25.0", "41.7"])
    assert ["mean", "75.0", "75.0", "37.5", "62.5"] in rows and both > fog
    assert ["l2", "100.0", "100.0", "0.0", "66.7"] in rows and sum(row[:2] == ["worst", "case"] for row in rows) == 1


def test_the_headline_comes_first_and_is_the_one_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    result = ra.Result.from_arrays(np.zeros(4), np.zeros(4), {"linf": [0.01, 0.02, 0.05, 0.2]}, {"linf": [0.01, 0.04]})
    for asked, leads in (({"linf": 0.04}, "50.0%"), ({"linf": 0.01}, "75.0%")):
        print_accuracies(result, Console(width=200, highlight=False), first=asked)
        said = capsys.readouterr().out.splitlines()[1]
        assert said.startswith(leads) and said.endswith("(as asked).")
