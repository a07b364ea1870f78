"""The updates of a training, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from robustatlas.training.averaging import average_weights
from robustatlas.training.batches import drawn
from robustatlas.training.chance import Chance
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.recipes.base import Batch
from robustatlas.training.run import TrainingRun
from robustatlas.training.watch import check_loss

_SEEDS = 1_000_003
_LOOK = 10
"""Updates between two looks at the loss on devices that would have to wait for it."""


@contextmanager
def generators_kept(device: torch.device) -> Iterator[None]:
    """Dropout draws from torch's generators, which are seeded at each step; the caller's are put back at the end."""
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        yield


def step(run: TrainingRun, display: TrainingDisplay) -> None:
    """The updates of one batch."""
    settings, position, team = run.settings, run.position, run.workers
    epoch, number = divmod(position.step, run.steps_per_epoch)
    chance = _chance(run, epoch)
    images = drawn(run, chance, number)
    rate = settings.rate(position.step, run.steps_per_epoch)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    for part in range(run.recipe.updates):
        batch = Batch(
            x=images.x,
            labels=images.labels,
            noise=images.crafting[part],
            shared=chance.shared[part].at(number),
            epoch=epoch,
            epochs=settings.epochs,
            done=position.step / run.steps,
            learning_rate=rate,
            mode=settings.crafting,
            part=part,
            mixed=None if images.targets is images.labels else images.targets,
        )
        loss, told = _update(run, batch)
        run.sums.add_(torch.cat([torch.ones_like(loss)[None], loss[None], told.to(loss)]), alpha=len(images.labels))
    if settings.ema:
        average_weights(run)
    position.step += 1
    known = None
    if team.device.type == "cpu" or position.step % _LOOK == 0 or position.step % run.steps_per_epoch == 0:
        known = float(loss)
        check_loss(known, epoch, rate)
    display.update(position.step, known)


def _chance(run: TrainingRun, epoch: int) -> Chance:
    if run.chance is None or run.chance.epoch != epoch:
        run.chance = Chance.of(run.settings.seed, run.images.index, epoch, run.steps_per_epoch, run.recipe.updates)
    return run.chance


def _seed(device: torch.device, seed: int) -> None:
    """Set torch's generators of the CPU and of ``device`` (torch.manual_seed sets all there are, and takes longer)."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _update(run: TrainingRun, batch: Batch) -> tuple[Tensor, Tensor]:
    """One update of the weights; its loss, and its accuracies [1 + A]: at the points trained on, and at the examples of
    each attack, NaN where that is not known; detached."""
    settings, step = run.settings, run.position.step
    _seed(run.workers.device, settings.seed * _SEEDS + step * run.recipe.updates + batch.part)
    run.net.train()
    run.optimizer.zero_grad(set_to_none=True)
    half = settings.precision == "bfloat16"
    with torch.autocast(run.workers.device.type, torch.bfloat16) if half else nullcontext():
        update = run.recipe.update(run.net, batch, run.memory)
    update.loss.backward()  # type: ignore[no-untyped-call]  # torch declares no types here
    parameters = [p for p in run.net.parameters() if p.grad is not None]
    run.workers.average(p.grad for p in parameters if p.grad is not None)
    if settings.clip_norm is not None:
        nn.utils.clip_grad_norm_(parameters, settings.clip_norm)
    if settings.clip_value is not None:
        nn.utils.clip_grad_value_(parameters, settings.clip_value)
    run.optimizer.step()
    if update.memory:
        run.memory = dict(update.memory)
        run.workers.average(run.memory.values())
    each = torch.full_like(run.sums[3:], torch.nan) if update.by_attack is None else update.by_attack
    return update.loss.detach(), torch.cat([update.correct[None], each.to(update.correct)])
