"""Cost of the trainer over a bare hand-written loop of the same recipe, and of joint recipes over one attack.

    python benchmarks/training_overhead.py [--batches 40] [--output FILE.json]

The small CNN on 28x28 grey images, batches of 128, ten steps of crafting. After each update of the trainer the bare
loop makes one of its own on as many images (beside joint recipes: that of pgd), so a machine that slows down slows
both. What counts is the median of the ratios of such pairs, in seconds of the processor, with an interval (95 %,
bootstrap of the pairs). Nothing is held out or written.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from robustatlas.data import Dataset
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


def network() -> nn.Module:
    torch.manual_seed(0)
    return small_cnn()


class Bare:
    """A hand-written loop: one update at each call."""

    def __init__(self, name: str, data: Dataset) -> None:
        self.loss, self.data, self.net = BARE[name], data, network()
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.batches = iter(torch.randperm(len(data)).split(BATCH))

    def __call__(self) -> float:
        chosen = next(self.batches)
        loss = self.loss(self.net, self.data.images[chosen], self.data.labels[chosen])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Taking(TrainingDisplay):
    """Takes turns: after each update of the trainer one of the bare loop. Seconds of both, by the processor's clock."""

    def __init__(self, bare: Bare) -> None:
        self.bare, self.begun = bare, time.process_time()
        self.trainer: list[float] = []
        self.by_hand: list[float] = []

    def update(self, done: int, loss: float | None) -> None:
        turn = time.process_time()
        self.bare()
        end = time.process_time()
        self.trainer.append(turn - self.begun)
        self.by_hand.append(end - turn)
        self.begun = time.process_time()


def compare_loops(recipe: Recipe, bare: str, data: Dataset) -> Taking:
    """Time the trainer and a bare loop in turn; the first pair, which warms up, is left out."""
    torch.manual_seed(0)
    turns = Taking(Bare(bare, data))
    train(network(), data, recipe, settings=Settings(epochs=1, batch_size=BATCH, held_out=0), progress=turns)
    turns.trainer, turns.by_hand = turns.trainer[1:], turns.by_hand[1:]
    return turns


def ratio(turns: Taking) -> NDArray[np.float64]:
    """Median ratio of trainer to bare loop in pairs, with the ends of its interval."""
    pairs = np.array(turns.trainer) / np.array(turns.by_hand)
    drawn = np.random.default_rng(0).choice(pairs, (2000, len(pairs)))
    return np.array([np.median(pairs), *np.percentile(np.median(drawn, 1), [2.5, 97.5])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = images(options.batches * BATCH)
    turns = {name: compare_loops(recipe, name if name in BARE else "pgd", data) for name, recipe in RECIPES.items()}
    over = {name: 100 * (ratio(turns[name]) - 1) for name in BARE}
    times_pgd = {name: ratio(each)[0] / ratio(turns["pgd"])[0] for name, each in turns.items() if name not in BARE}
    result = {
        "batch": BATCH,
        "steps": STEPS,
        "pairs": options.batches - 1,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "milliseconds_per_batch": {name: 1000 * median(each.trainer) for name, each in turns.items()},
        "milliseconds_per_batch_bare": {name: 1000 * median(turns[name].by_hand) for name in BARE},
        "overhead_percent": {name: each.round(2).tolist() for name, each in over.items()},
        "times_pgd": times_pgd,
    }
    table = Table("recipe", "ms a batch", "bare", "over bare, %", "x pgd")
    for name, each in turns.items():
        table.add_row(
            name,
            f"{1000 * median(each.trainer):.1f}",
            f"{1000 * median(each.by_hand):.1f}" if name in BARE else "",
            "{:.1f} [{:.1f}, {:.1f}]".format(*over[name]) if name in BARE else "",
            f"{times_pgd[name]:.2f}" if name in times_pgd else "",
        )
    Console().print(table)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
