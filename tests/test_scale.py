"""One run by many: processes, parts, several starters, and all the ways in which some of them die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import digits_images, digits_network
from robustatlas.attacks.definition import Attack, Stage
from robustatlas.evaluation import processes
from robustatlas.evaluation.share import share_of, share_of_environment
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes import Run, merge
from robustatlas.outcomes.claims import Claims
from robustatlas.progress import Progress
from robustatlas.threats.lp import L2, Linf

COUNT = 24
STAGES = (Stage(PGD(steps=6), "cross-entropy"),)
ATTACKS = [
    Attack("linf", Linf(), (0.05, 0.1, 0.2), STAGES, searches=("bisection",)),
    Attack("l2", L2(), (0.3, 0.6), STAGES, searches=("bisection",)),
]
COLUMNS = ("minimal_size", "found_class", "forward", "backward", "margins", "fooled")


class Alike(nn.Module):
    """A trained network whose numbers of a sample do not depend on the rest of the batch, as BLAS's do by rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.net = digits_network(torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.net:
            x = (x[:, None] * layer.weight).sum(2) + layer.bias if isinstance(layer, nn.Linear) else layer(x)
        return x


def evaluate(run: Path | None, net: Any = None, **options: Any) -> ra.Result:
    net = Alike() if net is None else net
    return ra.evaluate(net, digits_images(COUNT, torch.float64), ATTACKS, run=run, **({"shard_size": 4} | options))


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
            [opened._part(name, record)["index"] for name in opened._shelf.names(f"outcomes/{record.key}")]
        )
        twice += len(index) - len(np.unique(index))
    return twice


def test_claims_exclude_each_other_until_they_are_given_back(tmp_path: Path) -> None:
    wanted = np.array([9, 3, 4, 5, 20])
    with Claims(tmp_path) as mine, Claims(tmp_path) as others:
        assert mine.take("a", wanted, 2).tolist() == [9, 3]
        assert others.take("b", wanted, 2).tolist() == [9, 3], "other attacks are other matters"
        assert others.take("a", wanted, 9).tolist() == [4, 5, 20]
        assert mine.take("a", wanted, 9).tolist() == [9, 3], "one's own are free to oneself"
        mine.release("a", np.array([9]))
        assert others.take("a", np.array([3, 9]), 9).tolist() == [9]
    with Claims(tmp_path) as anyone:
        assert anyone.take("a", wanted, 9).tolist() == wanted.tolist()


def test_claims_end_with_their_process(tmp_path: Path) -> None:
    script = """
        import sys, numpy as np
        from pathlib import Path
        from robustatlas.outcomes.claims import Claims
        claims = Claims(Path(sys.argv[1]))
        print(claims.take("a", np.arange(5), 5).tolist(), flush=True)
        sys.stdin.read()
    """
    holder = started(script, tmp_path, stdin=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline().strip() == "[0, 1, 2, 3, 4]"
    with Claims(tmp_path) as mine:
        assert mine.take("a", np.arange(7), 7).tolist() == [5, 6]
        holder.kill()
        holder.communicate()
        assert mine.take("a", np.arange(7), 7).tolist() == list(range(7))


def test_without_locks_everything_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: ra.Result) -> None:
    def refused(*_: Any) -> Any:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("robustatlas.outcomes.claims.fcntl.fcntl", refused)
    with Claims(tmp_path) as mine, Claims(tmp_path) as others:
        assert mine.take("a", np.arange(3), 2).tolist() == others.take("a", np.arange(3), 2).tolist() == [0, 1]
    assert_same(evaluate(tmp_path / "run"), whole)


@pytest.mark.parametrize(("given", "samples"), [("1/3", [1, 4, 7]), ((0, 4), [0, 4]), (None, list(range(8)))])
def test_shares(given: Any, samples: list[int]) -> None:
    assert np.flatnonzero(share_of(given).mask(8)).tolist() == samples


@pytest.mark.parametrize("given", ["3/3", "a/b", "1", (2, 1), "-1/2", 5])
def test_impossible_shares(given: Any) -> None:
    with pytest.raises(ra.UserError, match="expected I/N"):
        share_of(given)


