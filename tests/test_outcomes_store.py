import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pydantic import ValidationError

import outcomes_examples as examples
from outcomes_examples import assert_same, key, part_of
from robustatlas.common.errors import UserError
from robustatlas.outcomes import AttackRecord, Run, merge
from robustatlas.outcomes.base import deciding_fields, parse
from robustatlas.outcomes.certified import CertificateRecord
from robustatlas.outcomes.records import GradientRecord
from robustatlas.outcomes.tables import OUTCOME_COLUMNS, SAMPLE_COLUMNS, read_abouts, read_parquet, write_parquet
from robustatlas.results.result import load_result


def test_disk_gives_back_what_memory_holds(tmp_path: Path) -> None:
    memory = examples.fill(examples.begin(None)).table()
    examples.fill(examples.begin(tmp_path / "run"))
    disk = load_result(tmp_path / "run")
    assert_same(memory, disk)
    assert disk.complete
    assert disk.path == tmp_path / "run"
    assert disk.outcome("linf").margins.dtype == np.float32
    assert disk.outcome("linf").fooled.dtype == np.int8


@pytest.mark.parametrize("folder", ["lr=0.1/seed=3", "[a-z]*", 'it\'s "quoted"', "index=7"])
def test_a_folder_s_name_says_nothing_about_its_content(tmp_path: Path, folder: str) -> None:
    whole = examples.fill(examples.begin(None)).table()
    examples.fill(examples.begin(tmp_path / folder), examples.PARTS[:2])
    resumed = examples.fill(examples.begin(tmp_path / folder), examples.PARTS[2:])
    assert_same(resumed.table(), whole)
    assert_same(load_result(tmp_path / folder), whole)


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parquet_round_trip(tmp_path: Path, data: st.DataObject) -> None:
    rows, width = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 25))
    types = {
        "a b'\"c": (np.float64, (rows,)),
        "f": (np.float32, (rows,)),
        "i": (np.int64, (rows,)),
        "lists": (np.float32, (rows, width)),
        "small": (np.int8, (rows, width)),
    }
    columns = {name: data.draw(arrays.arrays(kind, shape)) for name, (kind, shape) in types.items()}
    about = {"it's": 'a "host"', "torch": "2.13"}
    write_parquet(tmp_path / "it's a table.parquet", columns, about)
    back = read_parquet(tmp_path / "it's a table.parquet")
    assert read_abouts([tmp_path / "it's a table.parquet"])[tmp_path / "it's a table.parquet"] == about
    assert list(back) == list(columns)
    for name, values in columns.items():
        assert back[name].dtype == values.dtype
        np.testing.assert_array_equal(back[name], values)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = examples.fill(examples.begin(None)).table()
    first = examples.fill(examples.begin(tmp_path), examples.PARTS[:1])
    assert first.stored_samples(examples.record()).tolist() == [0, 1, 2]
    second = examples.begin(tmp_path)
    assert second.stored_samples(examples.record()).tolist() == [0, 1, 2]
    assert_same(examples.fill(second, examples.PARTS[1:]).table(), whole)


def test_parts_may_come_twice_and_in_any_order(tmp_path: Path) -> None:
    whole = examples.fill(examples.begin(None)).table()
    run = examples.fill(examples.begin(tmp_path), examples.PARTS[::-1])
    assert_same(examples.fill(run, examples.PARTS[:2]).table(), whole)


def test_an_unfinished_run_says_what_is_missing(tmp_path: Path) -> None:
    run = examples.begin(tmp_path)
    examples.fill(run, examples.PARTS[:2], ("linf",))
    examples.fill(run, examples.PARTS[:1], ("l2",))
    result = load_result(tmp_path)
    assert not result.complete
    assert dict(result.missing) == {"linf": 1, "l2": 4}
    np.testing.assert_array_equal(result.index, [0, 1, 2])
    np.testing.assert_array_equal(load_result(tmp_path, ["linf"]).index, range(6))


