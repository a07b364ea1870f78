"""Seconds of one forward and backward pass of a ResNet: as it is, channels-last, compiled, and in bfloat16.

    python benchmarks/compiled.py [--net resnet20] [--batch 64] [--device cpu] [--searches linf,elastic] [--samples 6]
        [--output FILE.json]

They alternate, the shortest of the rounds counts (seconds of the processor on CPUs). The time to compile is said
beside, and how far the compiled gradient is from the other, relative to its largest number. A search in bfloat16 goes
channels-last.

Then, of each attack named, a search in bfloat16 beside one in float32: time, and smallest sizes of the samples that
both fooled, on the ResNet-32 trained against `delta` where ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA have it and CIFAR-10
(else the built-in network for digits); `--searches ""` leaves them out.
"""

import argparse
import copy
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import robustatlas as ra
from robustatlas.models.architectures import resnet18, resnet20, resnet32
from robustatlas.models.classifier import Precision
from robustatlas.models.classifier.compiled import ChannelsLast, CompiledNetwork
from robustatlas.models.weights import load_weights

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


def model_in(precision: Precision, device: torch.device) -> tuple[ra.Classifier, ra.Dataset]:
    weights = Path(os.environ.get("ROBUSTATLAS_MODELS", "")) / "cifar10_resnet32_delta.safetensors"
    if not weights.is_file():
        return ra.load_model("builtin:digits-linf", precision=precision, device=device), ra.load_dataset("digits")
    net, mean, std = resnet32()
    load_weights(net, weights)
    return ra.Classifier(net.to(device).eval(), mean, std, name="delta", precision=precision), ra.load_dataset(
        "cifar10"
    )


def search(attack: str, samples: int, device: torch.device) -> dict[str, Any]:
    """In bfloat16 beside float32."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    taken, sizes = [], []
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    for precision in precisions:
        model, data = model_in(precision, device)
        begun = clock()
        result = ra.evaluate(model, data, attack, samples=samples, progress=False)
        taken.append(clock() - begun)
        sizes.append(result.outcome(attack).minimal_size)
    both = np.isfinite(sizes).all(0) & (sizes[0] > 0)
    assert both.any(), "no sample is fooled in both precisions; ask for more --samples"
    larger = 100 * (sizes[1][both] / sizes[0][both] - 1)
    return {
        "attack": attack,
        "network": model.name,
        "samples": samples,
        "seconds_float32": taken[0],
        "seconds_bfloat16": taken[1],
        "time_ratio": taken[1] / taken[0],
        "sizes_larger_percent": sorted(larger.tolist()),
        "fooled_in_float32_only": int((np.isfinite(sizes[0]) & ~np.isfinite(sizes[1])).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=NETS, default="resnet20")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--searches", default="linf,elastic")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.manual_seed(0)
    net = NETS[given.net]().to(device).eval().requires_grad_(False)
    x = torch.rand(given.batch, 3, 32, 32, device=device)
    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    compiled, images_last = CompiledNetwork(net), ChannelsLast(net)
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
    result["searches"] = [search(name, given.samples, device) for name in filter(None, given.searches.split(","))]
    for found in result["searches"]:
        worse = found["sizes_larger_percent"]
        said = (
            f"{min(worse):.1f} to {max(worse):.1f} %, median {np.median(worse):.1f} %" if worse else "no sample in both"
        )
        Console().print(f"{found['attack']} in bfloat16: {found['time_ratio']:.2f} of the time, sizes larger by {said}")
    given.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
