"""The command line as a user meets it: real processes, real files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra

MODEL = """
import os
import time
from pathlib import Path

import torch
from torch import nn

class Halting(nn.Sequential):
    def forward(self, x):
        folder = os.environ.get("HALT_AFTER_FILES_IN")
        if folder and list(Path(folder).glob("*.parquet")):
            time.sleep(120)
        return super().forward(x)

def make():
    torch.manual_seed(0)
    return Halting(nn.Flatten(), nn.Linear(64, 10))

def broken():
    return nn.Sequential(nn.Flatten(), nn.Linear(65, 10))

def not_a_model():
    return 3
"""


def robustatlas(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from robustatlas.cli import main; main()", *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "net.py").write_text(MODEL)
    return folder


@pytest.fixture(scope="module")
def finished(workplace: Path) -> Path:
    run = workplace / "finished"
    done = robustatlas("evaluate", f"{workplace}/net.py:make", "--data", "digits", "--attacks", "linf,l2",
                       "--strengths", "linf=0.1:5", "--strengths", "l2=0.25,0.5", "--run", run)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "600 samples" in done.stdout
    assert "left" in done.stderr  # plain progress lines, as this is no terminal
    return run


def test_what_evaluate_prints_fits_80_columns(finished: Path) -> None:
    shown = robustatlas("show", finished, "--explain")
    assert shown.returncode == 0
    assert "linf" in shown.stdout and "union accuracy" in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80


def test_query_and_attacks(finished: Path) -> None:
    asked = robustatlas("query", "SELECT attack, count(*) AS n FROM outcomes GROUP BY attack ORDER BY 1", finished)
    assert asked.returncode == 0
    assert "600" in asked.stdout
    listed = robustatlas("attacks")
    assert {"linf", "stadv", "multirobustbench"} <= set(listed.stdout.split())
    assert "nested" in robustatlas("attacks", "fog").stdout
    assert "stadv" in robustatlas("attacks", "multirobustbench").stdout


def test_help_teaches_by_example() -> None:
    text = robustatlas("evaluate", "--help").stdout
    assert "robustatlas evaluate builtin:digits-linf" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["net.py:make", "--data", "nonsense"], "nonsense"),
        (["net.py:missing", "--data", "digits"], "missing"),
        (["nowhere.py:make", "--data", "digits"], "nowhere.py"),
        (["net.py:not_a_model", "--data", "digits"], "nn.Module"),
        (["net.py:broken", "--data", "digits"], "shape"),
        (["net.py:make", "--data", "digits", "--attacks", "lymph"], "lymph"),
        (["net.py:make", "--data", "digits", "--attacks", "hue"], "RGB"),
        (["net.py:make", "--data", "digits", "--search", "guess"], "guess"),
        (["net.py:make", "--data", "digits", "--procedure", "guess"], "guess"),
        (["net.py:make", "--data", "digits", "--strengths", "linf"], "linf"),
        (["net.py:make", "--data", "digits", "--strengths", "linf=0.2,0.1"], "increasing"),
        (["net.py:make", "--data", "digits", "--strengths", "l1=0.2"], "l1"),
        (["net.py:make", "--data", "digits", "--samples", "100000"], "600"),
        (["net.py:make", "--data", "digits", "--device", "tpu9"], "tpu9"),
        (["net.py:make", "--data", "digits", "--precision", "int4"], "int4"),
        (["net.py:make", "--data", "bright.npz"], "[0, 1]"),
        (["builtin:digits-linf", "--data", "digits", "--run", "net.py/sub"], "net.py"),
        (["builtin:nothing", "--data", "digits"], "nothing"),
    ],
)
def test_mistakes_get_one_sentence(workplace: Path, arguments: list[str], said: str) -> None:
    np.savez(workplace / "bright.npz", images=np.full((3, 1, 8, 8), 200.0, np.float32), labels=np.array([0, 1, 2]))
    done = robustatlas("evaluate", *arguments, cwd=workplace)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1


def test_other_settings_on_a_run_are_named(workplace: Path, finished: Path) -> None:
    done = robustatlas("evaluate", f"{workplace}/net.py:make", "--data", "digits", "--attacks", "linf,l2",
                       "--strengths", "linf=0.1:5", "--strengths", "l2=0.25,0.5",
                       "--run", finished, "--seed", 7)  # fmt: skip
    assert done.returncode == 1
    assert "seed: 0 in the run, 7 given" in " ".join(done.stderr.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on(workplace: Path, finished: Path, number: signal.Signals) -> None:
    run = workplace / number.name
    arguments = ["evaluate", f"{workplace}/net.py:make", "--data", "digits", "--attacks", "linf,l2",
                 "--strengths", "linf=0.1:5", "--strengths", "l2=0.25,0.5", "--run", str(run)]  # fmt: skip
    command = [sys.executable, "-c", "from robustatlas.cli import main; main()", *arguments]
    halting = os.environ | {"HALT_AFTER_FILES_IN": str(run / "outcomes" / "linf")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=halting, stderr=pipe, stdout=pipe, text=True) as process:
        deadline = time.monotonic() + 120
        while not list(run.glob("outcomes/linf/*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    if number == signal.SIGINT:
        assert "goes on" in said
        assert "Traceback" not in said
    kept = {path: path.stat().st_mtime_ns for path in run.rglob("*.parquet")}
    assert robustatlas(*arguments).returncode == 0
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    whole, resumed = ra.load_result(finished), ra.load_result(run)
    for attack in whole.attacks:
        np.testing.assert_array_equal(whole.minimal_size(attack), resumed.minimal_size(attack))
        np.testing.assert_array_equal(whole.outcome(attack).forward, resumed.outcome(attack).forward)
