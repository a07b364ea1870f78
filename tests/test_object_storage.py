"""Runs in an object store: the numbers of a run in a folder, whatever the store does meanwhile."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

import robustatlas as ra
from command_line import entered
from helpers_core import brief
from robustatlas.attacks.catalogue import attack_named
from robustatlas.common.files import Address, parse_path
from robustatlas.outcomes import Run, merge, query
from robustatlas.outcomes.storage import Storage

AT = "memory://bucket/run"


class Killed(BaseException):
    """The process dies."""


class Store:
    """The memory file system of fsspec, which fails as it is told."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.fault: Callable[[str, str], None] = lambda kind, path: None
        for kind in ("pipe_file", "cat_file", "ls"):
            patch.setattr(MemoryFileSystem, kind, self._watched(kind, getattr(MemoryFileSystem, kind)))

    def _watched(self, kind: str, usual: Any) -> Any:
        def watched(system: Any, path: str, *args: Any, **kwargs: Any) -> Any:
            self.asked.append(f"{kind} {path}")
            self.fault(kind, path)
            return usual(system, path, *args, **kwargs)

        return watched

    def names(self) -> list[str]:
        return sorted(name.removeprefix("/bucket/run/") for name in MemoryFileSystem.store)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    MemoryFileSystem.store.clear()
    yield Store(monkeypatch)
    MemoryFileSystem.store.clear()


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(12, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return x, net()(x).argmax(1)


def evaluated(run: str | Path | None, count: int = 12, **more: Any) -> ra.Result:
    attack = brief(attack_named("linf"), [0.1, 0.3])
    return ra.evaluate(
        net(), data(), [attack], samples=count, run=run, shard_size=3, diagnose=False, audit=0, progress=False, **more
    )


def assert_same(found: ra.Result, wanted: ra.Result) -> None:
    assert np.array_equal(found.index, wanted.index)
    assert np.array_equal(found.minimal_size("linf"), wanted.minimal_size("linf"))
    assert np.array_equal(found.outcome("linf").fooled, wanted.outcome("linf").fooled)


def test_an_address_is_a_path_that_keeps_its_slashes() -> None:
    assert str(parse_path(Path("s3://bucket/run"))) == "s3://bucket/run"
    assert str(parse_path("gs://bucket/run") / "audit") == "gs://bucket/run/audit"
    assert type(parse_path("s3/bucket")) is not Address
    assert type(parse_path("http://host/predict")) is not Address


def test_a_run_grows_in_a_store(store: Store, tmp_path: Path) -> None:
    evaluated(AT, 6)
    whole = evaluated(AT)
    assert str(whole.path) == AT
    assert_same(whole, evaluated(tmp_path / "local"))
    assert_same(ra.load_result(AT), whole)
    held = [name for name in store.names() if not name.startswith("plans/")]
    evaluated(AT)
    assert [name for name in store.names() if not name.startswith("plans/")] == held
    table = query("SELECT run, count(*) FROM outcomes GROUP BY run", [AT])
    assert table.rows == [(AT, 12)]


def test_every_command_takes_an_address(store: Store, tmp_path: Path) -> None:
    evaluated(AT, 6)
    evaluated("memory://bucket/other", 6)
    for arguments in (
        ["show", AT],
        ["compare", AT, "memory://bucket/other"],
        ["report", AT, "-o", str(tmp_path / "report.html")],
        ["leaderboard", "build", AT, "--reference", "none", "-o", str(tmp_path / "board")],
        ["query", "SELECT * FROM runs", AT],
        ["merge", AT, "memory://bucket/other", "-o", "memory://bucket/both"],
    ):
        said = entered(*arguments)
    assert "memory://bucket/both" in said.out
    assert not Path("memory:").exists(), "an address is not a folder"


def test_examples_of_others_enter_a_run_in_a_store(store: Store) -> None:
    before = evaluated(AT, 6)
    x, _ = data()
    images = np.where(np.arange(4) % 2, x[:6].numpy(), 1.0).astype(np.float32)
    said = ra.verify(AT, {"images": images, "index": np.arange(6)}, "a friend", model=net(), data=data())
    assert "a friend" in repr(said)
    after = ra.load_result(AT)
    assert (after.minimal_size("linf") <= before.minimal_size("linf")).all()


def test_examples_are_kept_beside_their_parts(store: Store) -> None:
    here = evaluated(AT, 6, keep_adversarial=True)
    there = ra.load_result(AT)
    assert np.array_equal(here.adversarial("linf")[1], there.adversarial("linf")[1])
    assert [name.split("/")[0] for name in store.names() if name.endswith(".npz")] == ["adversarial"] * 2


def test_a_store_that_fails_stops_with_one_sentence_and_loses_nothing_written(store: Store) -> None:
    written = []

    def fault(kind: str, path: str) -> None:
        if "outcomes" in path and kind == "pipe_file":
            written.append(path)
            if len(written) == 3:
                raise OSError("500")

    store.fault = fault
    with pytest.raises(ra.UserError, match=r"memory://bucket/run.*500"):
        evaluated(AT)
    parts = [name for name in store.names() if name.startswith("outcomes/")]
    assert len(parts) == 2
    store.fault = lambda kind, path: None
    assert_same(evaluated(AT), evaluated(None))
    assert set(parts) < set(store.names())


def test_a_part_that_cannot_be_read_is_not_taken_for_damaged(store: Store) -> None:
    evaluated(AT)

    def fault(kind: str, path: str) -> None:
        if "outcomes" in path and kind == "ls":
            raise OSError("503")

    store.fault = fault
    with pytest.raises(ra.UserError, match="does not answer"):
        evaluated(AT)


@pytest.mark.parametrize("seed", range(5))
def test_kills_and_faults_drawn_by_a_seed_end_with_the_numbers_of_one_process(seed: int, store: Store) -> None:
    """At each request the store may fail or the process die; the same command goes on."""
    random = np.random.default_rng(seed)
    troubles = 8

    def fault(kind: str, path: str) -> None:
        nonlocal troubles
        if troubles and random.random() < 0.15:
            troubles -= 1
            raise Killed if random.random() < 0.5 else OSError("500")

    store.fault = fault
    for _ in range(9):
        try:
            found = evaluated(AT)
            break
        except (Killed, ra.UserError):
            continue
    assert_same(found, evaluated(None))
    assert_same(ra.load_result(AT), found)


def test_two_machines_fill_one_run(store: Store, tmp_path: Path) -> None:
    evaluated(AT, part="0/2")
    both = evaluated(AT, part="1/2")
    assert_same(ra.load_result(AT), evaluated(None))
    assert both.samples == 6
    evaluated("memory://bucket/other")
    assert_same(ra.load_result(merge([AT, "memory://bucket/other"], "memory://bucket/all").path or ""), evaluated(None))
    assert ra.load_result(merge([AT], tmp_path / "local").path or "").complete


def test_of_two_that_begin_at_once_the_second_reads_what_the_first_wrote(store: Store) -> None:
    def fault(kind: str, path: str) -> None:
        if kind == "pipe_file" and path.endswith("run.json"):  # another writer is quicker
            store.fault = lambda kind, path: None
            fsspec.filesystem("memory").pipe_file(f"{AT}/run.json", b"theirs")

    store.fault = fault
    assert Storage(Address(AT)).begin("ours") == "theirs"


def test_a_store_without_conditional_writes_is_written_all_the_same(store: Store) -> None:
    def fault(kind: str, path: str) -> None:
        store.fault = lambda kind, path: None
        raise NotImplementedError("A header you provided implies functionality that is not implemented.")

    at = Storage(Address(AT))
    store.fault = lambda kind, path: fault(kind, path) if kind == "pipe_file" else None
    assert at.begin("ours") == at.begin("others") == "ours"


def test_two_machines_begin_a_run_at_once(store: Store) -> None:
    def fault(kind: str, path: str) -> None:
        if kind == "ls":  # another machine begins, and is through
            store.fault = lambda kind, path: None
            evaluated(AT, 6)

    store.fault = fault
    assert_same(evaluated(AT), evaluated(None))


def test_an_address_that_holds_something_else_is_no_place_for_a_run(store: Store) -> None:
    fsspec.filesystem("memory").pipe_file(f"{AT}/notes.txt", b"mine")
    with pytest.raises(ra.UserError, match="is not empty and is not a run"):
        evaluated(AT)


def test_wrong_credentials_and_missing_buckets_are_one_sentence(store: Store) -> None:
    def fault(kind: str, path: str) -> None:
        raise PermissionError("The AWS Access Key Id you provided does not exist in our records.")

    store.fault = fault
    with pytest.raises(ra.UserError, match=r"memory://bucket/run .*credentials") as caught:
        evaluated(AT)
    assert "\n" not in str(caught.value)
    assert len(store.asked) == 1, "asking again is of no use"
    with pytest.raises(ra.UserError, match="no store that fsspec knows"):
        ra.load_result("nowhere://bucket/run")
    store.fault = lambda kind, path: None
    with pytest.raises(ra.UserError, match="memory://bucket/run"):
        ra.load_result(AT)


def test_objects_that_are_no_files_of_a_run_are_left_where_they_are(store: Store, tmp_path: Path) -> None:
    evaluated(AT, 3)
    folder = next(name for name in store.names() if name.startswith("outcomes/")).rpartition("/")[0]
    for name in (f"{folder}/../../../outside.parquet", f"{folder}/../.parquet", "notes/a.json", "attacks/a.exe"):
        MemoryFileSystem.store[f"/bucket/run/{name}"] = MemoryFileSystem.store["/bucket/run/run.json"]
    assert ra.load_result(AT).samples == 3
    assert merge([AT], tmp_path / "here").missing_counts() == {}
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".json", ".parquet"}
    assert not list(tmp_path.rglob("outside.parquet")) and not list(tmp_path.rglob("a.*"))