ARRAY = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "2"}


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, None),
        (ARRAY | {"SLURM_ARRAY_TASK_COUNT": "4"}, "3/4"),
        ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "1"}, None),
        ({"RANK": "2", "WORLD_SIZE": "4"}, "2/4"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"WORLD_SIZE": "4"}, None),
        ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "2", "RANK": "3", "WORLD_SIZE": "8"}, "0/2"),
    ],
)
def test_shares_of_batch_systems(environment: dict[str, str], share: str | None) -> None:
    found = share_of_environment(environment)
    assert (found and str(found[0])) == share


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
    """Calls ``then`` with the number of finished parts each time that one is."""

    def __init__(self, then: Callable[[int], None] = lambda parts: None) -> None:
        self.then, self.parts, self.warnings = then, 0, []

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def finish(self, *_: Any) -> None:
        self.parts += 1
        self.then(self.parts)


def test_two_evaluations_share_a_run(tmp_path: Path, whole: ra.Result) -> None:
    """The second begins while the first is at work, in the middle of a part."""
    results: list[ra.Result] = []
    begun, go_on = threading.Event(), threading.Event()

    def second() -> None:
        begun.wait(60)
        results.append(evaluate(tmp_path, progress=Seen(lambda parts: go_on.set())))

    class Pauses(Alike):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 30:
                begun.set()
                assert go_on.wait(60)
            return super().forward(x)

    other = threading.Thread(target=second)
    other.start()
    results.append(evaluate(tmp_path, net=Pauses()))
    other.join(60)
    assert len(results) == 2
    for result in results:
        assert_same(result, whole)
    assert computed_twice(tmp_path) == 0


def test_an_evaluation_takes_over_from_one_that_is_killed(tmp_path: Path, whole: ra.Result) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        import test_scale as t

        def die(parts):
            if parts == 3:
                print("at work", flush=True)
                sys.stdin.read()

        t.evaluate(Path(sys.argv[1]), progress=t.Seen(die))
    """
    first = started(script, tmp_path, stdin=subprocess.PIPE)
    assert first.stdout is not None and first.stdout.readline().strip() == "at work"
    kill = threading.Timer(0, first.kill)
    result = evaluate(tmp_path, progress=Seen(lambda parts: kill.start() if parts == 4 else None))
    first.communicate()
    assert_same(result, whole)
    assert computed_twice(tmp_path) == 0


def test_workers_find_what_one_process_finds(tmp_path: Path, whole: ra.Result) -> None:
    class Local(Alike):
        """Of a class that no other process can import."""

    seen = Seen()
    shared = evaluate(tmp_path, net=Local(), workers=2, progress=seen)
    assert_same(shared, whole)
    assert seen.parts == 2 * COUNT // 4
    assert computed_twice(tmp_path) == 0
    again = Seen()
    assert_same(evaluate(tmp_path, net=Local(), workers=2, progress=again), whole)
    assert again.parts == 2, "what each attack has is shown, and nothing is computed"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Process numbers of all workers that are started; none may survive."""
    numbers: list[int] = []
    start = subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> Any:
        process = start(*arguments, **options)
        numbers.append(process.pid)
        return process

    monkeypatch.setattr(processes.subprocess, "Popen", popen)
    yield numbers
    assert not [number for number in numbers if Path(f"/proc/{number}").exists()]


def test_a_worker_that_is_killed_is_replaced(watched: list[int], whole: ra.Result) -> None:
    seen = Seen(lambda parts: os.kill(watched[0], signal.SIGKILL) if parts == 2 else None)
    assert_same(evaluate(None, devices=["cpu"], progress=seen), whole)
    assert len(watched) == 2
    assert "killed by signal 9 (SIGKILL)" in seen.warnings[-1]


