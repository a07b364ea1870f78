"""What is lost on the way to the disk, and what is not."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import outcomes_examples as examples
from outcomes_examples import assert_same, key, part_of
from robustatlas.common.errors import UserError
from robustatlas.outcomes.tables import OUTCOME_COLUMNS
from robustatlas.results.result import load_result


@pytest.mark.parametrize("damage", ["truncate", "empty", "not parquet", "other columns"])
def test_a_damaged_part_counts_as_not_done(tmp_path: Path, damage: str) -> None:
    whole = examples.fill(examples.begin(tmp_path)).table()
    file = part_of(tmp_path, f"outcomes/{key()}", 3)
    content = file.read_bytes()
    if damage == "other columns":
        file.write_bytes(part_of(tmp_path, "samples", 0).read_bytes())
    else:
        file.write_bytes({"truncate": content[: len(content) // 2], "empty": b"", "not parquet": b"x" * 99}[damage])
    with pytest.warns(UserWarning, match=file.name):
        run = examples.begin(tmp_path)
        assert run.stored_samples(examples.record()).tolist() == [0, 1, 2, 6]
    with pytest.warns(UserWarning, match="counts as not done"):
        assert load_result(tmp_path).missing == {"linf": 3}
    assert_same(examples.fill(run, examples.PARTS[1:2], ("linf",)).table(), whole)


def test_some_columns_are_read_and_parts_that_come_and_go_are_noticed(tmp_path: Path) -> None:
    record = examples.record()
    whole = examples.fill(examples.begin(tmp_path))
    run, other = examples.begin(tmp_path), examples.begin(tmp_path)
    done = run.stored_samples(record)
    np.testing.assert_array_equal(done, whole.stored_samples(record))
    some = run.columns(record, done[::-1], ("minimal_size", "fooled"))
    assert list(some) == ["index", "minimal_size", "fooled"]
    wanted = whole.columns(record, done[::-1])
    assert list(wanted) == list(OUTCOME_COLUMNS)
    for name, values in some.items():
        np.testing.assert_array_equal(values, wanted[name])
        assert values.dtype == wanted[name].dtype
    part_of(tmp_path, f"outcomes/{key()}", 3).unlink()
    assert run.stored_samples(record).tolist() == other.stored_samples(record).tolist() == [0, 1, 2, 6]
    examples.fill(other, examples.PARTS[1:2], ("linf",))
    assert run.stored_samples(record).tolist() == whole.stored_samples(record).tolist()


def test_a_part_damaged_inside_counts_until_it_is_read(tmp_path: Path) -> None:
    """Positions that can be read are not proof that the rest can."""
    record = examples.record()
    whole = examples.fill(examples.begin(tmp_path)).table()
    file = part_of(tmp_path, f"outcomes/{key()}", 3)
    content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    file.write_bytes(content[: -footer - 20] + b"\xff" * 20 + content[-footer:])
    run = examples.begin(tmp_path)
    assert run.stored_samples(record).tolist() == list(range(7))
    with pytest.warns(UserWarning, match=file.name):
        assert not run.can_read_records([record])
    assert run.stored_samples(record).tolist() == [0, 1, 2, 6]
    assert run.can_read_records([record]), "what is known to be damaged is not counted"
    assert_same(examples.fill(run, examples.PARTS[1:2], ("linf",)).table(), whole)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Cannot write .*file/run"):
        examples.begin(tmp_path / "file" / "run")
    with pytest.raises(UserError, match="Cannot write /proc/robustatlas"):
        examples.begin("/proc/robustatlas")


def test_a_folder_that_becomes_read_only(tmp_path: Path) -> None:
    run = examples.fill(examples.begin(tmp_path), examples.PARTS[:1])
    (tmp_path / "outcomes" / key()).rename(tmp_path / "moved")
    (tmp_path / "outcomes" / key()).write_text("a file where the folder was")
    with pytest.raises(UserError, match="Cannot write"):
        examples.fill(run, examples.PARTS[1:2])


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: both fail in the middle of writing."""
    script = """
        import resource, signal, sys
        import outcomes_examples as examples
        from robustatlas.common.errors import UserError

        run = examples.fill(examples.begin(sys.argv[1]), examples.PARTS[:1])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
        try:
            examples.fill(run, examples.PARTS[1:2])
        except UserError as error:
            print(error)
    """
    done = run_python(script, str(tmp_path))
    assert "Cannot write" in done.stdout, done.stderr
    assert "Everything written before is kept" in done.stdout
    assert not list(tmp_path.rglob("*.tmp"))
    assert examples.begin(tmp_path).stored_samples(examples.record()).tolist() == [0, 1, 2]


def test_killed_while_writing(tmp_path: Path) -> None:
    """The process dies after the temporary file was written and before it gets its name."""
    script = """
        import os, signal, sys
        from pathlib import Path
        import outcomes_examples as examples

        run = examples.fill(examples.begin(sys.argv[1]), examples.PARTS[:1])
        Path.replace = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)
        examples.fill(run, examples.PARTS[1:2])
    """
    assert run_python(script, str(tmp_path)).returncode == -signal.SIGKILL
    leftovers = list(tmp_path.rglob("*.tmp"))
    assert len(leftovers) == 1
    run = examples.begin(tmp_path)
    assert run.stored_samples(examples.record()).tolist() == [0, 1, 2]
    assert leftovers[0].exists(), "another process may still be writing it"
    old = time.time() - 3600
    os.utime(leftovers[0], (old, old))
    examples.begin(tmp_path)
    assert not leftovers[0].exists()
    assert_same(examples.fill(run, examples.PARTS[1:]).table(), examples.fill(examples.begin(None)).table())


def test_killed_before_the_identity_was_there(tmp_path: Path) -> None:
    (tmp_path / ".run.json.123.tmp").write_text('{"format')
    examples.begin(tmp_path)


def test_of_two_starters_one_wins_and_the_other_compares(tmp_path: Path) -> None:
    script = """
        import sys, time
        import outcomes_examples as examples
        time.sleep(max(0, float(sys.argv[3]) - time.time()))
        try:
            examples.begin(sys.argv[1], weights_sha256=sys.argv[2])
            print("began")
        except Exception as error:
            print(type(error).__name__, error)
    """
    start = str(time.time() + 3)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "run"), digest * 6, start],
            stdout=subprocess.PIPE, text=True,
        )
        for digest in "ab"
    ]  # fmt: skip
    said = sorted(process.communicate(timeout=60)[0] for process in started)
    assert said[1].startswith("began")
    assert said[0].startswith("UserError") and "its weights are others" in said[0]