def test_a_run_in_memory_is_private_and_freed(store: Store) -> None:
    one, other = evaluated(None, 6), evaluated(None, 12)
    assert (one.samples, other.samples) == (6, 12)
    assert not store.names(), "nothing is in the memory that all share"

    def kept() -> int:
        gc.collect()
        return sum(
            isinstance(each, MemoryFileSystem) and type(each) is not MemoryFileSystem for each in gc.get_objects()
        )

    before = kept()
    del one
    assert kept() == before - 1


def test_what_was_taken_out_of_the_store_does_not_count(store: Store) -> None:
    evaluated(AT, 6)
    for name in list(MemoryFileSystem.store):
        if "/outcomes/" in name:
            del MemoryFileSystem.store[name]
    with pytest.raises(ra.UserError, match="no finished samples"):
        ra.load_result(AT)


def test_a_certificate_that_is_withdrawn_is_gone_from_the_store(store: Store) -> None:
    ra.certify(net(), data(), ["linf", "l2"], run=AT, shard_size=3, progress=False)
    run = Run.open(AT)
    (record,) = (each for each in run.certificates.records() if each.name == "linf")
    run.certificates.withdraw(record)
    assert not [name for name in store.names() if "linf" in name]
    assert list(ra.load_result(AT).certified_sizes) == ["l2"]
