"""One run by many: processes, parts, several starters, and all the ways in which some of them die."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images
from processes import alive, driver
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.workers.share import parse_share, share_of_environment
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes import Run, merge
from robustatlas.outcomes.locks import part_lock
from robustatlas.threats.lp import L2, Linf

COUNT = 12
PLANS = (AttackRun(PGD(steps=6), "cross-entropy"),)
ATTACKS = [
    Attack("linf", Linf(), PLANS, (0.05, 0.1, 0.2)),
    Attack("l2", L2(), PLANS, (0.3, 0.6)),
]
COLUMNS = ("minimal_size", "found_class", "forward", "backward", "margins", "fooled")


class Alike(nn.Module):
    """To the nearest mean of a class; the numbers of a sample do not depend on the rest of the batch, as those of BLAS
    do by rounding."""

    def __init__(self) -> None:
        super().__init__()
        data = ra.load_dataset("digits", "train")
        means = [data.images[data.labels == label].double().flatten(1).mean(0) for label in range(10)]
        self.weight = nn.Parameter(torch.stack(means), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1)[:, None] * self.weight).sum(2) - (self.weight**2).sum(1) / 2


def evaluate(run: Path | None, net: Any = None, **options: Any) -> ra.Result:
    net = Alike() if net is None else net
    return ra.evaluate(net, digits_images(COUNT, torch.float64), ATTACKS, run=run, **({"shard_size": 3} | options))


@pytest.fixture(scope="module")
def whole() -> ra.Result:
    return evaluate(None)


def assert_same(one: ra.Result, other: ra.Result) -> None:
    assert one.attacks == other.attacks
    np.testing.assert_array_equal(one.index, other.index)
    for attack in one.attacks:
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(one.outcome(attack), name), getattr(other.outcome(attack), name))


def computed_twice(run: Path) -> int:
    """Samples that stand in more than one part of an attack."""
    opened = Run.open(run)
    twice = 0
    for record in opened.records().values():
        index = np.concatenate(
            [opened._parts.read_part(name, record)["index"] for name in opened._storage.names(f"outcomes/{record.key}")]
        )
        twice += len(index) - len(np.unique(index))
    return twice


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ((0, 1), (0, 1), True),
        ((0, 1), (3, 4), True),
        ((2, 3), (0, 1), True),
        ((1, 4), (1, 4), True),
        ((0, 4), (1, 4), False),
        ((0, 2), (2, 4), True),
        ((0, 2), (3, 4), False),
        ((1, 2), (1, 3), True),
    ],
)
def test_parts_exclude_each_other_where_they_have_samples_in_common(
    tmp_path: Path, one: tuple[int, int], other: tuple[int, int], overlap: bool
) -> None:
    both = parse_share(one).mask(12) & parse_share(other).mask(12)
    assert both.any() == overlap, "what is expected here is what samples say"
    with part_lock(tmp_path, *one):
        if overlap:
            with pytest.raises(ra.UserError, match=r"Another command is at work .*--part"), part_lock(tmp_path, *other):
                pass
        else:
            with part_lock(tmp_path, *other):
                pass
    with part_lock(tmp_path, *other), part_lock(tmp_path / "another", *one):
        pass


def test_parts_that_start_at_once_all_work(tmp_path: Path) -> None:
    together, held = threading.Barrier(6, timeout=60), threading.Barrier(6, timeout=60)

    def work(number: int) -> None:
        together.wait()
        with part_lock(tmp_path, number, 6):
            held.wait()

    with ThreadPoolExecutor(6) as pool:
        for working in [pool.submit(work, number) for number in range(6)]:
            working.result(60)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from robustatlas.outcomes.locks import part_lock
        with part_lock(Path(sys.argv[1]), 0, 2):
            print("held", flush=True)
            sys.stdin.read()
    """
    holder = started(script, tmp_path, stdin=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline().strip() == "held"
    with pytest.raises(ra.UserError, match="at work"), part_lock(tmp_path, 0, 1):
        pass
    holder.kill()
    holder.communicate()
    with part_lock(tmp_path, 0, 1):
        pass


@pytest.mark.parametrize("reason", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_it_is_said_once_and_the_work_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: ra.Result, reason: int
) -> None:
    def refused(*_: Any) -> Any:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr("fcntl.flock", refused)
    seen = Seen()
    assert_same(evaluate(tmp_path / "run", progress=seen), whole)
    assert [note for note in seen.notes if "without locks" in note] == [seen.notes[0]]


def test_a_command_on_a_run_that_is_worked_on_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = f"evaluate builtin:digits-linf --data digits --samples 4 --attacks brightness --run {run}".split()
    entered(*arguments, "--part", "0/3")
    with part_lock(run, 1, 3):
        assert "Another command is at work" in entered(*arguments, code=1).err
        entered(*arguments, "--part", "2/3")
    entered(*arguments)


@pytest.mark.parametrize(("given", "samples"), [("1/3", [1, 4, 7]), ((0, 4), [0, 4]), (None, list(range(8)))])
def test_shares(given: Any, samples: list[int]) -> None:
    assert np.flatnonzero(parse_share(given).mask(8)).tolist() == samples


@pytest.mark.parametrize("given", ["3/3", "a/b", "1", (2, 1), "-1/2", 5])
def test_impossible_shares(given: Any) -> None:
    with pytest.raises(ra.UserError, match="expected I/N"):
        parse_share(given)


ARRAY = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "2"}


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, None),
        (ARRAY | {"SLURM_ARRAY_TASK_COUNT": "4"}, "3/4"),
        ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "1"}, None),
        ({"RANK": "2", "WORLD_SIZE": "4"}, "2/4"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"WORLD_SIZE": "4"}, None),
        ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "2", "RANK": "3", "WORLD_SIZE": "8"}, "0/2"),
    ],
)
def test_shares_of_batch_systems(environment: dict[str, str], share: str | None) -> None:
    found = share_of_environment(environment)
    assert (found and str(found[0])) == share


