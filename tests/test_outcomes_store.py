from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import outcomes_examples as examples
from robustatlas.errors import UserError
from robustatlas.outcomes import AttackSettings, Manifest, Result, RunStore, load_result
from robustatlas.outcomes.result import OUTCOME_COLUMNS, SAMPLE_COLUMNS
from robustatlas.outcomes.tables import read_parquet, write_parquet


def assert_same(a: Result, b: Result) -> None:
    assert a.attacks == b.attacks
    for name in ("index", "labels", "clean_prediction", "clean_margin"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for attack in a.attacks:
        for name in OUTCOME_COLUMNS:
            if name != "index":
                np.testing.assert_array_equal(getattr(a.outcome(attack), name), getattr(b.outcome(attack), name))


def test_disk_gives_back_what_memory_holds(tmp_path: Path) -> None:
    memory = examples.fill(RunStore.create_or_resume(None, examples.manifest())).result()
    examples.fill(RunStore.create_or_resume(tmp_path / "run", examples.manifest()))
    disk = load_result(tmp_path / "run")
    assert_same(memory, disk)
    assert disk.complete
    assert disk.path == tmp_path / "run"
    assert disk.outcome("linf").margins.dtype == np.float32
    assert disk.outcome("linf").fooled.dtype == np.int8


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
    write_parquet(tmp_path / "it's a table.parquet", columns)
    back = read_parquet(tmp_path / "it's a table.parquet")
    assert list(back) == list(columns)
    for name, values in columns.items():
        assert back[name].dtype == values.dtype
        np.testing.assert_array_equal(back[name], values)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = examples.fill(RunStore.create_or_resume(None, examples.manifest())).result()
    first = examples.fill(RunStore.create_or_resume(tmp_path, examples.manifest()), range(1))
    assert first.done("linf", 0)
    assert not first.done("linf", 1)
    second = RunStore.create_or_resume(tmp_path, examples.manifest())
    assert second.done("linf", 0)
    assert second.done_samples(0)
    assert not second.done("linf", 1)
    examples.fill(second, range(1, 3))
    assert_same(second.result(), whole)


def test_the_shard_size_of_the_run_stays(tmp_path: Path) -> None:
    RunStore.create_or_resume(tmp_path, examples.manifest(shard_size=3))
    assert len(RunStore.create_or_resume(tmp_path, examples.manifest(shard_size=5)).shards) == 3


def test_an_unfinished_run_says_what_is_missing(tmp_path: Path) -> None:
    store = RunStore.create_or_resume(tmp_path, examples.manifest())
    examples.fill(store, range(2), ("linf",))
    examples.fill(store, range(1), ("linf", "l2"))
    result = load_result(tmp_path)
    assert not result.complete
    assert dict(result.missing) == {"linf": 1, "l2": 4}
    np.testing.assert_array_equal(result.index, [0, 1, 2])
    np.testing.assert_array_equal(load_result(tmp_path, ["linf"]).index, range(6))


def test_an_attack_that_has_not_begun_is_left_out(tmp_path: Path) -> None:
    examples.fill(RunStore.create_or_resume(tmp_path, examples.manifest()), attacks=("linf",))
    result = load_result(tmp_path)
    assert result.attacks == ("linf",)
    assert dict(result.missing) == {"l2": 7}
    with pytest.raises(UserError, match="no finished shard yet of l2"):
        load_result(tmp_path, ["l2"])


def test_a_run_without_any_shard(tmp_path: Path) -> None:
    RunStore.create_or_resume(tmp_path, examples.manifest())
    with pytest.raises(UserError, match="no finished shard yet"):
        load_result(tmp_path)


def test_other_settings_are_named(tmp_path: Path) -> None:
    RunStore.create_or_resume(tmp_path, examples.manifest())
    attacks = {
        "linf": AttackSettings(strengths=(0.1, 0.2), parameters={"steps": 10}),
        "l1": AttackSettings(strengths=(1.0,)),
    }
    with pytest.raises(UserError) as error:
        RunStore.create_or_resume(tmp_path, examples.manifest(seed=1, attacks=attacks))
    text = str(error.value)
    assert "seed: 0 in the run, 1 given" in text
    assert "attacks.linf.strengths: [0.1, 0.2, 0.4] in the run, [0.1, 0.2] given" in text
    assert "attacks.linf.parameters.steps: nothing in the run, 10 given" in text
    assert "attacks.l2: {strengths, unit, monotone, parameters} in the run, nothing given" in text
    assert "attacks.l1: nothing in the run" in text


def test_context_is_not_compared(tmp_path: Path) -> None:
    first = examples.manifest()
    RunStore.create_or_resume(tmp_path, first)
    other = first.model_copy(update={"context": first.context.model_copy(update={"batch_size": 3, "threads": 9})})
    RunStore.create_or_resume(tmp_path, other)


@given(st.dictionaries(st.text(), st.floats() | st.integers() | st.text() | st.none() | st.lists(st.floats())))
def test_the_manifest_survives_json(parameters: dict[str, object]) -> None:
    attacks = {"linf": AttackSettings(strengths=(0.1, 1 / 3), parameters=parameters)}
    manifest = examples.manifest(attacks=attacks)
    assert manifest.differences(Manifest.from_json(manifest.to_json())) == []


def test_a_newer_run_is_refused(tmp_path: Path) -> None:
    RunStore.create_or_resume(tmp_path, examples.manifest())
    newer = json.loads((tmp_path / "run.json").read_text()) | {"format_version": 2, "colour": "blue"}
    (tmp_path / "run.json").write_text(json.dumps(newer))
    for use in (load_result, lambda path: RunStore.create_or_resume(path, examples.manifest())):
        with pytest.raises(UserError, match=r"newer robustatlas \(run format 2.*update robustatlas"):
            use(tmp_path)


@pytest.mark.parametrize("text", ["", '{"format_version": 1, "settings"', "[1, 2]"])
def test_a_broken_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json is not readable as a run's manifest"):
        load_result(tmp_path)


def test_a_manifest_that_lacks_settings_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"format_version": 1}')
    with pytest.raises(UserError, match="settings: Field required"):
        load_result(tmp_path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        load_result(tmp_path)
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="not empty and is not a run"):
        RunStore.create_or_resume(tmp_path, examples.manifest())


