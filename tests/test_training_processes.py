"""Several processes under accelerate train the same network as one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("accelerate")

SCRIPT = """
import sys, torch
import robustatlas as ra
from robustatlas.training import Settings, recipe_named
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
data = ra.load_dataset("digits", "train").take(256)
recipe = recipe_named("avg", {"linf": 0.1, "l1": 2.0}, steps=2)
ra.train(net, data, recipe, settings=Settings(epochs=2, batch_size=64), out=sys.argv[1], device="cpu")
"""


def test_two_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29517"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(script), str(tmp_path / "one")], env=environment, check=True)
    subprocess.run([*two, str(script), str(tmp_path / "two")], env=environment, check=True)
    first, second = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-4, atol=1e-4)
