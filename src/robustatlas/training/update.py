"""The updates of a training, batch by batch."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.common.errors import warn
from robustatlas.common.noise import Noise
from robustatlas.models.classifier.outputs import logits_in
from robustatlas.training.augmentation import augmentation_named, cutmix
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.epoch import average_weights
from robustatlas.training.recipes.base import Batch
from robustatlas.training.run import EpochDraws, TrainingRun
from robustatlas.training.watch import check_loss

_PICK, _AUGMENT, _CRAFT = range(3)
"""Streams of an extra image."""
_MIX = 2
"""Stream of CutMix; the other augmentations use the streams before it."""


@dataclass(frozen=True)
class DrawnBatch:
    """Images of one batch before its updates.

    Attributes:
        x: ``[B, ...]``.
        labels: ``[B]``; an image with a patch of another one has the label of the larger part.
        targets: the labels, or [B, C], the shares of both classes.
        crafting: for each update of the batch, a stream for each image.
    """

    x: Tensor
    labels: Tensor
    targets: Tensor
    crafting: tuple[Noise, ...]


def draw_batch(run: TrainingRun, draws: EpochDraws, number: int) -> DrawnBatch:
    """Return the batch with this number in its epoch."""
    settings, team = run.settings, run.workers
    extra = int(settings.ratio * settings.batch_size) if run.extra is not None else 0
    size = settings.batch_size - extra
    chosen = team.share(draws.order[number * size : (number + 1) * size])
    x, labels = run.images.batch(chosen), run.images.labels[chosen]
    augmentation = draws.augmentation.take(chosen)
    crafting = [noise.take(chosen) for noise in draws.crafting]
    if run.extra is not None:
        noise = Noise.for_samples(
            settings.seed, run.position.step * extra + team.share(torch.arange(extra, device=team.device)), "extra"
        )
        picked = noise.child(_PICK).integers(len(run.extra))
        x = torch.cat([x, run.extra.batch(picked)])
        labels = torch.cat([labels, run.extra.labels[picked]])
        augmentation = _join_noise(augmentation, noise.child(_AUGMENT))
        crafting = [_join_noise(own, noise.child(_CRAFT + part)) for part, own in enumerate(crafting)]
    x = augmentation_named(settings.augmentation)(x, augmentation)
    if not settings.cutmix:
        return DrawnBatch(x, labels, labels, tuple(crafting))
    x, partner, share = cutmix(x, augmentation.child(_MIX), settings.cutmix)
    one, other = (F.one_hot(each, run.classes).to(x.dtype) for each in (labels, labels[partner]))
    targets = share[:, None] * one + (1 - share[:, None]) * other
    return DrawnBatch(x, torch.where(share >= 0.5, labels, labels[partner]), targets, tuple(crafting))


def _join_noise(one: Noise, other: Noise) -> Noise:
    return Noise(torch.cat([one.keys, other.keys]))


_SEEDS = 1_000_003
_LOSS_INTERVAL = 10
"""Number of updates between two checks of the loss on accelerators, where reading it waits for the device."""


@contextmanager
def keep_generators(device: torch.device) -> Iterator[None]:
    """Restore torch's generators at the end of the block: each step seeds them for dropout."""
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        yield


def step(run: TrainingRun, display: TrainingDisplay) -> None:
    """Run the updates of one batch."""
    settings, position, team = run.settings, run.position, run.workers
    epoch, number = divmod(position.step, run.steps_per_epoch)
    draws = _epoch_draws(run, epoch)
    images = draw_batch(run, draws, number)
    rate = settings.rate(position.step, run.steps_per_epoch)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    for part in range(run.recipe.updates):
        batch = Batch(
            x=images.x,
            labels=images.labels,
            noise=images.crafting[part],
            shared=draws.shared[part].row(number),
            epoch=epoch,
            epochs=settings.epochs,
            done=position.step / run.steps,
            learning_rate=rate,
            mode=settings.crafting,
            part=part,
            mixed=None if images.targets is images.labels else images.targets,
        )
        loss, correct = _update(run, batch)
        run.sums.add_(torch.cat([torch.ones_like(loss)[None], loss[None], correct.to(loss)]), alpha=len(images.labels))
    if settings.ema:
        average_weights(run)
    position.step += 1
    known = None
    if team.device.type == "cpu" or position.step % _LOSS_INTERVAL == 0 or position.step % run.steps_per_epoch == 0:
        known = float(loss)
        check_loss(known, epoch, rate)
    display.update(position.step, known)


def _epoch_draws(run: TrainingRun, epoch: int) -> EpochDraws:
    if run.draws is None or run.draws.epoch != epoch:
        run.draws = EpochDraws.draw(run.settings.seed, run.images.index, epoch, run.steps_per_epoch, run.recipe.updates)
    return run.draws


def _seed(device: torch.device, seed: int) -> None:
    """Seed torch's generators of the CPU and of ``device``; torch.manual_seed would seed all devices and is slower."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _update(run: TrainingRun, batch: Batch) -> tuple[Tensor, Tensor]:
    """Update the weights once.

    Returns:
        the detached loss, and accuracies [1 + A] at the training inputs and at the examples of each attack (NaN:
        unknown).
    """
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


@contextmanager
def logits_alone(net: nn.Module) -> Iterator[None]:
    """Let ``net`` return only its logits [B, C] inside of the block.

    Auxiliary heads are ignored with one warning, and a single image without its batch dimension gets it back.

    >>> class Pair(nn.Module):
    ...     def forward(self, x):
    ...         return x, "more"
    >>> with logits_alone(net := Pair()):
    ...     net(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    has_warned = False

    def first(module: nn.Module, given: tuple[Any, ...], output: Any) -> Tensor | None:
        nonlocal has_warned
        if isinstance(output, Tensor) and output.dim() > 1:
            return None
        parts = [part for part in output if isinstance(part, Tensor)] if isinstance(output, (tuple, list)) else []
        if len(parts) > 1 and not has_warned:
            has_warned = True
            warn(
                f"The network returns {len(parts)} tensors while it is trained, of which the logits alone are trained: "
                "auxiliary heads have no part in the loss."
            )
        return logits_in(output, len(given[0]))

    if isinstance(net, torch.jit.ScriptModule):  # it accepts no hooks, and its output type is declared
        yield
        return
    handle = net.register_forward_hook(first)
    try:
        yield
    finally:
        handle.remove()