@pytest.mark.parametrize(
    ("rank", "size", "said"),
    [
        ("5", "2", "RANK=5 and WORLD_SIZE=2 contradict each other"),
        ("4", "4", "ranks of 4 go from 0 to 3"),
        ("1", "1", "contradict"),
        ("0", "0", "at least one process"),
        ("-1", "2", "RANK='-1' is not a whole number"),
        ("0", "two", "WORLD_SIZE='two' is not a whole number"),
        ("1.5", "2", "RANK='1.5' is not a whole number"),
        ("1", "9" * 5000, "is not a whole number"),
    ],
)
def test_ranks_that_contradict_are_refused(rank: str, size: str, said: str) -> None:
    with pytest.raises(ra.UserError) as caught:
        share_of_environment({"RANK": rank, "WORLD_SIZE": size})
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("changes", [{"SLURM_ARRAY_TASK_ID": "-7"}, {"SLURM_ARRAY_TASK_ID": "nine"},
                                     {"SLURM_ARRAY_TASK_COUNT": "0"}, {"SLURM_ARRAY_TASK_ID": "8"},
                                     {"SLURM_ARRAY_TASK_COUNT": "4" * 400}])  # fmt: skip
def test_arrays_that_contradict_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ra.UserError, match="give --part I/N"):
        share_of_environment(ARRAY | {"SLURM_ARRAY_TASK_COUNT": "4"} | changes)


def test_an_array_with_holes_is_refused() -> None:
    with pytest.raises(ra.UserError, match="give --part"):
        share_of_environment(ARRAY | {"SLURM_ARRAY_TASK_COUNT": "3"})


