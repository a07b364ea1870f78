"""Runs in a store of objects: the numbers of a run in a folder, whatever the store does meanwhile."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from command_line import entered
from helpers_core import brief
from robustatlas.attacks.catalogue import attack_named
from robustatlas.common.errors import RobustnessWarning
from robustatlas.common.files import Address, named
from robustatlas.outcomes import Run, merge, query
from robustatlas.outcomes.storage import bucket, objects, packing, sending
from robustatlas.outcomes.storage.objects import Objects

fsspec = pytest.importorskip("fsspec")
memory = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem

AT = "memory://bucket/run"


class Store:
    """The memory file system of fsspec, which fails as it is told."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: Counter[str] = Counter()
        self.fault: Callable[[str, str], None] = lambda kind, path: None
        for kind in ("pipe_file", "cat_file", "find"):
            patch.setattr(memory, kind, self._watched(kind, getattr(memory, kind)))

    def _watched(self, kind: str, usual: Any) -> Any:
        def watched(system: Any, path: str, *args: Any, **kwargs: Any) -> Any:
            self.asked[kind] += 1
            self.fault(kind, path)
            return usual(system, path, *args, **kwargs)

        return watched

    def names(self) -> list[str]:
        return sorted(name.removeprefix("/bucket/run/") for name in memory.store)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    machine(monkeypatch, tmp_path / "one")
    monkeypatch.setattr(objects, "PAUSES", (0.01, 0.01))
    monkeypatch.setattr(sending, "PAUSE", 0.01)
    monkeypatch.setattr(sending, "TICK", 0.02)
    monkeypatch.setattr(sending, "PATIENCE", 0.2)
    memory.store.clear()
    yield Store(monkeypatch)
    memory.store.clear()


