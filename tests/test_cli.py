"""The command line as a user meets it: real files, and real processes where a process is what matters."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from command_line import entered
from robustatlas.cli.evaluate import run_folder

MODEL = """
import os
import time
from pathlib import Path

import torch
from torch import nn

class Halting(nn.Sequential):
    def forward(self, x):
        folder = os.environ.get("HALT_AFTER_FILES_IN")
        if folder and list(Path(folder).glob("linf-*/*.parquet")):
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

OWN = """
import torch
from torch import nn

from robustatlas import Attack, AttackRun
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.lp import Linf

def make(width=8, inputs=64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 10))

mine = Attack("mine", Linf(), (AttackRun(PGD(steps=3), "margin"),), (0.1, 0.2))

def make_attack():
    return mine
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to enter commands in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "net.py").write_text(MODEL)
    return folder


EVALUATE = ["evaluate", "--data", "digits", "--attacks", "linf,l2", "--strengths", "linf=0.1:5",
            "--strengths", "l2=0.25,0.5", "--samples", "120", "--shard-size", "40"]  # fmt: skip


@pytest.fixture(scope="module")
def finished(workplace: Path) -> Path:
    run = workplace / "finished"
    said = entered(*EVALUATE, "--run", run, f"{workplace}/net.py:make")
    assert "120 samples" in said.out
    assert "left" in said.err  # plain progress lines, as this is not a terminal
    return run


def test_query_and_attacks(evaluated_run: Path) -> None:
    asked = entered("query", "SELECT attack, count(*) AS n FROM outcomes GROUP BY attack ORDER BY 1", evaluated_run)
    assert asked.out.split().count("16") == 3
    assert {"linf", "stadv", "multirobustbench"} <= set(entered("attacks").out.split())
    assert len(entered("attacks", "linf").out.splitlines()) <= 12  # and no plans
    shown = entered("attacks", "snow", "--plans").line
    assert "nested" in shown and "moved by 1 times its size" in shown
    told = entered("attacks", "l2", "--plans").line
    assert all(each in told for each in ("descent low default high", "restart FMN", "24 x 40", "StopFruitless"))
    assert told.count("passes at most") == 2 * 5, "of each search by each protocol"
    assert "stadv" in entered("attacks", "multirobustbench").out


def test_help_waits_for_nothing_that_it_does_not_use() -> None:
    begun = "import sys; from robustatlas.cli import main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", begun], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "matplotlib", "scipy.special", "onnx", "duckdb"} & set(loaded)


def test_a_mistake_ends_with_one_sentence(workplace: Path) -> None:
    command = [sys.executable, "-m", "robustatlas", "evaluate", "net.py:missing", "--data", "digits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=workplace)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1


def test_a_run_grows(here: Path) -> None:
    (here / "own.py").write_text(OWN)
    begin = ["evaluate", "own.py:make", "--data", "digits", "--run", "grown", "--set", "width=4", "--name", "mine"]
    strengths = ["--strengths", "linf=8/255,16/255", "--strengths", "mine=0.1:2"]
    few = entered(*begin, *strengths, "--attacks", "lp,own.py:mine", "--exclude", "l0,l1,l2", "--samples", 12,
                  "--mean", "0.5", "--std", "1/4", "--threads", 1, "-v")  # fmt: skip
    assert "mine on 12 samples" in few.out
    assert "1 thread on cpu" in few.err
    kept = {path: path.stat().st_mtime_ns for path in here.rglob("*.parquet")}
    entered(*begin, *strengths, "--attacks", "linf,own.py:make_attack", "--samples", 20, "--mean", "0.5",
            "--std", "0.25", "--shard-size", 4)  # fmt: skip
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert len(list(here.glob("grown/outcomes/linf-*/*.parquet"))) == 1 + 2
    grown = ra.load_result("grown")
    assert grown.samples == 20 and set(grown.attacks) == {"linf", "mine"}
    np.testing.assert_allclose(grown.strengths("linf"), [8 / 255, 16 / 255])
    other = entered(*begin, *strengths, "--attacks", "linf,own.py:mine", "--samples", 20, code=1)
    assert "weights" in other.err  # another normalisation


def test_features_of_lpips_come_from_a_file(here: Path) -> None:
    from safetensors.torch import save_file

    from robustatlas.threats.features import _backbone

    network = _backbone("alexnet_cifar")
    save_file({f"features.{name}": value for name, value in network.state_dict().items()}, here / "a.safetensors")
    images = np.random.default_rng(0).random((3, 3, 16, 16), np.float32)
    np.savez(here / "noise.npz", images=images, labels=np.array([0, 1, 0]))
    (here / "own.py").write_text(OWN)
    entered("evaluate", "own.py:make", "--set", "inputs=768", "--data", "noise.npz", "--attacks", "lpips",
            "--features", "alexnet_cifar=a.safetensors", "--strengths", "lpips=1")  # fmt: skip
    (folder,) = (here / "runs").iterdir()
    assert folder.name.startswith("own.py-make-noise-")
    (record,) = ra.load_result(folder).records.values()
    assert "['1', '4', '7', '9', '11']" in str(record.threat)  # the layers of the file's network


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on(workplace: Path, finished: Path, number: signal.Signals) -> None:
    run = workplace / number.name
    arguments = [*EVALUATE, "--run", str(run), f"{workplace}/net.py:make"]
    # A shell that puts this test in the background has it ignore interrupts, and its children with it.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{listening}; from robustatlas.cli import main; main()", *arguments]
    halting = os.environ | {"HALT_AFTER_FILES_IN": str(run / "outcomes")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=halting, stderr=pipe, stdout=pipe, text=True) as process:
        deadline = time.monotonic() + 120
        while not list(run.glob("outcomes/linf-*/*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode != 0
    if number == signal.SIGINT:
        assert "40 of 120" in said and str(run) in said
        assert "Traceback" not in said
    kept = {path: path.stat().st_mtime_ns for path in run.rglob("*.parquet")}
    entered(*arguments)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    whole, resumed = ra.load_result(finished), ra.load_result(run)
    assert whole.accuracies() == resumed.accuracies()
    for attack in whole.attacks:
        np.testing.assert_array_equal(whole.minimal_size(attack), resumed.minimal_size(attack))
        np.testing.assert_array_equal(whole.outcome(attack).forward, resumed.outcome(attack).forward)


def test_terminals_without_width_or_letters_show_every_word(tmp_path: Path) -> None:
    """Paths may have letters that the terminal lacks."""
    terminal = {"COLUMNS": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    command = "evaluate builtin:digits-linf --data digits --samples 2 --attacks linf --strengths linf=0.1 --run"
    written = subprocess.run(
        [sys.executable, "-m", "robustatlas", *command.split(), "rün/é"],
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | terminal,
        timeout=240,
        check=False,
    )
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "rün" / "é" / "run.json").is_file()
    assert b"% clean accuracy" in b" ".join(written.stdout.split())
    assert written.stdout.isascii()


def test_the_default_folder_depends_on_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, data = (
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)),
        ra.Dataset.from_arrays(np.eye(2, 4), [0, 1]),
    )
    monkeypatch.chdir(tmp_path)

    def folder_of(net: Any) -> str:
        return run_folder(ra.Classifier(net, name="mine"), data).as_posix()

    first = folder_of(net)
    assert re.fullmatch(r"runs/mine-data-[0-9a-f]{8}", first) and folder_of(net) == first
    with torch.no_grad():
        net[1].bias.add_(1)
    second = folder_of(net)
    assert second != first and re.fullmatch(r"runs/mine-data-[0-9a-f]{8}", second)
    assert folder_of(lambda x: x) == "runs/mine-data", "what has no weights is told apart by its answers alone"