@pytest.mark.parametrize("apart", [False, True])
def test_parts_make_the_whole(tmp_path: Path, apart: bool, whole: ra.Result) -> None:
    folders = [tmp_path / (f"part-{number}" if apart else "run") for number in range(3)]
    for number, folder in enumerate(folders):
        part = evaluate(folder, part=f"{number}/3")
        assert part.index.tolist() == list(range(number, COUNT, 3))
        assert part.missing == {"linf": COUNT * 2 // 3, "l2": COUNT * 2 // 3} or not (apart or number == 0)
    if apart:
        merge(folders, tmp_path / "run")
    assert_same(ra.load_result(tmp_path / "run"), whole)
    assert ra.load_result(tmp_path / "run").complete
    assert computed_twice(tmp_path / "run") == 0


class Seen(Progress):
    """Calls ``then`` with the number of finished parts each time that one is, and ``told`` with what is to know."""

    def __init__(
        self, then: Callable[[int], None] = lambda parts: None, told: Callable[[str], None] = lambda message: None
    ) -> None:
        self.then, self.told, self.parts, self.at_work = then, told, 0, False
        self.notes: list[str] = []

    def begin(self, *_: Any) -> None:
        self.at_work = True

    def note(self, message: str) -> None:
        self.notes.append(message)
        self.told(message)

    def finish(self, *_: Any) -> None:
        self.parts += 1
        self.then(self.parts)


class Pauses(Alike):
    """Calls ``then`` once, in the middle of a part."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self.then, self.seen, self.calls = then, Seen(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.seen.at_work
        if self.calls == 5:
            self.calls += 1
            self.then()
        return super().forward(x)


def test_a_second_evaluation_of_a_run_is_refused_and_parts_fill_it_side_by_side(
    tmp_path: Path, whole: ra.Result
) -> None:
    def meanwhile() -> None:
        for refused in (None, "0/2", "1/3"):
            with pytest.raises(ra.UserError, match="Another command is at work"):
                evaluate(tmp_path, part=refused)
        evaluate(tmp_path, part="1/2")

    net = Pauses(meanwhile)
    evaluate(tmp_path, net=net, part="0/2", progress=net.seen)
    assert_same(ra.load_result(tmp_path), whole)
    assert computed_twice(tmp_path) == 0


def test_the_diagnosis_is_of_whoever_is_first(tmp_path: Path) -> None:
    """Another part is through with the diagnosis while one is at it: both have the one that was kept first."""
    results = []

    class Slower(Alike):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 40:
                results.append(evaluate(tmp_path, part="1/2"))
            return super().forward(x)

    results.append(evaluate(tmp_path, net=Slower(), part="0/2"))
    assert len(results) == 2
    assert len({result.diagnosis.record.created for result in results if result.diagnosis}) == 1


class Elsewhere(Alike):
    """Something happens at its ``late``-th call in a process that it was sent to, before anything is finished there."""

    late = 8

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.home = 0, os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += os.getpid() != self.home
        logits = super().forward(x)
        return self.happens(logits) if self.calls == self.late else logits

    def happens(self, logits: Tensor) -> Tensor:
        raise NotImplementedError


class Sick(Elsewhere):
    """Gives NaN in the processes that come first, as many as have ``lives``: files beside ``file``."""

    def __init__(self, file: Path, lives: int) -> None:
        super().__init__()
        self.lives = [Path(f"{file}-{life}") for life in range(lives)]

    def happens(self, logits: Tensor) -> Tensor:
        for life in self.lives:
            with suppress(FileExistsError):
                life.open("x").close()
                return logits * torch.nan
        return logits


class Hangs(Elsewhere):
    """Writes the number of the process into a file, and never returns."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def happens(self, logits: Tensor) -> Tensor:
        self.file.with_suffix(".new").write_text(str(os.getpid()))
        self.file.with_suffix(".new").rename(self.file)
        threading.Event().wait()
        return logits


def test_workers_find_what_one_process_finds(tmp_path: Path, watched: list[int], whole: ra.Result) -> None:
    """Though one gives NaN, Ctrl-C stops the rest, and when it goes on one is killed."""

    class Local(Sick):
        """Of a class that no other process can import."""

    def stop(parts: int) -> None:
        if parts == 3:
            raise KeyboardInterrupt

    run, stopped = tmp_path / "run", Seen(stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, net=Local(tmp_path / "life", 1), workers=2, progress=stopped)
    assert "NaN" in stopped.notes[-1]
    assert len(watched) == 3 and not any(map(alive, watched)), "one was replaced, and all have ended"
    assert Run.open(run).missing_counts()

    def kill(parts: int) -> None:
        if len(watched) == 4:
            os.kill(watched[3], signal.SIGKILL)

    killed = Seen(kill)
    assert_same(evaluate(run, net=Local(tmp_path / "life", 1), devices=["cpu"], progress=killed), whole)
    assert "killed by signal 9 (SIGKILL)" in killed.notes[-1]
    assert len(watched) == 5
    assert computed_twice(run) == 0
    again = Seen()
    assert_same(evaluate(run, workers=2, progress=again), whole)
    assert again.parts == 2, "what each attack has is shown, and nothing is computed"
    assert len(watched) == 5


def test_a_model_with_nan_is_named(tmp_path: Path, watched: list[int]) -> None:
    with pytest.raises(ra.UserError, match="NaN or infinite logits"):
        evaluate(None, net=Sick(tmp_path / "life", 9), devices=["cpu"])
    assert len(watched) == 2


def drive(run: str, file: str) -> None:
    """Evaluate by a worker that hangs."""
    evaluate(Path(run), net=Hangs(Path(file)), devices=["cpu"])


def test_an_evaluation_takes_over_from_one_that_is_killed(tmp_path: Path, whole: ra.Result) -> None:
    """Its lock ends with it, and so does its worker, whatever that is at."""
    run, file = tmp_path / "run", tmp_path / "worker"
    first = driver(drive, str(run), str(file))
    until(lambda: file.exists() or not first.is_alive())
    worker = int(file.read_text())
    with pytest.raises(ra.UserError, match="Another command is at work"):
        evaluate(run)
    first.kill()
    first.join()
    assert first.exitcode == -signal.SIGKILL
    until(lambda: not alive(worker))
    assert_same(evaluate(run), whole)
    assert computed_twice(run) == 0


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_cannot_travel_is_said() -> None:
    lock = threading.Lock()

    def held(x: Tensor) -> Tensor:
        with lock:
            return Alike()(x.double())

    with pytest.raises(ra.UserError, match=r"held .*lock"):
        evaluate(None, net=held, workers=2)


def truncated(content: bytes) -> bytes:
    return content[:-20]


def overwritten(content: bytes) -> bytes:
    """Inside of the last column; all that says what the file holds stays."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    return content[: -footer - 20] + b"\xff" * 20 + content[-footer:]


@pytest.mark.parametrize("damaged", [truncated, overwritten])
def test_a_damaged_part_is_computed_again(tmp_path: Path, damaged: Callable[[bytes], bytes], whole: ra.Result) -> None:
    evaluate(tmp_path)
    for file in sorted(tmp_path.glob("outcomes/*/*.parquet"))[::5]:
        file.write_bytes(damaged(file.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not ra.load_result(tmp_path).complete
        assert_same(evaluate(tmp_path), whole)


def test_a_full_disk_stops_with_one_sentence(tmp_path: Path, whole: ra.Result) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(parts: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))

    try:
        with pytest.raises(ra.UserError, match="Cannot write"):
            evaluate(tmp_path, progress=Seen(fill))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_same(evaluate(tmp_path), whole)


@pytest.mark.parametrize("skew", [-86_400.0, 86_400.0])
def test_clocks_do_not_matter(tmp_path: Path, skew: float, monkeypatch: pytest.MonkeyPatch, whole: ra.Result) -> None:
    """A host whose clock is a day off neither removes what another is writing, nor computes anything else."""
    evaluate(tmp_path, part="0/2")
    young = tmp_path / "outcomes" / ".0-4-abc.parquet.77.tmp"
    young.write_text("in the making")
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + skew)
    assert_same(evaluate(tmp_path), whole)
    assert young.exists()
    assert computed_twice(tmp_path) == 0


def test_two_different_runs_into_one_folder(tmp_path: Path) -> None:
    """Two parts with other sets under one name at once: one of them gets a clear sentence, whichever it is."""
    attacks = [replace(ATTACKS[0], threat=Linf(starts=starts)) for starts in ("surface", "volume")]
    together, said = threading.Barrier(2, timeout=60), []

    class Waits(Alike):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 1:
                together.wait()
            return super().forward(x)

    def start(number: int) -> None:
        try:
            data = digits_images(4, torch.float64)
            ra.evaluate(Waits(), data, attacks[number], run=tmp_path / "run", part=(number, 2))
        except ra.UserError as error:
            said.append(str(error))

    both = [threading.Thread(target=start, args=(number,)) for number in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert len(said) == 1 and "'linf'" in said[0]
    assert len(Run.open(tmp_path / "run").records()) == 1


def started(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
