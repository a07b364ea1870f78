"""Overhead of an evaluation over the plain passes of its network: wall time over passes x N / (2 T0).

T0 is the number of samples a second that go forward and backward (one of each) through the network alone, at the
evaluation's batch size and number format, forward and back (float32 is computed as such, without TF32), on this device.
An evaluation that spends nothing outside of the network takes passes x N / (2 T0) seconds, where passes counts both
kinds; 1.3 is the goal on a GPU.

    python benchmarks/gpu.py [--device cuda] [--net resnet18] [--batch 256] [--samples 512] [--attacks linf,l2]
        [--precision float32] [--compile]

Writes the row of this device into benchmarks/results/gpu.json.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

import robustatlas as ra
from robustatlas.data import Dataset, InMemory
from robustatlas.models.architectures import architecture_named
from robustatlas.models.classifier import undisturbed
from robustatlas.models.classifier.precision import products_in

RESULTS = Path(__file__).parent / "results" / "gpu.json"
ROUNDS = 5


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def clock(device: torch.device) -> float:
    """Seconds: of the processor where that computes, on a machine that others share; else of the wall."""
    wait(device)
    return time.process_time() if device.type == "cpu" else time.perf_counter()


def throughput(model: ra.Classifier, batch: int) -> float:
    """T0: the best of some rounds, after one to warm up."""
    x = torch.rand(batch, 3, 32, 32, device=model.device)
    labels = torch.zeros(batch, dtype=torch.int64, device=model.device)
    best = float("inf")
    with undisturbed(), model.evaluating():
        for number in range(ROUNDS + 1):
            begun = clock(model.device)
            leaf = x.clone().requires_grad_()
            logits, _ = model.searched(leaf, labels, None)
            with products_in(model.precision):
                torch.autograd.grad(logits.float().amax(1).sum(), leaf)
            taken = clock(model.device) - begun
            best = min(best, taken) if number else best
    return batch / best


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    if asked.device == "cpu":
        torch.set_num_threads(1)
    model = ra.Classifier(
        architecture_named(asked.net, 3, 32, 10).eval(),
        device=asked.device,
        precision=asked.precision,
        compiled=asked.compile,
    )
    x = torch.randint(0, 256, (asked.samples, 3, 32, 32), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    with model.evaluating(), torch.no_grad():
        labels = torch.cat(
            [model.logits(part.float().div(255).to(model.device)).argmax(1).cpu() for part in x.split(64)]
        )
    attacks = asked.attacks.split(",")
    pace = throughput(model, asked.batch)
    begun = clock(model.device)
    data = Dataset(InMemory(x), labels, "drawn", tuple(map(str, range(10))), torch.arange(len(x)))
    result = ra.evaluate(model, data, attacks, batch_size=asked.batch, diagnose=False, audit=0, progress=False)
    taken = clock(model.device) - begun
    passes = sum(sum(result.passes(name)) for name in attacks)
    ideal = passes * asked.samples / (2 * pace)
    name = torch.cuda.get_device_name() if asked.device.startswith("cuda") else platform.processor() or "cpu"
    return {
        "device": name, "net": asked.net, "batch": asked.batch, "precision": asked.precision, "compiled": asked.compile,
        "samples": asked.samples, "attacks": attacks, "forward_and_backward_a_second": pace, "passes_a_sample": passes,
        "seconds": taken, "seconds_of_the_network": ideal, "ratio": taken / ideal, "torch": torch.__version__,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--attacks", default="linf,l2")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", action="store_true")
    row = measured(parser.parse_args())
    print(json.dumps(row, indent=1))
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    same = ("device", "net", "batch", "samples", "precision", "compiled")
    rows = [old for old in rows if any(old.get(key) != row[key] for key in same)]
    RESULTS.write_text(json.dumps([*rows, row], indent=1) + "\n")


if __name__ == "__main__":
    main()
