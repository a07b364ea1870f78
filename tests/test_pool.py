"""Worker processes: how they start, what they are like, and how they end."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import robustatlas as ra
from processes import alive, driver
from robustatlas.evaluation.cores import can_share
from robustatlas.evaluation.workers import CannotShareError, Jobs, share_jobs, start_fork_server
from robustatlas.evaluation.workers.pool import WorkerProcess
from test_scale import Elsewhere, evaluate, until

README = Path(__file__).parents[1] / "README.md"


@dataclass
class Numbers(Jobs):
    """Numbers as jobs."""

    left: list[int]
    found: dict[int, Any] = field(default_factory=dict)
    reported: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def next(self) -> int | None:
        return self.left.pop(0) if self.left else None

    def report(self, job: int, through: int) -> None:
        self.reported.append(through)

    def finish(self, job: int, outcome: Any) -> None:
        self.found[job] = outcome

    def note_retry(self, job: int, why: str) -> None:
        self.notes.append(why)

    def describe(self, job: int) -> str:
        return f"number {job}"


@dataclass(frozen=True)
class Work:
    """A function of the job as a workload."""

    function: Callable[[int, Callable[[int], None]], Any]

    def difference(self) -> None:
        return

    def do(self, job: int, report: Callable[[int], None]) -> Any:
        return self.function(job, report)


def shared(function: Callable[[int, Callable[[int], None]], Any], jobs: Numbers, workers: int = 1) -> dict[int, Any]:
    share_jobs(Work(function), "The work", ["cpu"] * workers, 1, jobs)
    return jobs.found


def test_the_snippet_of_the_readme_runs_as_a_script_with_workers(tmp_path: Path) -> None:
    """It has no guard against being run again in the processes that it starts."""
    snippet = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[0]
    assert "__main__" not in snippet and snippet.count("samples=100)") == 1
    script = tmp_path / "script.py"
    script.write_text("print('begun')\n" + snippet.replace("samples=100)", "samples=20, workers=2)"), encoding="utf-8")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("begun") == 1 and "withstand 0.1" in ended.stdout
    assert "Traceback" not in ended.stderr and "begun" not in ended.stderr


def test_jobs_are_done_and_what_is_finished_of_them_is_known(watched: list[int]) -> None:
    def square(job: int, report: Callable[[int], None]) -> int:
        report(job + 100)
        time.sleep(1.5 if job == 3 else 0)
        return job**2

    jobs = Numbers([0, 1, 2, 3])
    assert shared(square, jobs, workers=2) == {0: 0, 1: 1, 2: 4, 3: 9}
    assert len(watched) == 2 and 103 in jobs.reported


def test_a_worker_prints_to_the_standard_error() -> None:
    """So that the output of a command stays its own."""

    def same_file(job: int, report: Callable[[int], None]) -> bool:
        return os.path.sameopenfile(1, 2)

    assert shared(same_file, Numbers([0])) == {0: True}


def test_a_worker_has_the_folder_and_the_environment_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen(job: int, report: Callable[[int], None]) -> Any:
        return str(Path.cwd()), os.environ.get("SET_LATE"), os.environ.get("HOME"), sys.path[0]

    monkeypatch.delenv("SET_LATE", raising=False)
    shared(seen, Numbers([0]))
    monkeypatch.setenv("SET_LATE", "yes")
    monkeypatch.delenv("HOME")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.chdir(tmp_path)
    assert shared(seen, Numbers([0]))[0] == (str(tmp_path), "yes", None, str(tmp_path / "modules"))


def test_a_death_costs_its_own_job_which_is_done_again(tmp_path: Path, watched: list[int]) -> None:
    def die_once(job: int, report: Callable[[int], None]) -> int:
        (tmp_path / f"{job}-{os.getpid()}").touch()
        if job == 1 and len(list(tmp_path.glob("1-*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return job

    jobs = Numbers([0, 1, 2])
    assert shared(die_once, jobs, workers=2) == {0: 0, 1: 1, 2: 2}
    assert jobs.notes == ["A worker on cpu was killed by signal 9 (SIGKILL)."]
    assert [len(list(tmp_path.glob(f"{job}-*"))) for job in range(3)] == [1, 2, 1]
    assert len(watched) == 3


class Dies(Elsewhere):
    def happens(self, logits: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGKILL)
        return logits


def test_a_second_death_over_a_chunk_names_its_samples(tmp_path: Path, watched: list[int]) -> None:
    with pytest.raises(ra.UserError, match="samples 0 to 2 of 'linf'"):
        evaluate(tmp_path, net=Dies(), devices=["cpu"])
    assert len(watched) == 2


def test_a_worker_that_dies_while_it_has_no_job_is_replaced(watched: list[int]) -> None:
    """One of two waits for the other's job, which ends it."""

    class Late(Numbers):
        def finish(self, job: int, outcome: Any) -> None:
            super().finish(job, outcome)
            if job == 0:
                idle = next(number for number in watched if number != outcome)
                os.kill(idle, signal.SIGKILL)
                until(lambda: not alive(idle))
                self.left += [1, 2]

    def wait_a_while(job: int, report: Callable[[int], None]) -> int:
        time.sleep(3.0)
        return os.getpid()

    jobs = Late([0])
    assert shared(wait_a_while, jobs, workers=2).keys() == {0, 1, 2}
    assert len(watched) == 3 and len(jobs.notes) == 1


