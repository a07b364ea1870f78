"""Certificates in a run: written, resumed, shared out, checked against what is found, and of use to attacks."""

import json
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from robustatlas.certificates.certify import forecast, recheck
from robustatlas.common.errors import RobustnessWarning
from robustatlas.evaluation.request import Request
from robustatlas.outcomes import Run, merge
from robustatlas.outcomes.certified import CertificateRecord
from robustatlas.outcomes.query import query
from robustatlas.report.exports import EXPORTERS
from robustatlas.report.exports.evidence import evidence_of

SCHEMA = Path(__file__).parents[1] / "docs" / "schemas" / "evidence.schema.json"
COUNT = 6
COMMON = {"samples": COUNT, "progress": False}


@pytest.fixture(scope="module")
def model() -> ra.Classifier:
    return ra.load_model("builtin:digits-linf")


@pytest.fixture(scope="module")
def data() -> ra.Dataset:
    return ra.load_dataset("digits")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: ra.Classifier, data: ra.Dataset) -> Path:
    """A run with both sides of linf and the lower one of l2."""
    path = tmp_path_factory.mktemp("both") / "run"
    ra.certify(model, data, ["linf", "l2"], effort="low", run=path, **COMMON)
    ra.evaluate(model, data, "linf", effort="low", run=path, **COMMON)
    return path


def test_both_sides_stand_in_one_run(folder: Path) -> None:
    result = ra.load_result(folder)
    lower, upper = result.certified_size("linf"), result.minimal_size("linf")
    assert ((lower > 0) & (lower <= upper)).all()
    both = result.two_sided("linf")
    at = both.at(0.03)
    assert at.least <= at.most
    assert str(at) == f"at least {at.least:.1f} %, at most {at.most:.1f} % robust at 0.03"
    assert both.area >= 0
    assert both.width >= 1
    with pytest.raises(ra.UserError, match="was not evaluated with 'l2'"):
        result.two_sided("l2")
    with pytest.raises(ra.UserError, match=r"Nothing is certified of .* under 'l1'"):
        result.certified_size("l1")


def test_sizes_do_not_depend_on_batches_parts_or_what_was_there(
    folder: Path, tmp_path: Path, model: ra.Classifier, data: ra.Dataset
) -> None:
    whole = ra.load_result(folder).certified_size("linf")
    for part in ("0/2", "1/2"):
        ra.certify(model, data, "linf", effort="low", run=tmp_path / part[0], part=part, batch_size=2, **COMMON)
    joined = merge([tmp_path / "0", tmp_path / "1"], tmp_path / "both")
    assert joined.path is not None
    np.testing.assert_array_equal(ra.load_result(joined.path).certified_size("linf"), whole)


def test_the_larger_certified_size_counts(tmp_path: Path, model: ra.Classifier, data: ra.Dataset) -> None:
    first = ra.certify(model, data, "linf", method="interval", run=tmp_path / "run", **COMMON)
    second = ra.certify(model, data, "linf", method="crown", run=tmp_path / "run", **COMMON)
    again = ra.certify(model, data, "linf", method="interval", run=tmp_path / "run", **COMMON)
    assert (second.certified_size("linf") >= first.certified_size("linf")).all()
    np.testing.assert_array_equal(again.certified_size("linf"), second.certified_size("linf"))
    assert again.certified_sizes["linf"].methods == ("interval", "crown") or set(
        again.certified_sizes["linf"].methods
    ) == {"interval", "crown"}


def test_a_crossing_is_an_error_that_names_the_sample_and_both_sides(folder: Path, tmp_path: Path) -> None:
    copy = merge([folder], tmp_path / "copy")
    wrong = CertificateRecord(name="linf", method="guess", strengths=(0.1,))
    copy.certificates.add(wrong)
    index = np.arange(COUNT)
    columns = {
        "index": index,
        "certified_size": np.full(COUNT, 0.9),
        "seconds": np.zeros(COUNT),
        "abstained": np.zeros(COUNT, np.int8),
    }
    copy.certificates.write(wrong, columns, copy.clean(index))
    with pytest.raises(ra.UserError, match=r"of sample 0 an example under 'linf' .* guess.*One of the two is wrong"):
        ra.load_result(tmp_path / "copy")


