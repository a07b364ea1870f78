"""Cost of a whole curve: the 20-strength linf and l2 curves by descent at two efforts, beside MultiRobustBench's
protocol.

The peer's protocol is per-image bisection over the strengths, with one AutoAttack call (APGD-T, then FAB-T) for the
images that share a strength, as its public code does; pyautoattack 0.2.0 runs it. Same model, images and process. Ours
takes seconds, in which the speed of a shared machine may be any: it is measured some times before and some times after
the protocol, and the median counts.

    python benchmarks/curve_cost.py [--samples 100] [--parts peer,standard,overhead,growth] [--output FILE.json]

Uses the small MNIST network and the CIFAR-10 ResNet-32 where ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA have them, else
the built-in digits model.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pyautoattack import AutoAttack
from rich.console import Console
from rich.table import Table
from torch import Tensor

import robustatlas as ra
from robustatlas.attacks.definition import Effort
from robustatlas.models.architectures import resnet32, small_cnn
from robustatlas.models.weights import load_weights

NORMS = {"linf": "Linf", "l2": "L2"}
EFFORTS: tuple[Effort, ...] = ("low", "default")
BEFORE, AFTER = 3, 2
"""Numbers of measurements of ours before and after the protocol."""


def subject(count: int) -> tuple[str, ra.Classifier, Tensor, Tensor, dict[str, list[float]]]:
    """Name, model, images, labels and strengths."""
    weights = Path(os.environ.get("ROBUSTATLAS_MODELS", "")) / "mnist_mmr_universal.safetensors"
    if weights.is_file():
        net, data, last = small_cnn(), ra.load_dataset("mnist"), {"linf": 0.3, "l2": 4.0}
        load_weights(net, weights)
        model, name = ra.Classifier(net.eval()), "mnist small CNN"
    else:
        model, data, last = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits"), {"linf": 0.3, "l2": 1.5}
        name = "digits-linf"
    strengths = {norm: (np.arange(1, 21) * value / 20).tolist() for norm, value in last.items()}
    return name, model, data.images[:count], data.labels[:count], strengths


def autoattack(model: ra.Classifier, norm: str, epsilon: float, attacks: list[str] | None) -> AutoAttack:
    peer = AutoAttack(_Module(model), norm=NORMS[norm], eps=epsilon, version="standard", seed=0)
    peer.verbose = False
    if attacks:
        peer.attacks_to_run = attacks
    return peer


class _Module(torch.nn.Module):
    """The counted classifier as the module that the peer expects."""

    def __init__(self, model: ra.Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model.logits(x)


def protocol(model: ra.Classifier, x: Tensor, y: Tensor, norm: str, strengths: list[float]) -> np.ndarray:
    """Robust accuracy in percent at each strength, by MultiRobustBench's evaluation loop."""
    low, high = np.zeros(len(x), int), np.full(len(x), len(strengths) - 1)
    robust = np.ones((len(x), len(strengths)), bool)
    while (open_ := low <= high).any():
        middle = (low + high) // 2
        for index in np.unique(middle[open_]):
            rows = np.flatnonzero(open_ & (middle == index))
            peer = autoattack(model, norm, strengths[index], ["apgd-t", "fab-t"])
            adversarial, _ = peer.run_standard_evaluation(x[rows], y[rows], batch_size=100)
            with torch.no_grad():
                correct = (model.logits(adversarial).argmax(1) == y[rows]).numpy()
            robust[rows[~correct], index:] = False
            low[rows[correct]], high[rows[~correct]] = index + 1, index - 1
    return 100 * robust.mean(0)


def measured(model: ra.Classifier, work: Callable[[], Any]) -> tuple[Any, float, int]:
    """Result, seconds, and forward plus backward passes of ``work``."""
    before = model.forward_passes + model.backward_passes
    begun = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun, model.forward_passes + model.backward_passes - before


def compare(count: int, *, standard: bool) -> list[dict[str, Any]]:
    name, model, x, y, strengths = subject(count)
    rows: list[dict[str, Any]] = []
    for norm in NORMS:

        def work(effort: Effort, samples: int = count, norm: str = norm) -> ra.Result:
            grid = {norm: strengths[norm]}
            return ra.evaluate(model, (x[:samples], y[:samples]), norm, strengths=grid, effort=effort, progress=False)

        def measure_efforts(times: int, work: Callable[[Effort], ra.Result] = work) -> dict[Effort, list[Any]]:
            return {effort: [measured(model, lambda e=effort: work(e)) for _ in range(times)] for effort in EFFORTS}

        for effort in EFFORTS:
            work(effort, min(count, 64))  # warm up
        before = measure_efforts(BEFORE)
        peer, seconds, passes = measured(model, lambda n=norm: protocol(model, x, y, n, strengths[n]))
        after = measure_efforts(AFTER)
        for effort in EFFORTS:
            runs = before[effort] + after[effort]
            ours, _, our_passes = runs[0]
            every = [run[1] for run in runs]
            our_seconds = float(np.median(every))
            accuracy = ours.outcome(norm).accuracies()
            difference = accuracy - peer
            rows.append({
                "model": name, "norm": norm, "effort": effort, "samples": count,
                "ours_seconds": our_seconds, "ours_seconds_each": every,
                "protocol_seconds": seconds, "times_faster": seconds / our_seconds,
                "ours_passes": our_passes / count, "protocol_passes": passes / count,
                "difference_mean": difference.mean(), "difference_largest": difference.max(),
                "difference_smallest": difference.min(),
                "ours": accuracy.tolist(), "protocol": peer.tolist(),
            })  # fmt: skip
        if standard:  # beside the default, the last of the efforts
            half = int(np.abs(accuracy - 50).argmin())
            _, seconds, passes = measured(
                model, lambda n=norm, h=half: autoattack(model, n, strengths[n][h], None).run_standard_evaluation(x, y)
            )
            rows[-1] |= {
                "standard_epsilon": strengths[norm][half],
                "standard_seconds": seconds,
                "standard_passes": passes / count,
                "curve_over_standard": our_seconds / seconds,
            }
    return rows