class DiesAtOnce(Work):
    def difference(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_that_die_before_they_have_begun(workers: int, watched: list[int]) -> None:
    with pytest.raises(CannotShareError, match=r"SIGKILL.*had not begun"):
        share_jobs(DiesAtOnce(print), "The work", ["cpu"] * workers, 1, Numbers([0]))


def nothing(job: int, report: Callable[[int], None]) -> None:
    return


def test_a_device_that_a_worker_cannot_use_is_named(watched: list[int]) -> None:
    with pytest.raises(ra.UserError, match="device 'cuda:77' cannot be used"):
        share_jobs(Work(nothing), "The work", ["cuda:77"], 1, Numbers([0]))


def hang(job: int, report: Callable[[int], None]) -> None:
    time.sleep(600)


def share_until_killed(file: str) -> None:
    """Start one worker that hangs and one that has nothing to do; write down their process numbers."""
    numbers: list[int] = []
    start = WorkerProcess.start

    def started(process: WorkerProcess) -> None:
        start(process)
        numbers.append(process.pid or 0)

    class Waits(Numbers):
        def report(self, job: int, through: int) -> None:
            Path(f"{file}.new").write_text(" ".join(map(str, numbers)))
            Path(f"{file}.new").rename(file)

    WorkerProcess.start = started  # type: ignore[method-assign]
    shared(hang, Waits([0]), workers=2)


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """The one at work and the one that waits; a worker of a plain pool lives on."""
    file = tmp_path / "numbers"
    parent = driver(share_until_killed, str(file))
    until(lambda: file.exists() or not parent.is_alive())
    numbers = [int(number) for number in file.read_text().split()]
    assert len(numbers) == 2 and all(map(alive, numbers))
    parent.kill()
    until(lambda: not any(map(alive, numbers)))


def group_lives(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("moment", ["run.json", "outcomes/*/*.parquet"])
def test_ctrl_c_of_a_terminal_is_heard_by_the_command_alone(tmp_path: Path, moment: str) -> None:
    """It goes to all processes: while the fork server imports torch, and while the workers are at work."""
    run = tmp_path / "run"
    script = """
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from robustatlas.__main__ import main
        main()
    """
    asked = ["builtin:digits-linf", "--data", "digits", "--attacks", "linf", "--workers", "2", "--effort", "high"]
    options = ["--no-diagnose", "--shard-size", "2", "--run", str(run)]
    command = [sys.executable, "-c", textwrap.dedent(script), "evaluate", *asked, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        until(lambda: any(run.glob(moment)) or process.poll() is not None)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in said and "KeyboardInterrupt" not in said
    assert [line for line in said.splitlines() if line.startswith("Stopped. ")]
    until(lambda: not group_lives(process.pid))


def share_in_a_process(file: str) -> None:
    try:
        share_jobs(Work(nothing), "The work", ["cpu"], 1, Numbers([0]))
    except CannotShareError as error:
        Path(file).write_text(f"{can_share(ra.load_model('builtin:digits-linf'))}: {error}")


@pytest.mark.parametrize(("method", "daemon"), [("forkserver", True), ("fork", False)])
def test_who_cannot_start_workers_is_told(tmp_path: Path, method: str, daemon: bool) -> None:
    """A daemon of multiprocessing, and the fork of a process that has started workers."""
    start_fork_server()
    file = tmp_path / "said"
    context = multiprocessing.get_context(method)
    process = context.Process(target=share_in_a_process, args=(str(file),), daemon=daemon)  # type: ignore[attr-defined]
    process.start()
    process.join()
    assert file.read_text().startswith("False: This process was started by multiprocessing")
