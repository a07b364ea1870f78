"""Seconds of one forward and backward pass of ResNet-20: as it is, channels-last, and compiled as a search does it.

    python benchmarks/compiled.py [--batch 64] [--device cpu] [--output FILE.json]

The three alternate, the shortest of the rounds counts (seconds of the processor on CPUs). The time to compile is said
beside, and how far the compiled gradient is from the other, relative to its largest number.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from robustatlas.classifier.compiled import Compiled
from robustatlas.models.architectures import resnet20

RESULTS = Path(__file__).parent / "results" / "compiled.json"
ROUNDS = 7


def gradient(net: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    leaf = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(net(leaf).amax(1).sum(), leaf)
    return slope


def seconds(work: Callable[[], Tensor], device: torch.device) -> float:
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    begun = clock()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.manual_seed(0)
    net = resnet20().to(device).eval().requires_grad_(False)
    x = torch.rand(given.batch, 3, 32, 32, device=device)
    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    compiled = Compiled(net)
    begun = time.perf_counter()
    found = gradient(compiled, x)
    to_compile = time.perf_counter() - begun
    exact = gradient(net, x)
    ways: dict[str, Callable[[], Tensor]] = {
        "as it is": lambda: gradient(net, x),
        "channels-last": lambda: gradient(last, x.contiguous(memory_format=torch.channels_last)),
        "compiled": lambda: gradient(compiled, x),
    }
    times = {name: min(seconds(way, device) for _ in range(ROUNDS)) for name, way in ways.items()}
    result = {
        "batch": given.batch,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seconds": times,
        "times_faster": {name: times["as it is"] / value for name, value in times.items()},
        "seconds_to_compile": to_compile,
        "gradient_difference": float((found - exact).abs().max() / exact.abs().max()),
    }
    table = Table("network", "ms", "times faster")
    for name, value in times.items():
        table.add_row(name, f"{1000 * value:.0f}", f"{times['as it is'] / value:.2f}")
    Console().print(table)
    given.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
