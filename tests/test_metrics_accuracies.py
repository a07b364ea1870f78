"""The accuracy table: what it holds and what it refuses."""

import math
import pickle

import numpy as np
import pytest

from robustatlas.common.errors import UserError
from robustatlas.metrics import AccuracyTable


@pytest.fixture
def table() -> AccuracyTable:
    return AccuracyTable(90, {"linf": {0.01: 80, 0.02: 60}, "l2": {0.5: 70}})


def test_round_trips(table, tmp_path):
    table.to_json(tmp_path / "table.json")
    assert AccuracyTable.from_json(tmp_path / "table.json") == table
    assert AccuracyTable.from_dict(table.to_dict()) == table
    assert pickle.loads(pickle.dumps(table)) == table


def test_unknown_clean_accuracy_survives_json(tmp_path):
    AccuracyTable(math.nan, {"linf": {0.01: 80}}).to_json(tmp_path / "table.json")
    assert math.isnan(AccuracyTable.from_json(tmp_path / "table.json").clean)


def test_cells_cannot_be_changed(table):
    with pytest.raises(TypeError):
        table.entries["linf"][0.01] = 1.0


def test_float32_strengths_are_the_same_strengths():
    table = AccuracyTable(90, {"linf": {8 / 255: 50}})
    assert table.at("linf", float(np.float32(8 / 255))) == 50


@pytest.mark.parametrize(
    ("clean", "entries", "message"),
    [
        (90, {"linf": {0.02: 60, 0.01: 80}}, "not in increasing order"),
        (90, {"linf": {0.01: 80, 0.010000001: 80}}, "given twice"),
        (90, {"linf": {0.01: math.nan}}, "accuracy under linf at strength 0.01 is nan"),
        (90, {"linf": {0.01: 101}}, "101"),
        (-1, {"linf": {0.01: 80}}, "clean accuracy is -1"),
        (90, {"linf": {}}, "no strengths"),
        (90, {"linf": {0.0: 80}}, "positive"),
        (90, {"linf": {math.inf: 80}}, "positive numbers of at most"),
        (90, {"linf": 80}, "the row of linf of an accuracy table must be a mapping"),
        (90, [80], "the entries of an accuracy table must be a mapping"),
        (90, {"linf": {"weak": 80}}, "'weak' in linf"),
        (None, {"linf": {0.01: 80}}, "None in clean"),
    ],
)
def test_refuses_bad_cells(clean, entries, message):
    with pytest.raises(UserError, match=message):
        AccuracyTable(clean, entries)


def test_refuses_fractions_and_wrong_files(tmp_path):
    with pytest.raises(UserError, match="look like fractions"):
        AccuracyTable.from_dict({"clean": 0.9, "entries": {"linf": {"0.01": 0.8}}})
    with pytest.raises(UserError, match="the clean one looks like a fraction"):
        AccuracyTable.from_dict({"clean": 0.9, "entries": {"linf": {"0.01": 80}}})
    with pytest.raises(UserError, match=r"the row of linf .* given: list"):
        AccuracyTable.from_dict({"clean": 90, "entries": {"linf": [80]}})
    with pytest.raises(UserError, match=r"the entries .* given: list"):
        AccuracyTable.from_dict({"clean": 90, "entries": [80]})
    with pytest.raises(UserError, match="'many' in clean"):
        AccuracyTable.from_dict({"clean": "many", "entries": {}})
    with pytest.raises(UserError, match="given: accuracy"):
        AccuracyTable.from_dict({"accuracy": 3})
    with pytest.raises(UserError, match="given twice"):
        AccuracyTable.from_dict({"clean": 90, "entries": {"linf": {"0.1": 80, "0.10": 80}}})
    with pytest.raises(UserError, match="Cannot read"):
        AccuracyTable.from_json(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match="not a JSON file"):
        AccuracyTable.from_json(tmp_path / "bad.json")
    (tmp_path / "twice.json").write_text('{"clean": 90, "clean": 91, "entries": {}}')
    with pytest.raises(UserError, match="'clean' appears twice"):
        AccuracyTable.from_json(tmp_path / "twice.json")


def test_restriction_names_what_is_not_there(table):
    assert table.restrict(["l2"]).attacks == ("l2",)
    with pytest.raises(UserError, match=r"no attack 'l1'; it has linf, l2"):
        table.restrict(["l1"])
    with pytest.raises(UserError, match=r"0\.03.*0\.01, 0\.02"):
        table.restrict(strengths={"linf": [0.03]})
    with pytest.raises(UserError, match="'l2', which is not among"):
        table.restrict(["linf"], {"l2": [0.5]})
