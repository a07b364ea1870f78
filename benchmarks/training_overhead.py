"""What the trainer costs over a bare hand-written loop of the same recipe, and what joint recipes cost over one attack.

    python benchmarks/training_overhead.py [--rounds 5] [--batches 12] [--output FILE.json]

The small CNN on 28x28 grey images, batches of 128, ten steps of crafting. Bare loop and trainer alternate, and the
fastest of all rounds counts; seconds are of processor time besides the wall's, so that other work on the machine
disturbs little. The bare loops have no schedule, no log and nothing held out; "as used" is the trainer with all of it.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from robustatlas.datasets import Dataset
from robustatlas.models.architectures import small_cnn
from robustatlas.training import Recipe, Settings, TrainingDisplay, recipe_named, train

BATCH, STEPS = 128, 10
LINF, L2, L1 = 0.1, 1.5, 12.0


def images(count: int) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 1, 28, 28, generator=generator)
    return Dataset.of(x, torch.randint(10, (count,), generator=generator), "random", [str(k) for k in range(10)])


def bare_pgd(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    net.eval()
    delta = torch.empty_like(x).uniform_(-LINF, LINF)
    delta = (x + delta).clamp(0, 1) - x
    for _ in range(STEPS):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(net(x + delta), y), delta)
        with torch.no_grad():
            delta = (delta + LINF / 4 * gradient.sign()).clamp(-LINF, LINF)
            delta = (x + delta).clamp(0, 1) - x
    net.train()
    return F.cross_entropy(net(x + delta.detach()), y)


def bare_standard(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y)


def bare_trades(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    net.eval()
    with torch.no_grad():
        natural = net(x).softmax(1)
    x_adv = x + 0.001 * torch.randn_like(x)
    for _ in range(STEPS):
        x_adv.requires_grad_()
        loss = F.kl_div(net(x_adv).log_softmax(1), natural, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x_adv)
        with torch.no_grad():
            x_adv = x_adv + LINF / 4 * gradient.sign()
            x_adv = torch.min(torch.max(x_adv, x - LINF), x + LINF).clamp(0, 1)
    net.train()
    clean, attacked = net(x), net(x_adv.detach())
    divergence = F.kl_div(attacked.log_softmax(1), clean.softmax(1), reduction="batchmean")
    return F.cross_entropy(clean, y) + 6 * divergence


BARE: dict[str, Callable[[nn.Module, Tensor, Tensor], Tensor]] = {
    "standard": bare_standard,
    "pgd": bare_pgd,
    "trades": bare_trades,
}
RECIPES: dict[str, Recipe] = {
    "standard": recipe_named("standard"),
    "pgd": recipe_named("pgd", {"linf": LINF}, STEPS),
    "trades": recipe_named("trades", {"linf": LINF}, STEPS),
    "max of linf, l2": recipe_named("max", {"linf": LINF, "l2": L2}, STEPS),
    "max of linf, l2, l1": recipe_named("max", {"linf": LINF, "l2": L2, "l1": L1}, STEPS),
    "msd of linf, l2": recipe_named("msd", {"linf": LINF, "l2": L2}, STEPS),
    "msd of linf, l2, l1": recipe_named("msd", {"linf": LINF, "l2": L2, "l1": L1}, STEPS),
}


class Clock(TrainingDisplay):
    """Times the updates after the first one."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def update(self, done: int, loss: float | None) -> None:
        self.marks.append((time.process_time(), time.perf_counter()))

    def seconds(self) -> tuple[float, float]:
        first, last = self.marks[0], self.marks[-1]
        count = len(self.marks) - 1
        return (last[0] - first[0]) / count, (last[1] - first[1]) / count


def network() -> nn.Module:
    torch.manual_seed(0)
    return small_cnn()


def time_bare(name: str, data: Dataset) -> tuple[float, float]:
    net, clock = network(), Clock()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for chosen in torch.randperm(len(data)).split(BATCH):
        loss = BARE[name](net, data.images[chosen], data.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.update(0, loss.item())
    return clock.seconds()


def time_trainer(recipe: Recipe, data: Dataset) -> tuple[float, float]:
    clock = Clock()
    train(network(), data, recipe, settings=Settings(epochs=1, batch_size=BATCH, held_out=0), progress=clock)
    return clock.seconds()


def time_as_used(recipe: Recipe, data: Dataset) -> float:
    """Processor seconds of a whole training, with what is held out, logged and saved, per image and epoch."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        train(network(), data, recipe, settings=Settings(epochs=2, batch_size=BATCH), out=folder)
        return (time.process_time() - begun) / (2 * len(data) * 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--as-used", type=int, default=8000, help="images of the training with everything; 0: none")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    data = images(options.batches * BATCH)
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for name, recipe in RECIPES.items():
            if name in BARE:
                times.setdefault(f"bare {name}", []).append(time_bare(name, data))
            times.setdefault(name, []).append(time_trainer(recipe, data))
    best = {name: {"cpu": min(t[0] for t in each), "wall": min(t[1] for t in each)} for name, each in times.items()}
    pgd = best["pgd"]["cpu"]
    result = {
        "batch": BATCH,
        "steps": STEPS,
        "rounds": options.rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "milliseconds_per_batch": {
            name: {kind: 1000 * value for kind, value in each.items()} for name, each in best.items()
        },
        "samples_per_second": {name: BATCH / each["cpu"] for name, each in best.items()},
        "overhead_percent": {name: 100 * (best[name]["cpu"] / best[f"bare {name}"]["cpu"] - 1) for name in BARE},
        "times_pgd": {name: each["cpu"] / pgd for name, each in best.items() if not name.startswith("bare")},
    }
    if options.as_used:
        whole = time_as_used(RECIPES["pgd"], images(options.as_used))
        result["as_used_percent_over_bare_pgd"] = 100 * (whole * BATCH / best["bare pgd"]["cpu"] - 1)
    table = Table("recipe", "ms a batch", "samples/s", "over bare, %", "x pgd")
    for name, each in best.items():
        over = result["overhead_percent"].get(name)  # type: ignore[attr-defined]
        times_pgd = result["times_pgd"].get(name)  # type: ignore[attr-defined]
        table.add_row(
            name,
            f"{1000 * each['cpu']:.1f}",
            f"{BATCH / each['cpu']:.0f}",
            "" if over is None else f"{over:.1f}",
            "" if times_pgd is None else f"{times_pgd:.2f}",
        )
    Console().print(table)
    print({key: value for key, value in result.items() if key.startswith("as_used")})
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