@pytest.mark.parametrize("damage", ["truncate", "empty", "not parquet", "other rows"])
@pytest.mark.parametrize("table", ["outcomes/linf", "samples"])
def test_a_damaged_shard(tmp_path: Path, damage: str, table: str) -> None:
    whole = examples.fill(RunStore.create_or_resume(tmp_path, examples.manifest())).result()
    file = tmp_path / table / "shard-00001.parquet"
    content = file.read_bytes()
    if damage == "other rows":
        file.write_bytes((tmp_path / table / "shard-00002.parquet").read_bytes())
    else:
        file.write_bytes({"truncate": content[: len(content) // 2], "empty": b"", "not parquet": b"x" * 99}[damage])
    with pytest.raises(UserError, match=r"shard-00001\.parquet.*[Dd]elete it"):
        load_result(tmp_path)
    with pytest.warns(UserWarning, match=r"damaged shard is computed again.*shard-00001\.parquet"):
        store = RunStore.create_or_resume(tmp_path, examples.manifest())
    assert (store.done("linf", 1), store.done_samples(1)) == (table == "samples", table != "samples")
    assert store.done("linf", 0)
    assert_same(examples.fill(store, range(1, 2)).result(), whole)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Cannot write .*file/run: Not a directory"):
        RunStore.create_or_resume(tmp_path / "file" / "run", examples.manifest())
    with pytest.raises(UserError, match="Cannot write /proc/robustatlas"):
        RunStore.create_or_resume("/proc/robustatlas", examples.manifest())


def test_a_folder_that_becomes_read_only(tmp_path: Path) -> None:
    store = examples.fill(RunStore.create_or_resume(tmp_path, examples.manifest()), range(1))
    (tmp_path / "outcomes" / "linf").rename(tmp_path / "moved")
    (tmp_path / "outcomes" / "linf").write_text("a file where the folder was")
    with pytest.raises(UserError, match=r"Cannot write .*Everything written before is kept"):
        store.write("linf", 1, examples.outcomes(store.shards[1]))


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: both fail in the middle of writing."""
    script = """
        import resource, signal, sys
        import outcomes_examples as examples
        from robustatlas.errors import UserError
        from robustatlas.outcomes import RunStore

        store = examples.fill(RunStore.create_or_resume(sys.argv[1], examples.manifest()), range(1))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
        try:
            store.write("linf", 1, examples.outcomes(store.shards[1]))
        except UserError as error:
            print(error)
    """
    done = run_python(script, str(tmp_path))
    assert "Cannot write" in done.stdout, done.stderr
    assert "Everything written before is kept" in done.stdout
    assert not list(tmp_path.rglob("*.tmp"))
    store = RunStore.create_or_resume(tmp_path, examples.manifest())
    assert store.done("linf", 0)
    assert not store.done("linf", 1)


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def test_killed_while_writing(tmp_path: Path) -> None:
    """The process dies after the temporary file was written and before it gets its name."""
    script = """
        import os, signal, sys
        from pathlib import Path
        import outcomes_examples as examples
        from robustatlas.outcomes import RunStore

        store = examples.fill(RunStore.create_or_resume(sys.argv[1], examples.manifest()), range(1))
        Path.replace = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)
        store.write("linf", 1, examples.outcomes(store.shards[1]))
    """
    assert run_python(script, str(tmp_path)).returncode == -signal.SIGKILL
    leftovers = list(tmp_path.rglob("*.tmp"))
    assert len(leftovers) == 1
    store = RunStore.create_or_resume(tmp_path, examples.manifest())
    assert store.done("linf", 0)
    assert not store.done("linf", 1)
    assert leftovers[0].exists(), "another process may still be writing it"
    old = time.time() - 3600
    os.utime(leftovers[0], (old, old))
    RunStore.create_or_resume(tmp_path, examples.manifest())
    assert not leftovers[0].exists()
    whole = examples.fill(RunStore.create_or_resume(None, examples.manifest())).result()
    assert_same(examples.fill(store, range(1, 3)).result(), whole)


def test_killed_before_the_manifest_was_there(tmp_path: Path) -> None:
    (tmp_path / ".run.json.123.tmp").write_text('{"format')
    RunStore.create_or_resume(tmp_path, examples.manifest())


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_adversarial_examples(tmp_path: Path, where: str) -> None:
    manifest = examples.manifest(keep_adversarial=True)
    store = RunStore.create_or_resume(tmp_path if where == "disk" else None, manifest)
    for shard, positions in enumerate(store.shards):
        store.write_samples(shard, examples.samples(positions))
        found = np.array([i for i in positions if i not in (0, 6)], np.int64)
        images = np.broadcast_to(found[:, None, None, None] / 10, (len(found), 1, 2, 2))
        for attack in ("linf", "l2"):
            store.write(attack, shard, examples.outcomes(positions), (found, images))
    result = load_result(tmp_path) if where == "disk" else store.result()
    index, images = result.adversarial("l2")
    np.testing.assert_array_equal(index, [1, 2, 3, 4, 5])
    assert images.dtype == np.float32
    assert images.shape == (5, 1, 2, 2)
    np.testing.assert_array_equal(images[:, 0, 0, 0], index.astype(np.float32) / np.float32(10))


def test_adversarial_examples_lost(tmp_path: Path) -> None:
    store = RunStore.create_or_resume(tmp_path, examples.manifest(count=3, keep_adversarial=True))
    with pytest.raises(UserError, match="keeps adversarial examples, but none were given"):
        store.write("linf", 0, examples.outcomes(range(3)))
    store.write_samples(0, examples.samples(range(3)))
    store.write("linf", 0, examples.outcomes(range(3)), (np.array([0]), np.zeros((1, 4))))
    file = tmp_path / "adversarial" / "linf" / "shard-00000.npz"
    result = load_result(tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(UserError, match=r"shard-00000\.npz cannot be read"):
        result.adversarial("linf")
    file.unlink()
    assert not RunStore.create_or_resume(tmp_path, store.manifest).done("linf", 0)


def test_columns_that_do_not_fit(tmp_path: Path) -> None:
    store = RunStore.create_or_resume(None, examples.manifest())
    columns = examples.outcomes(store.shards[0])
    with pytest.raises(UserError, match="must have the columns index"):
        store.write("linf", 0, {"index": columns["index"]})
    with pytest.raises(UserError, match=r"Column forward .* must have shape \(3,\), got \(2,\)"):
        store.write("linf", 0, columns | {"forward": np.zeros(2, np.int64)})
    with pytest.raises(UserError, match=r"Column forward .* must hold int64, got float64"):
        store.write("linf", 0, columns | {"forward": np.zeros(3)})
    with pytest.raises(UserError, match="'l7' is not part of this run; it has linf, l2"):
        store.write("l7", 0, columns)


def test_the_columns_on_disk_are_the_documented_ones(tmp_path: Path) -> None:
    store = examples.fill(RunStore.create_or_resume(tmp_path, examples.manifest()))
    assert list(read_parquet(store.file("linf", 0))) == list(OUTCOME_COLUMNS)
    assert list(read_parquet(store.file(None, 0))) == list(SAMPLE_COLUMNS)