def test_ctrl_c_ends_all_workers(watched: list[int], tmp_path: Path, whole: ra.Result) -> None:
    def stop(parts: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(tmp_path, workers=2, progress=Seen(stop))
    assert 0 < len(Run.open(tmp_path).table(["linf"]).index) < COUNT or Run.open(tmp_path).missing()
    assert_same(evaluate(tmp_path), whole)


class Sick(Alike):
    """NaN at its ``bad``-th call in the processes that come first, as long as ``file`` can count ``lives`` of them."""

    def __init__(self, file: Path, lives: int) -> None:
        super().__init__()
        self.file, self.lives, self.calls, self.home = file, lives, 0, os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        logits = super().forward(x)
        if os.getpid() != self.home and self.calls == 20:
            died = self.file.read_text() if self.file.exists() else ""
            if len(died) < self.lives:
                self.file.write_text(died + "x")
                return logits * torch.nan
        return logits


def test_a_worker_with_nan_is_replaced(tmp_path: Path, watched: list[int], whole: ra.Result) -> None:
    seen = Seen()
    assert_same(evaluate(None, net=Sick(tmp_path / "lives", 1), devices=["cpu"], progress=seen), whole)
    assert len(watched) == 2
    assert "NaN" in seen.warnings[-1]


def test_a_model_with_nan_is_named(tmp_path: Path, watched: list[int], whole: ra.Result) -> None:
    with pytest.raises(ra.UserError, match="NaN or infinite logits"):
        evaluate(tmp_path / "run", net=Sick(tmp_path / "lives", 9), devices=["cpu"])
    assert len(watched) == 2
    assert_same(evaluate(tmp_path / "run"), whole)


def test_workers_end_with_who_started_them(tmp_path: Path, whole: ra.Result) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        import test_scale as t
        from robustatlas.evaluation import processes

        start, numbers = processes.subprocess.Popen, []

        def popen(*arguments, **options):
            process = start(*arguments, **options)
            numbers.append(process.pid)
            return process

        def die(parts):
            if parts == 2:
                print(*numbers, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        processes.subprocess.Popen = popen
        t.evaluate(Path(sys.argv[1]), devices=["cpu"], progress=t.Seen(die))
    """
    driver = started(script, tmp_path)
    numbers = [int(number) for number in driver.communicate(timeout=120)[0].split()]
    assert driver.returncode == -signal.SIGKILL and numbers
    result = evaluate(tmp_path)  # takes long enough for the worker to notice; if not, it is waited for
    while any(alive(number) for number in numbers):
        time.sleep(0.05)
    assert_same(result, whole)
    assert computed_twice(tmp_path) == 0


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_what_cannot_travel_is_said() -> None:
    lock = threading.Lock()

    def held(x: Tensor) -> Tensor:
        with lock:
            return digits_network(torch.float64)(x.double())

    with pytest.raises(ra.UserError, match=r"held cannot be sent to other processes .*lock"):
        evaluate(None, net=held, workers=2)


def test_a_truncated_part_is_computed_again(tmp_path: Path, whole: ra.Result) -> None:
    evaluate(tmp_path)
    for file in sorted(tmp_path.glob("outcomes/*/*.parquet"))[::5]:
        file.write_bytes(file.read_bytes()[:-20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not ra.load_result(tmp_path).complete
        assert_same(evaluate(tmp_path), whole)


def test_a_full_disk_stops_with_one_sentence(tmp_path: Path, whole: ra.Result) -> None:
    from robustatlas import files

    class Full(Seen):
        def finish(self, *_: Any) -> None:
            patch.setattr(files.os, "fsync", self.full)

        @staticmethod
        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ra.UserError, match="No space left on device"):
        evaluate(tmp_path, progress=Full())
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
    """Two starters with other sets under one name at once: one of them gets a clear sentence, whichever it is."""
    attacks = [replace(ATTACKS[0], threat=Linf(starts=starts)) for starts in ("surface", "volume")]
    together, said = threading.Barrier(2, timeout=60), []

    class Waits(Alike):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 1:
                together.wait()
            return super().forward(x)

    def start(attack: Attack) -> None:
        try:
            ra.evaluate(Waits(), digits_images(4, torch.float64), attack, run=tmp_path / "run")
        except ra.UserError as error:
            said.append(str(error))

    both = [threading.Thread(target=start, args=(attack,)) for attack in attacks]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert len(said) == 1 and "holds 'linf' with other sets" in said[0]
    assert len(Run.open(tmp_path / "run").records()) == 1


def started(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