def overhead(count: int, batch: int) -> dict[str, Any]:
    """Share of the time of a linf and an l2 curve that is spent outside the network's forward and backward passes."""
    weights = Path(os.environ.get("ROBUSTATLAS_MODELS", "")) / "cifar10_resnet32_delta.safetensors"
    net, mean, std = resnet32()
    if weights.is_file():
        load_weights(net, weights)
        data = ra.load_dataset("cifar10")
        x, y = data.images[:count], data.labels[:count]
    else:
        x, y = torch.rand(count, 3, 32, 32), torch.randint(10, (count,))
    inside = 0.0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            begun = time.perf_counter()
            result = function(*args, **kwargs)
            inside += time.perf_counter() - begun
            return result

        return call

    model = ra.Classifier(timed(net.eval()), mean, std)
    original = torch.autograd.grad
    torch.autograd.grad = timed(original)  # type: ignore[assignment]
    try:
        begun = time.perf_counter()
        ra.evaluate(model, (x, y), ["linf", "l2"], batch_size=batch)
        total = time.perf_counter() - begun
    finally:
        torch.autograd.grad = original
    return {"samples": count, "batch_size": batch, "seconds": total, "outside_share": 1 - inside / total}


def growth(counts: tuple[int, ...]) -> list[dict[str, float]]:
    rows = []
    for count in counts:
        _, model, x, y, strengths = subject(count)
        _, seconds, passes = measured(
            model, lambda x=x, y=y, m=model, s=strengths: ra.evaluate(m, (x, y), list(NORMS), strengths=s)
        )
        rows.append(
            {"samples": len(x), "seconds": seconds, "seconds_a_sample": seconds / len(x), "passes": passes / len(x)}
        )
    return rows


def show(found: dict[str, Any]) -> None:
    console = Console(width=118)
    if "curves" in found:
        table = Table(title="A 20-strength curve by descent, and by MultiRobustBench's protocol")
        for name in (
            "model",
            "norm",
            "effort",
            "n",
            "ours s",
            "theirs s",
            "x faster",
            "ours F+B",
            "theirs F+B",
            "acc. diff. mean",
            "largest",
            "/ AA std",
        ):
            table.add_column(name, justify="right")
        for row in found["curves"]:
            ratio = f"{row['curve_over_standard']:.2f}" if "curve_over_standard" in row else "-"
            table.add_row(
                row["model"], row["norm"], row["effort"], str(row["samples"]),
                f"{row['ours_seconds']:.2f}", f"{row['protocol_seconds']:.1f}",
                f"{row['times_faster']:.1f}", f"{row['ours_passes']:.0f}", f"{row['protocol_passes']:.0f}",
                f"{row['difference_mean']:+.2f}", f"{row['difference_largest']:+.1f}", ratio,
            )  # fmt: skip
        console.print(table)
    if "overhead" in found:
        o = found["overhead"]
        console.print(
            f"ResNet-32, {o['samples']} samples, batch {o['batch_size']}: {100 * o['outside_share']:.1f} % "
            f"of {o['seconds']:.0f} s outside the network"
        )
    for row in found.get("growth", []):
        console.print(
            f"{row['samples']} samples, both norms: {row['seconds']:.1f} s, "
            f"{1000 * row['seconds_a_sample']:.1f} ms a sample"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--parts", default="peer,standard,overhead,growth")
    parser.add_argument("--output", type=Path, default=Path("curve_cost.json"))
    options = parser.parse_args()
    parts = options.parts.split(",")
    found: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "machine": platform.platform(),
    }
    if "peer" in parts:
        found["curves"] = compare(options.samples, standard="standard" in parts)
    if "overhead" in parts:
        found["overhead"] = overhead(256, 256)
    if "growth" in parts:
        found["growth"] = growth((100, 1000))
    show(found)
    options.output.write_text(json.dumps(found, indent=1))
    print(f"Written: {options.output}")


if __name__ == "__main__":
    main()
