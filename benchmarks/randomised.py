"""A defense by noise: its robust accuracy here and by AutoAttack's version for randomised models, and what each costs.

    python benchmarks/randomised.py [--samples 100] [--draws 20] [--deviation 0.15] [--output FILE.json]

The shipped network ``digits-linf`` behind Gaussian noise. We search once, for all strengths; AutoAttack (``rand``:
APGD-CE and APGD-DLR, each gradient the mean of 20 draws) once for each. AutoAttack counts a sample as broken where
single draws of the network say so; its examples are judged here as ours are, by fresh draws, and the number that it
reports itself stands beside. Passes are those of the network, counted in front of it.
"""

import argparse
import json
import logging
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch
from pyautoattack import AutoAttack
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.common.noise import Noise
from robustatlas.report.facts import facts_of

STRENGTHS = [0.05, 0.1, 0.15, 0.2]


class Noisy(nn.Module):
    """Adds Gaussian noise to its input, and counts what it is asked."""

    def __init__(self, net: nn.Module, deviation: float) -> None:
        super().__init__()
        self.net, self.deviation, self.forwards, self.backwards = net, deviation, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.forwards += len(x)
        if x.requires_grad:
            x.register_hook(self._count_backward)
        logits: Tensor = self.net(x + self.deviation * torch.randn_like(x))
        return logits

    def _count_backward(self, gradient: Tensor) -> None:
        self.backwards += len(gradient)

    @property
    def passes(self) -> int:
        return self.forwards + self.backwards


def ours(net: Noisy, data: ra.Dataset, draws: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Accuracies with their intervals, and the cost of a sample."""
    before, begun = net.passes, time.perf_counter()
    result = ra.evaluate(ra.Classifier(net, draws=draws), data, "linf", strengths={"linf": STRENGTHS})
    cost = {"passes": (net.passes - before) / len(data), "seconds": time.perf_counter() - begun}
    found = facts_of(result).attacks[0].accuracy
    assert found is not None
    return [{"accuracy": cell.value, "low": cell.low, "high": cell.high} for cell in found], cost


def theirs(net: Noisy, data: ra.Dataset, epsilon: float) -> dict[str, float]:
    """AutoAttack's accuracy at one strength: as it says itself, and by fresh draws of the examples it returns."""
    before, begun = net.passes, time.perf_counter()
    torch.manual_seed(0)
    attack = AutoAttack(net, norm="Linf", eps=epsilon, version="rand", device="cpu", seed=0)
    logging.disable()
    adversarial, labels = attack.run_standard_evaluation(data.images, data.labels, batch_size=len(data))
    logging.disable(logging.NOTSET)
    spent, seconds = (net.passes - before) / len(data), time.perf_counter() - begun
    model = ra.Classifier(net, draws=1)
    streams = Noise.of(1, torch.arange(len(data)), "judged")
    clean = model.judge(data.images, data.labels, streams.child(0))
    fooled = model.judge(adversarial, data.labels, streams.child(1))
    return {
        "said": 100 * float((labels == data.labels).float().mean()),
        "judged": 100 * float((~(clean.wrong | fooled.wrong)).float().mean()),
        "passes": spent,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--deviation", type=float, default=0.15)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    base = ra.load_model("builtin:digits-linf").net
    assert isinstance(base, nn.Module)
    net = Noisy(base.requires_grad_(False), arguments.deviation).eval()
    data = ra.load_dataset("digits").take(arguments.samples)
    cells, cost = ours(net, data, arguments.draws)
    peer = [theirs(net, data, epsilon) for epsilon in STRENGTHS]
    report: dict[str, Any] = {
        "strengths": STRENGTHS,
        "ours": cells,
        "cost": cost,
        "autoattack rand": peer,
        "samples": arguments.samples,
        "draws": arguments.draws,
        "deviation": arguments.deviation,
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
    }
    table = Table("strength", "ours", "interval", "AutoAttack rand, fresh draws", "as it says", "its passes")
    for epsilon, cell, other in zip(STRENGTHS, cells, peer, strict=True):
        table.add_row(
            f"{epsilon:g}",
            f"{cell['accuracy']:.0f}",
            f"{cell['low']:.1f} to {cell['high']:.1f}",
            f"{other['judged']:.0f}",
            f"{other['said']:.0f}",
            f"{other['passes']:,.0f}",
        )
    Console().print(table)
    Console().print(f"ours, all strengths together: {cost['passes']:,.0f} passes a sample")
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