@pytest.mark.parametrize(("search", "samples"), [("descent", COUNT), ("bisection", 2)])
def test_attacks_find_the_same_with_certificates_and_less_work(
    search: str, samples: int, tmp_path: Path, model: ra.Classifier, data: ra.Dataset
) -> None:
    given: dict[str, Any] = {"samples": samples, "progress": False}
    grid = {"strengths": {"linf": [0.02, 0.04, 0.06]}, "effort": "low"}
    plain = ra.evaluate(model, data, "linf", search, **grid, **given).outcome("linf")  # type: ignore[arg-type]
    ra.certify(model, data, "linf", run=tmp_path / "run", **given)
    known = ra.evaluate(model, data, "linf", search, run=tmp_path / "run", **grid, **given).outcome("linf")  # type: ignore[arg-type]
    np.testing.assert_array_equal(known.minimal_size, plain.minimal_size)
    np.testing.assert_array_equal(known.found_class, plain.found_class)
    np.testing.assert_array_equal(known.broken(), plain.broken())
    assert plain.saved is None
    assert known.saved is not None
    assert known.saved.sum() > 0
    assert (known.forward + known.backward).sum() < (plain.forward + plain.backward).sum()
    assert (known.forward + known.backward + known.saved >= plain.forward + plain.backward).all()


def test_a_forecast_writes_nothing(tmp_path: Path, model: ra.Classifier, data: ra.Dataset) -> None:
    request = Request(attacks="linf", effort="low", run=tmp_path / "run", **COMMON)
    said = forecast(model, data, request)
    assert [(each.name, each.number) for each in said.expected] == [("linf", COUNT)]
    assert said.seconds > 0
    assert not (tmp_path / "run").exists()


def test_where_bounds_would_never_end_a_forecast_says_at_most(
    monkeypatch: pytest.MonkeyPatch, model: ra.Classifier, data: ra.Dataset
) -> None:
    monkeypatch.setattr("robustatlas.certificates.certifying._LONGEST_TRIAL", 1e-9)
    monkeypatch.setattr("robustatlas.certificates.task.CertificateTask.run", lambda *given: pytest.fail("it is tried"))
    for method, attack in (("crown", "linf"), ("line", "brightness")):
        (each,) = forecast(model, data, Request(attacks=attack, progress=False), method).expected
        assert each.is_upper_bound and 0 < each.seconds < 1e4


def test_the_forecast_on_the_command_line_has_no_passes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = "certify builtin:digits-linf --data digits --attacks linf --effort low --samples 4 --dry-run"
    said = entered(*command.split(), "--run", run).out
    assert "In all about" in said and "passes" not in said
    assert not run.exists()


def test_the_command_line_shows_both_sides(folder: Path) -> None:
    command = ["certify", "builtin:digits-linf", "--data", "digits", "--samples", COUNT, "--run", folder]
    shown = entered(*command, "--attacks", "linf", "--effort", "low").out
    rows = {
        words[0]: words[1:] for words in map(str.split, shown.splitlines()) if words[:1] in (["linf"], ["certified"])
    }
    assert len(rows["linf"]) == len(rows["certified"]) > 1
    assert all(float(least) <= float(most) for least, most in zip(rows["certified"], rows["linf"], strict=True))
    assert "did you mean 'crown'?" in entered(*command, "--method", "crwn", code=1).err


def test_damaged_parts_count_as_not_done(folder: Path, tmp_path: Path, model: ra.Classifier, data: ra.Dataset) -> None:
    copy = merge([folder], tmp_path / "copy")
    (part,) = (tmp_path / "copy" / "certified").glob("linf-*/*.parquet")
    part.write_bytes(part.read_bytes()[:50])
    with pytest.warns(RobustnessWarning, match="damaged part counts as not done"):
        again = ra.certify(model, data, "linf", effort="low", run=copy.path, **COMMON)
    np.testing.assert_array_equal(again.certified_size("linf"), ra.load_result(folder).certified_size("linf"))
    assert Run.open(tmp_path / "copy").certificates.records()


def test_json_says_both_sides_with_methods_and_what_was_spared(folder: Path) -> None:
    told, result = json.loads(entered("show", folder, "--json").out)["certified"], ra.load_result(folder)
    assert set(told) == {"linf", "l2"}
    linf, both = told["linf"], result.two_sided("linf")
    np.testing.assert_array_equal(linf["sizes"], result.certified_size("linf"))
    assert linf["by"] == ["interval"] * COUNT
    (method,) = linf["methods"]
    assert (method["method"], method["version"], method["box"]) == ("interval", 1, True)
    assert linf["closed"] == both.share_closed
    assert linf["area between"] == both.area
    least = [both.at(strength).least for strength in linf["strengths"]]
    assert [cell["value"] for cell in linf["robust accuracy, at least"]] == pytest.approx(least)
    spared = result.outcome("linf").saved
    assert spared is not None and linf["passes spared, at most"] == spared.mean()
    assert told["l2"]["closed"] is None
    assert told["l2"]["passes spared, at most"] is None


