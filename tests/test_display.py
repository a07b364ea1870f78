"""How results show themselves, travel and become tables of other packages."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import outcomes_examples as examples
import robustatlas as ra
from robustatlas import display

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
        "net [b]<b> on 4 samples of mine: 75.0 % clean accuracy",
        "  linf: median size 0.15, strengths 0.1 to 0.2 (2), 0 passes a sample",
        "  l2: median size 0.5, strengths 1, 0 passes a sample",
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


def test_results_are_picklable(tmp_path: Path, result: ra.Result) -> None:
    examples.fill(examples.begin(tmp_path / "run"))
    for one in (result, ra.load_result(tmp_path / "run")):
        again = pickle.loads(pickle.dumps(one))
        assert repr(again) == repr(one)
        np.testing.assert_array_equal(again.minimal_size("linf"), one.minimal_size("linf"))
        assert again.complete == one.complete
