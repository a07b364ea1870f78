"""An evaluation that is killed again and again ends with the numbers of one that is left alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import robustatlas as ra
from helpers_core import brief
from robustatlas.attacks.catalogue import catalogue
from robustatlas.models.loading import load_model
from robustatlas.outcomes import Run


def evaluate(run: Path | None) -> ra.Result:
    net, attack = load_model("builtin:digits-standard"), brief(catalogue()["linf"], (0.05, 0.1))
    return ra.evaluate(net, ra.load_dataset("digits"), [attack], samples=32, shard_size=8, run=run)


def evaluate_until_killed(run: Path, shards: int) -> None:
    """Die with the work on one shard done and not yet written, when ``shards`` are."""
    write = Run.write

    def deadly(*arguments: Any, **options: Any) -> None:
        if finished(run) == shards:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments, **options)

    Run.write = deadly  # type: ignore[method-assign]
    evaluate(run)


def finished(run: Path) -> int:
    return len(list(run.glob("outcomes/linf-*/*.parquet")))


def test_killed_again_and_again(tmp_path: Path) -> None:
    for shards in (1, 3):
        script = f"import sys, pathlib, {__name__} as t; t.evaluate_until_killed(pathlib.Path(sys.argv[1]), {shards})"
        threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # of which the last digit may depend
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=threads, timeout=300, check=False)
        assert done.returncode == -signal.SIGKILL
        assert finished(tmp_path) == shards
    whole, killed = evaluate(None).outcome("linf"), evaluate(tmp_path).outcome("linf")
    for name in ("minimal_strength", "minimal_size", "found_class", "forward", "backward", "margins", "fooled"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(killed, name))