def test_csv_has_a_column_of_certified_accuracies(folder: Path) -> None:
    heading, *rows = [line.split(",") for line in entered("show", folder, "--csv").out.splitlines()]
    assert heading == ["attack", "strength", "accuracy", "low", "high", "status", "certified"]
    linf, l2 = ([row for row in rows if row[0] == attack] for attack in ("linf", "l2"))
    assert all(float(row[6]) <= float(row[2]) for row in linf)
    assert all(row[2:6] == ["", "", "", ""] and 0 <= float(row[6]) <= 100 for row in l2)


def test_exports_frames_and_sql_hold_the_certified_side(folder: Path, tmp_path: Path) -> None:
    result = ra.load_result(folder)
    told = json.loads(json.dumps(evidence_of(result)))
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert {row["attack"] for row in told["outcomes"]} == {"linf"}
    assert {record["key"] for record in told["certificates"]} == {
        record.key for held in result.certified_sizes.values() for record in held.records
    }
    EXPORTERS["parquet"].write(result, tmp_path / "both.parquet")
    written = duckdb.sql(f"SELECT * FROM '{tmp_path / 'both.parquet'}'").fetchnumpy()
    frame = result.to_pandas()
    rows = query("SELECT certified_size FROM outcomes WHERE attack = 'linf' ORDER BY index", folder).rows
    assert [row[0] for row in rows] == result.certified_size("linf").tolist()
    for attack in ("linf", "l2"):
        sizes = result.certified_size(attack)
        np.testing.assert_array_equal([r["certified_size"] for r in told["certified"] if r["attack"] == attack], sizes)
        np.testing.assert_array_equal(written["certified_size"][written["attack"] == attack], sizes)
        np.testing.assert_array_equal(frame[frame.attack == attack].certified_size, sizes)
    assert written["minimal_size"].mask[written["attack"] == "l2"].all()  # NULL: the attack was not run


def test_a_run_of_certificates_alone_can_be_shown_queried_and_exported(
    tmp_path: Path, model: ra.Classifier, data: ra.Dataset
) -> None:
    result = ra.certify(model, data, "linf", method="interval", run=tmp_path / "run", **COMMON)
    assert result.attacks == ()
    assert "certified" in repr(result)
    assert len(result.to_pandas()) == COUNT
    assert evidence_of(result)["outcomes"] == []
    assert query("SELECT * FROM outcomes", tmp_path / "run").rows == []
    for flag in ("--json", "--csv", "--explain"):
        entered("show", tmp_path / "run", flag)


def test_verify_computes_certificates_again(
    folder: Path, tmp_path: Path, model: ra.Classifier, data: ra.Dataset
) -> None:
    assert f"linf, interval, version 1: all sizes of {COUNT} samples hold." in entered("verify", folder).out
    ra.certify(model, data, ["l2", "brightness"], run=tmp_path / "more", samples=2, progress=False)
    assert all(each.holds for each in recheck(tmp_path / "more", model=model, data=data, samples=1))
    copy = merge([folder], tmp_path / "copy")
    (record,) = (each for each in copy.certificates.records() if each.name == "l2")
    index = np.array([3])
    columns = {
        "index": index,
        "certified_size": np.full(1, 5.0),
        "seconds": np.zeros(1),
        "abstained": np.zeros(1, np.int8),
    }
    wrong = record.model_copy(update={"settings": record.settings | {"version": 9}})  # another run's claim
    copy.certificates.add(wrong)
    copy.certificates.write(wrong, columns, copy.clean(index))
    failed = [each for each in recheck(tmp_path / "copy", model=model, data=data) if not each.holds]
    assert [each.failed.tolist() for each in failed] == [[3]]
    told = entered("verify", tmp_path / "copy", code=1).out
    assert "1 of 1 size do not hold, the first of sample 3" in told


def test_a_run_without_certificates_has_none_to_check(tmp_path: Path, model: ra.Classifier, data: ra.Dataset) -> None:
    ra.evaluate(model, data, "brightness", run=tmp_path / "run", samples=1, progress=False)
    with pytest.raises(ra.UserError, match="holds no certificates; 'robustatlas certify' makes them"):
        recheck(tmp_path / "run", model=model, data=data)