def test_an_attack_that_has_not_begun_is_left_out(tmp_path: Path) -> None:
    examples.fill(examples.begin(tmp_path), names=("linf",))
    result = load_result(tmp_path)
    assert result.attacks == ("linf",)
    assert dict(result.missing) == {"l2": 7}
    with pytest.raises(UserError, match="no finished samples of l2 yet"):
        load_result(tmp_path, ["l2"])
    with pytest.raises(UserError, match=r"'l7'.*linf, l2"):
        load_result(tmp_path, ["l7"])


def test_a_run_without_any_part(tmp_path: Path) -> None:
    examples.begin(tmp_path)
    with pytest.raises(UserError, match="no finished samples yet"):
        load_result(tmp_path)


def test_attacks_samples_and_strengths_are_added(tmp_path: Path) -> None:
    run = examples.fill(examples.begin(tmp_path, ("linf",)), names=("linf",))
    more = examples.record("linf", strengths=(0.15, 0.3))
    run.add([more], examples.plan([more]))
    run.write(more, examples.outcomes(range(7), 5, (0.15, 0.3)), examples.samples(range(7)))
    result, alone = load_result(tmp_path), examples.fill(examples.begin(None, ("linf",)), names=("linf",)).table()
    assert result.strengths("linf").tolist() == [0.1, 0.15, 0.2, 0.3, 0.4]
    found = [alone.minimal_size("linf"), examples.outcomes(range(7), 5, (0.15, 0.3))["minimal_size"]]
    np.testing.assert_array_equal(result.minimal_size("linf"), np.minimum(*found))
    assert result.outcome("linf").origins == ("every, seed 0",)
    whole = examples.outcomes(range(7), 5, (0.15, 0.3))
    np.testing.assert_array_equal(
        result.outcome("linf").forward, alone.outcome("linf").forward + whole["forward"], "passes add up"
    )


def test_samples_searched_at_only_some_strengths_are_not_finished(tmp_path: Path) -> None:
    run = examples.fill(examples.begin(tmp_path, ("linf",)), names=("linf",))
    more = examples.record("linf", strengths=(0.15,))
    run.add([more], examples.plan([more], np.arange(2)))
    run.write(more, examples.outcomes(range(2), 5, (0.15,)), examples.samples(range(2)))
    assert run.table().index.tolist() == [0, 1]
    assert run.table(["linf"], strengths={"linf": examples.STRENGTHS}).index.tolist() == list(range(7))


