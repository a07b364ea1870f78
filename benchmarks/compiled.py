"""Seconds of one forward and backward pass of a ResNet: as it is, channels-last, compiled, and in bfloat16.

    python benchmarks/compiled.py [--net resnet20] [--batch 64] [--device cpu] [--output FILE.json]

They alternate, the shortest of the rounds counts (seconds of the processor on CPUs). The time to compile is said
beside, and how far the compiled gradient is from the other, relative to its largest number. A search in bfloat16 goes
channels-last.
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
from robustatlas.classifier.layout import ChannelsLast
from robustatlas.models.architectures import resnet18, resnet20

NETS = {"resnet20": resnet20, "resnet18": resnet18}
RESULTS = Path(__file__).parent / "results" / "compiled.json"
ROUNDS = 7


def gradient(net: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    leaf = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(net(leaf).float().amax(1).sum(), leaf)
    return slope


def half(net: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.autocast(x.device.type, torch.bfloat16):
        return gradient(net, x)


def seconds(work: Callable[[], Tensor], device: torch.device) -> float:
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    begun = clock()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=NETS, default="resnet20")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.manual_seed(0)
    net = NETS[given.net]().to(device).eval().requires_grad_(False)
    x = torch.rand(given.batch, 3, 32, 32, device=device)
    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    compiled, images_last = Compiled(net), ChannelsLast(net)
    begun = time.perf_counter()
    found = gradient(compiled, x)
    to_compile = time.perf_counter() - begun
    exact = gradient(net, x)
    ways: dict[str, Callable[[], Tensor]] = {
        "as it is": lambda: gradient(net, x),
        "channels-last": lambda: gradient(last, x.contiguous(memory_format=torch.channels_last)),
        "compiled": lambda: gradient(compiled, x),
        "bfloat16": lambda: half(net, x),
        "bfloat16, images channels-last": lambda: half(images_last, x),
    }
    times = {name: min(seconds(way, device) for _ in range(ROUNDS)) for name, way in ways.items()}
    result = {
        "network": given.net,
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