def machine(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """From here on, work as if on another machine, which has no copies."""
    patch.setattr("robustatlas.outcomes.storage.places.cache_folder", lambda: folder)


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
    assert str(named(Path("s3://bucket/run"))) == "s3://bucket/run"
    assert str(named("gs://bucket/run") / "audit") == "gs://bucket/run/audit"
    assert type(named("s3/bucket")) is not Address
    assert type(named("http://host/predict")) is not Address


def test_a_run_grows_in_a_store_and_is_read_from_another_machine(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated(AT, 6)
    whole = evaluated(AT)
    assert str(whole.path) == AT
    assert_same(whole, evaluated(tmp_path / "local"))
    machine(monkeypatch, tmp_path / "two")
    assert_same(ra.load_result(AT), whole)
    held = [name for name in store.names() if not name.startswith("plans/")]
    evaluated(AT)
    assert [name for name in store.names() if not name.startswith("plans/")] == held
    table = query("SELECT run, count(*) FROM outcomes GROUP BY run", [AT])
    assert table.rows == [(AT, 12)]


def test_every_command_takes_an_address(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(AT, 6)
    evaluated("memory://bucket/other", 6)
    machine(monkeypatch, tmp_path / "two")
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


def test_examples_of_others_enter_a_run_in_a_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = evaluated(AT, 6)
    x, _ = data()
    images = np.where(np.arange(4) % 2, x[:6].numpy(), 1.0).astype(np.float32)
    said = ra.verify(AT, {"images": images, "index": np.arange(6)}, "a friend", model=net(), data=data())
    assert "a friend" in repr(said)
    machine(monkeypatch, tmp_path / "two")
    after = ra.load_result(AT)
    assert (after.minimal_size("linf") <= before.minimal_size("linf")).all()


def test_small_parts_are_one_object_and_no_object_is_asked_for_twice(store: Store) -> None:
    evaluated(AT, 12)
    tables = [name for name in store.names() if name.endswith(".parquet")]
    assert [name.split("/")[0] for name in tables] == ["outcomes", "samples"]
    assert "-12-" in tables[0]
    got = store.asked["cat_file"]
    ra.load_result(AT)
    assert store.asked["cat_file"] - got == 1  # run.json; the copy has everything else


def test_parts_with_images_stay_as_they_are(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = evaluated(AT, 6, keep_adversarial=True)
    machine(monkeypatch, tmp_path / "two")
    there = ra.load_result(AT)
    assert np.array_equal(here.adversarial("linf")[1], there.adversarial("linf")[1])
    assert len([name for name in store.names() if name.startswith("outcomes/")]) == 2


def test_a_store_that_fails_now_and_then_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)

    def fault(kind: str, path: str) -> None:
        if random.random() < 0.3:
            raise OSError(121, "500 Internal Error") if random.random() < 0.5 else OSError(16, "503 Slow Down")
        if kind == "find":
            time.sleep(0.02)

    store.fault = fault
    monkeypatch.setattr(objects, "PAUSES", (0.0,) * 12)
    assert_same(evaluated(AT), evaluated(None))


def test_a_store_that_fails_for_long_loses_nothing(store: Store, tmp_path: Path) -> None:
    def fault(kind: str, path: str) -> None:
        if "outcomes" in path and kind == "pipe_file":
            raise OSError("500")

    store.fault = fault
    with (
        pytest.warns(RobustnessWarning, match="cannot be sent at the moment"),
        pytest.raises(ra.UserError, match=rf"does not answer \(OSError: 500\).*sends 4 files .* waiting in {tmp_path}"),
    ):
        evaluated(AT)
    assert not [name for name in store.names() if name.startswith("outcomes/")]
    store.fault = lambda kind, path: None
    evaluated(AT)
    assert len([name for name in store.names() if name.startswith("outcomes/")]) == 1
    assert_same(ra.load_result(AT), evaluated(None))


def test_what_a_killed_writer_had_not_sent_is_sent_by_the_next_command(store: Store) -> None:
    class Killed(BaseException):
        pass

    def fault(kind: str, path: str) -> None:
        if kind == "pipe_file" and "samples" in path:
            raise Killed

    store.fault = fault
    with pytest.raises(Killed):
        evaluated(AT)
    store.fault = lambda kind, path: None
    assert_same(evaluated(AT), evaluated(None))


@pytest.mark.parametrize("seed", range(5))
def test_kills_and_faults_drawn_by_a_seed_end_with_the_numbers_of_one_process(
    seed: int, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each request the store may fail and the process die; it goes on here, or on a machine without copies."""
    random = np.random.default_rng(seed)
    monkeypatch.setattr(objects, "PAUSES", (0.0,) * 12)
    deaths = 3

    class Killed(BaseException):
        pass

    def fault(kind: str, path: str) -> None:
        nonlocal deaths
        if deaths and random.random() < 0.15:
            deaths -= 1
            raise Killed
        if random.random() < 0.2:
            raise OSError("500")

    store.fault = fault
    for number in range(5):
        machine(monkeypatch, tmp_path / str(random.integers(2)))
        try:
            found = evaluated(AT)
            break
        except Killed:
            assert number < 4
    store.fault = lambda kind, path: None
    machine(monkeypatch, tmp_path / "another")
    assert_same(found, evaluated(None))
    assert_same(ra.load_result(AT), found)


def test_two_machines_fill_one_run(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(AT, part="0/2")
    machine(monkeypatch, tmp_path / "two")
    both = evaluated(AT, part="1/2")
    assert_same(ra.load_result(AT), evaluated(None))
    assert both.samples == 6
    machine(monkeypatch, tmp_path / "three")
    evaluated("memory://bucket/other")
    assert_same(ra.load_result(merge([AT, "memory://bucket/other"], "memory://bucket/all").path or ""), evaluated(None))
    assert ra.load_result(merge([AT], tmp_path / "local").path or "").complete


def test_a_run_of_another_model_is_refused_also_where_two_begin_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Run.begin(None, evaluated(None).identity)  # type: ignore[arg-type]
    there = first.identity.to_json().replace('"name":"Linear"', '"name":"Other"').encode()

    def fault(kind: str, path: str) -> None:
        if kind == "pipe_file" and path.endswith("run.json"):  # another writer is quicker
            memory.store.clear()
            store.fault = lambda kind, path: None
            fsspec.filesystem("memory").pipe_file(f"{AT}/run.json", there)

    store.fault = fault
    assert Objects(Address(AT)).create("run.json", b"{}") == there


def test_two_machines_begin_a_run_at_once(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(kind: str, path: str) -> None:
        if kind == "find":  # another machine begins, and is through
            store.fault = lambda kind, path: None
            machine(monkeypatch, tmp_path / "two")
            evaluated(AT, 6)
            machine(monkeypatch, tmp_path / "one")

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
    with pytest.raises(ra.UserError, match=r"memory://bucket/run does not let you in .* credentials") as caught:
        evaluated(AT)
    assert "\n" not in str(caught.value)
    assert store.asked["find"] + store.asked["cat_file"] == 1, "asking again is of no use"
    with pytest.raises(ra.UserError, match="no store that fsspec knows"):
        ra.load_result("nowhere://bucket/run")
    store.fault = lambda kind, path: None
    with pytest.raises(ra.UserError, match=r"memory://bucket/run is not a run: it has no run.json"):
        ra.load_result(AT)


def test_objects_that_are_no_files_of_a_run_are_left_where_they_are(store: Store, tmp_path: Path) -> None:
    evaluated(AT, 3)
    for name in ("outcomes/../../../outside.parquet", "notes/a.json", "audit/run.json", "attacks/a.exe"):
        memory.store[f"/bucket/run/{name}"] = memory.store["/bucket/run/run.json"]
    ra.load_result(AT)
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert "outside.parquet" not in kept
    assert "a.json" not in kept
    assert "a.exe" not in kept


def test_what_was_taken_out_of_the_store_does_not_count(store: Store) -> None:
    evaluated(AT, 6)
    for name in list(memory.store):
        if "/outcomes/" in name:
            del memory.store[name]
    with pytest.raises(ra.UserError, match="no finished samples"):
        ra.load_result(AT)


def test_parts_that_wait_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_WAITING", 1)
    evaluated(AT)
    assert len([name for name in store.names() if name.startswith("outcomes/")]) == 4, "each was waited for"


def test_packs_are_of_parts_that_are_alike(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket.Bucket, "flush", lambda self: None)
    evaluated(AT, 9)
    root = next((tmp_path / "one" / "runs").iterdir())
    names = [path.relative_to(root).as_posix() for path in sorted(root.glob("[os]*/**/*.parquet"))]
    together = list(packing.packs(root, names))
    assert sorted(len(pack) for pack in together) == [3, 3]
    monkeypatch.setattr(packing, "MOST_BYTES", 1)
    assert sorted(len(pack) for pack in packing.packs(root, names)) == [1] * 6
    monkeypatch.setattr(packing, "LEAST_BYTES", 1)
    assert sorted(len(pack) for pack in packing.packs(root, names)) == [1] * 6


def test_a_certificate_that_is_withdrawn_is_gone_from_the_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ra.certify(net(), data(), ["linf", "l2"], run=AT, shard_size=3, progress=False)
    run = Run.open(AT)
    (record,) = (each for each in run.certified_by() if each.name == "linf")
    run.certificates.withdraw(record)
    assert not [name for name in store.names() if "linf" in name]
    machine(monkeypatch, tmp_path / "two")
    assert list(ra.load_result(AT).certified_sizes) == ["l2"]
