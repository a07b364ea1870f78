"""Ctrl-C is heard once, and after what cannot be interrupted."""

import importlib.abc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from robustatlas.__main__ import STOPPED, run
from robustatlas.common.interrupts import delay_interrupts
from robustatlas.outcomes.tables import read_parquet, write_parquet


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """A shell that puts the tests in the background has them ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_takes_effect_at_the_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), delay_interrupts():
        interrupt()
        interrupt()
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_interrupts_are_ignored_they_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with delay_interrupts():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_interrupts_while_tables_are_written_and_read_are_heard(tmp_path: Path) -> None:
    """At moments spread over both; DuckDB itself would make errors of its own of them, or forget them."""
    path, columns = tmp_path / "table.parquet", {"index": np.arange(50), "found": np.ones((50, 3))}
    write_parquet(path, columns)
    heard = 0
    for moment in np.linspace(0, 0.03, 30):
        timer = threading.Timer(moment, interrupt)
        try:
            timer.start()
            while timer.is_alive():
                write_parquet(path, columns)
                read_parquet(path)
            timer.join()
        except KeyboardInterrupt:
            heard += 1
    assert heard == 30
    np.testing.assert_array_equal(read_parquet(path)["index"], columns["index"])
    assert not list(tmp_path.glob(".*"))


def test_an_interrupt_anywhere_in_the_command_line_ends_with_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while it is being imported."""

    class Interrupted(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "robustatlas.cli":
                interrupt()

    for name in [name for name in sys.modules if name.startswith("robustatlas.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 130
    assert capsys.readouterr().err == f"\n{STOPPED}\n"


class Moment(NamedTuple):
    """What has just been imported when the Ctrl-C comes; during ``exec`` too, of which the interpreter keeps note."""

    imported: str
    inside_exec: bool = False


MOMENTS = [
    *map(Moment, ("rich.console", "typer", "duckdb", "pydantic", "torch", "robustatlas.evaluation")),
    *(Moment(name, True) for name in ("pydantic", "torch", "robustatlas.models.classifier")),
]


@pytest.mark.parametrize(
    ("moment", "ray"), [*((moment, False) for moment in MOMENTS), *((moment, True) for moment in MOMENTS[::4])]
)
def test_a_ctrl_c_of_the_first_seconds_ends_as_later(tmp_path: Path, moment: Moment, ray: bool) -> None:
    """In a process of its own, by a real signal; with Ray loaded as well."""
    script = f"""
        import importlib.abc, os, signal, sys, types
        from robustatlas.__main__ import main

        class Interrupts(importlib.abc.MetaPathFinder):
            def find_spec(self, name, *_):
                if name == {moment.imported!r}:
                    sys.meta_path.remove(self)
                    act = "os.kill(os.getpid(), signal.SIGINT); sum(range(1000))"
                    exec(act) if {moment.inside_exec} else eval(compile(act.split(";")[0], "", "eval"))

        signal.signal(signal.SIGINT, signal.default_int_handler)
        if {ray}:
            sys.modules["ray"] = types.ModuleType("ray")
        sys.meta_path.insert(0, Interrupts())
        sys.argv[1:] = ["evaluate", "builtin:digits-linf", "--data", "digits", "--run", {str(tmp_path / "r")!r}]
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stderr == f"\n{STOPPED}\n"
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("seconds", [0.3, 0.7, 1.1, 1.6, 2.2, 3.0])
def test_a_ctrl_c_at_any_time_gets_a_sentence_and_130(tmp_path: Path, seconds: float) -> None:
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{listening}; print('here', flush=True); from robustatlas.__main__ import main; main()"
    arguments = [
        "evaluate",
        "builtin:digits-linf",
        "--data",
        "digits",
        "--attacks",
        "linf,l2",
        "--run",
        f"{tmp_path}/r",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("Stopped. ") and "the same command" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("arguments", "code", "said"), [(["--version"], 0, "robustatlas"), (["merge"], 2, "")])
def test_with_ray_the_command_line_ends_before_the_interpreter(arguments: list[str], code: int, said: str) -> None:
    """Whose end Ray's threads may crash; what others want to do at the end is done."""
    script = """
        import atexit, os, signal, sys, types
        from robustatlas.__main__ import main

        class Crashes:
            def __del__(self, kill=os.kill, number=os.getpid(), how=signal.SIGSEGV):
                kill(number, how)

        sys.crashes, sys.modules["ray"] = Crashes(), types.ModuleType("ray")
        atexit.register(print, "at the end")
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == code
    assert ended.stdout.startswith(said) and ended.stdout.endswith("at the end\n")