def test_other_sets_under_the_same_name_are_refused(tmp_path: Path) -> None:
    run = examples.begin(tmp_path)
    other = examples.record(threat={"kind": "HistoricalLinf"})
    with pytest.raises(
        UserError, match=r"holds 'linf' with another threat model.*threat.kind: Linf in the run, HistoricalLinf"
    ):
        run.add([other], examples.plan([other]))
    judged = examples.record(monotone=False)
    with pytest.raises(UserError, match="monotone: True"):
        run.add([judged], examples.plan([judged]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights_sha256": "123456"}, "its weights are others"),
        ({"code_sha256": "123456"}, "the code that makes it has changed"),
        ({"probe": ((1.0, 2.0), (3.0, -4.1))}, "its logits on the probe's images are off by 0.1"),
        ({"probe": ((1.0, 2.0, 0.0), (3.0, -4.0, 0.0))}, "of another shape"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    examples.begin(tmp_path)
    with pytest.raises(UserError, match=said):
        examples.begin(tmp_path, **changes)


def test_another_machine_s_rounding_and_another_name_are_the_same_model(tmp_path: Path) -> None:
    examples.begin(tmp_path)
    examples.begin(tmp_path, probe=((1.0, 2.0), (3.0, -4.0 + 3e-3)), name="the same")


def test_citations_and_units_may_change(tmp_path: Path) -> None:
    examples.fill(examples.begin(tmp_path))
    cited = examples.record(source="A better citation, 2026", unit="pixels", note="!")
    assert cited.key == key()
    run = Run.open(tmp_path)
    run.add([cited], examples.plan([cited]))
    assert len(run.stored_samples(cited)) == 7


@given(st.dictionaries(st.text(), st.floats() | st.integers() | st.text() | st.none() | st.lists(st.floats())))
def test_records_survive_json(protocol: dict[str, object]) -> None:
    record = examples.record(strengths=(0.1, 1 / 3), protocol=protocol)
    assert parse(AttackRecord, record.to_json(), "file").key == record.key
    changed = record.model_copy(update={"strengths": (0.2,)})
    assert changed.key == AttackRecord.model_validate_json(changed.to_json()).key != record.key


RECORD = AttackRecord(
    name="linf",
    strengths=(0.1, 0.2),
    threat={"kind": "Linf", "box": [0, float("inf")]},
    protocol={"search": "descent", "seed": 3},
)
GRADIENT = GradientRecord(at=(0, 4), ways={"own": ((1.0, 0.25), ())}, within=0.05, kinks=(0.5,), without=0.25)
CERTIFICATE = CertificateRecord(
    name="linf", method="crown", version=2, settings={"iterations": 3}, threat={"kind": "Linf"}, box=False
)


@pytest.mark.parametrize(
    ("record", "changes", "fingerprint"),
    [
        (RECORD, {}, "585907e9b499"),
        (RECORD, {"gradient": GRADIENT}, "c62e2a702f6d"),
        (RECORD, {"gradient": GRADIENT, "monotone": False}, "66d7663aded5"),
        (CERTIFICATE, {}, "520655c794dc"),
    ],
)
def test_fingerprints_of_stored_runs_stay_what_they_are(
    record: AttackRecord | CertificateRecord, changes: dict[str, object], fingerprint: str
) -> None:
    assert record.model_copy(update=changes).fingerprint == fingerprint


@pytest.mark.parametrize(
    ("record", "described"),
    [
        (RECORD, {"unit": "u", "source": "s", "note": "n", "calibrated": "c", "effort": "high", "runs": ("one",)}),
        (RECORD, {"counterpart": "pgd", "largest": 1.0}),
        (CERTIFICATE, {"of": "smoothed", "strengths": (0.1,), "unit": "u", "source": "s"}),
    ],
)
def test_descriptions_leave_the_fingerprint_as_it_is(
    record: AttackRecord | CertificateRecord, described: dict[str, object]
) -> None:
    assert record.model_copy(update=described).fingerprint == record.fingerprint


def test_a_field_without_a_role_is_refused() -> None:
    class Extended(AttackRecord):
        moment: float = 0.9

    with pytest.raises(TypeError, match="moment"):
        deciding_fields(Extended)


def test_a_copy_of_a_record_is_checked() -> None:
    with pytest.raises(ValidationError, match="increasing order"):
        RECORD.model_copy(update={"strengths": (0.2, 0.1)})


def test_a_newer_run_is_not_begun_again(tmp_path: Path) -> None:
    examples.begin(tmp_path)
    newer = json.loads((tmp_path / "run.json").read_text()) | {"format_version": 2}
    (tmp_path / "run.json").write_text(json.dumps(newer))
    with pytest.raises(UserError, match="format 2"):
        examples.begin(tmp_path)


def test_a_run_is_not_begun_in_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="not empty and is not a run"):
        examples.begin(tmp_path)


def test_merging_joins_the_files(tmp_path: Path) -> None:
    whole = examples.fill(examples.begin(None)).table()
    examples.fill(examples.begin(tmp_path / "a"), examples.PARTS[:2])
    examples.fill(examples.begin(tmp_path / "b"), examples.PARTS[1:])
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert_same(merged.table(), whole)
    assert merge([tmp_path / "a"], tmp_path / "both").missing_counts() == {}
    examples.begin(tmp_path / "other", weights_sha256="123456")
    with pytest.raises(UserError, match="its weights are others"):
        merge([tmp_path / "other"], tmp_path / "both")


def test_the_smallest_of_two_seeds_counts(tmp_path: Path) -> None:
    found = []
    for seed in (3, 4):
        run = Run.begin(tmp_path / str(seed), examples.identity())
        record = examples.record(protocol={"search": "descent", "seed": seed})
        run.add([record], examples.plan([record]))
        columns = examples.outcomes(range(7), seed)
        run.write(record, columns, examples.samples(range(7)), (np.arange(7), np.full((7, 1, 2, 2), seed / 10)))
        found.append(columns["minimal_size"])
    merge([tmp_path / "3", tmp_path / "4"], tmp_path / "both")
    result = load_result(tmp_path / "both")
    np.testing.assert_array_equal(result.minimal_size("linf"), np.minimum(*found))
    assert result.outcome("linf").origins == ("descent, seed 3", "descent, seed 4")
    index, images = result.adversarial("linf")
    differ = (found[1] != found[0])[index]
    expected = np.where(found[1] < found[0], 0.4, 0.3)[index]
    np.testing.assert_allclose(images[differ, 0, 0, 0], expected[differ])
    assert differ.sum() > 3


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_adversarial_examples(tmp_path: Path, where: str) -> None:
    run = examples.begin(tmp_path if where == "disk" else None)
    for positions in examples.PARTS:
        kept = np.array([i for i in positions if i not in (0, 6)], np.int64)
        images = np.broadcast_to(kept[:, None, None, None] / 10, (len(kept), 1, 2, 2)).astype(np.float32)
        columns = examples.outcomes(positions)
        columns["minimal_size"] = np.where(np.isinf(columns["minimal_size"]), 0.4, columns["minimal_size"])
        for name in ("linf", "l2"):
            run.write(examples.record(name), columns, examples.samples(positions), (kept, images))
    index, images = run.adversarial("l2", np.arange(7))
    np.testing.assert_array_equal(index, [1, 2, 3, 4, 5])
    assert images.dtype == np.float32
    np.testing.assert_array_equal(images[:, 0, 0, 0], index.astype(np.float32) / np.float32(10))
    if where == "disk":
        file = part_of(tmp_path, f"adversarial/{key('l2')}", 0)
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(UserError, match=rf"{file.name} cannot be read"):
            load_result(tmp_path).adversarial("l2")
        file.unlink()
        assert Run.open(tmp_path).stored_samples(examples.record("l2"), examples=True).tolist() == [3, 4, 5, 6]
        assert "allow_pickle" not in np.load(part_of(tmp_path, f"adversarial/{key('l2')}", 3))


def test_examples_that_were_not_kept() -> None:
    with pytest.raises(UserError, match="keep_adversarial=True"):
        examples.fill(examples.begin(None)).adversarial("linf", np.arange(7))


def test_columns_that_do_not_fit() -> None:
    run, record = examples.begin(None), examples.record()
    columns, samples = examples.outcomes(examples.PARTS[0]), examples.samples(examples.PARTS[0])
    with pytest.raises(UserError, match="must have the columns index"):
        run.write(record, {"index": columns["index"]}, samples)
    with pytest.raises(UserError, match=r"forward .*\(3,\).*\(2,\)"):
        run.write(record, columns | {"forward": np.zeros(2, np.int64)}, samples)
    with pytest.raises(UserError, match=r"forward .*int64.*float64"):
        run.write(record, columns | {"forward": np.zeros(3)}, samples)


def test_the_columns_on_disk_are_the_documented_ones(tmp_path: Path) -> None:
    run = examples.fill(examples.begin(tmp_path))
    assert list(read_parquet(part_of(tmp_path, f"outcomes/{key()}", 0))) == list(OUTCOME_COLUMNS)
    assert list(read_parquet(part_of(tmp_path, "samples", 0))) == list(SAMPLE_COLUMNS)
    assert run.circumstances() == [{"host": "here"}]


def test_metadata_of_other_programs_are_counted(tmp_path: Path) -> None:
    """Parts that pyarrow and pandas rewrote hold schemas of kilobytes, and may hold what is not a text."""
    run = examples.fill(examples.begin(tmp_path))
    for part in sorted((tmp_path / "outcomes").rglob("*.parquet")):
        table = pyarrow.parquet.read_table(part, use_threads=False)
        more = {**table.schema.metadata, b"pandas": b"{" * 9000, b"made by": b"\xff\xfe"}
        pyarrow.parquet.write_table(table.replace_schema_metadata(more), part)
    again = Run.open(tmp_path)
    assert again.circumstances() == [{"host": "here", "other metadata": "3 not shown"}]  # with ARROW:schema
    index = np.arange(7)
    np.testing.assert_array_equal(
        again.table(index=index).minimal_size("l2"), run.table(index=index).minimal_size("l2")
    )
