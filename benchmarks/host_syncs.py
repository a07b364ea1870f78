"""How often the loop of an attack waits for the device: operations whose result, or whose result's shape, the host must
know, counted by dispatch (so on any device) and divided by the steps of the optimizers.

python benchmarks/host_syncs.py --output host_syncs.json
"""

from __future__ import annotations

import argparse
import json
import platform
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import robustatlas as ra
from robustatlas import engine

RANKED = ("linf", "l2", "l1", "stadv", "recolor", "lpips", "elastic", "jpeg-linf", "snow")
WAITING = {"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.masked_select.default",
           "aten.equal.default", "aten.is_nonzero.default", "aten.unique_dim.default", "aten._unique2.default",
           "aten.bincount.default"}  # fmt: skip
INDEXED = {"aten.index.Tensor", "aten.index_put_.default", "aten.index_put.default", "aten._index_put_impl_.default"}


class Waits(TorchDispatchMode):
    """Counts operations that wait, by the line of the package that asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[str] = Counter()
        self.steps = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        masked = name in INDEXED and any(
            isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if name in WAITING or masked:
            ours = [frame for frame in traceback.extract_stack() if "/robustatlas/" in frame.filename]
            self.lines[f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].line}" if ours else "?"] += 1
        return func(*args, **(kwargs or {}))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts the engine's own loop only, not what stands around it."""
        run, evaluate = engine.run, engine.evaluate

        def counted_run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return run(*args, **kwargs)

        def counted_evaluate(*args: Any, **kwargs: Any) -> Any:
            self.steps += 1
            return evaluate(*args, **kwargs)

        with mock.patch.object(engine, "run", counted_run), mock.patch.object(engine, "evaluate", counted_evaluate):
            yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:digits-linf", help="whatever evaluate takes")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--attacks", default=",".join(RANKED))
    parser.add_argument("--lines", type=int, default=3, help="how many of the lines that wait most to print")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, data = ra.load_model(arguments.model), ra.load_dataset(arguments.data)
    found = {}
    for attack in arguments.attacks.split(","):
        waits = Waits()
        with waits.counting():
            ra.evaluate(model, data, attack, samples=arguments.samples, batch_size=arguments.batch_size, progress=False)
        count = sum(waits.lines.values())
        found[attack] = {"waits": count, "steps": waits.steps, "waits a step": round(count / waits.steps, 3)}
        print(f"{attack:12} {count:7} waits {waits.steps:7} steps {count / waits.steps:6.2f} a step")
        for line, times in waits.lines.most_common(arguments.lines):
            print(f"    {times / waits.steps:5.2f}  {line}")
    if arguments.output:
        about = {"model": arguments.model, "samples": arguments.samples, "batch size": arguments.batch_size}
        text = json.dumps(
            {"machine": platform.machine(), "torch": torch.__version__, **about, "attacks": found}, indent=2
        )
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
