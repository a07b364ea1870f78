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
from robustatlas.training.run import Chance, TrainingRun
from robustatlas.training.watch import check_loss

_PICK, _AUGMENT, _CRAFT = range(3)
"""Streams of an extra image."""
_MIX = 2
"""Stream of CutMix beside those of the other augmentations."""


@dataclass(frozen=True)
class Drawn:
    """The images ``x`` [B, ...] of one batch before any update of it. ``labels`` [B]: of an image with a patch of
    another one, that of the larger part. ``targets``: the labels, or [B, C], the shares of both classes. ``crafting``:
    for each update of the batch a stream per image."""

    x: Tensor
    labels: Tensor
    targets: Tensor
    crafting: tuple[Noise, ...]


def drawn(run: TrainingRun, chance: Chance, number: int) -> Drawn:
    """The batch of that number in its epoch."""
    settings, team = run.settings, run.workers
    extra = int(settings.ratio * settings.batch_size) if run.extra is not None else 0
    size = settings.batch_size - extra
    chosen = team.share(chance.order[number * size : (number + 1) * size])
    x, labels = run.images.batch(chosen), run.images.labels[chosen]
    augmentation = chance.augmentation.take(chosen)
    crafting = [noise.take(chosen) for noise in chance.crafting]
    if run.extra is not None:
        noise = Noise.for_samples(
            settings.seed, run.position.step * extra + team.share(torch.arange(extra, device=team.device)), "extra"
        )
        picked = noise.child(_PICK).integers(len(run.extra))
        x = torch.cat([x, run.extra.batch(picked)])
        labels = torch.cat([labels, run.extra.labels[picked]])
        augmentation = _both(augmentation, noise.child(_AUGMENT))
        crafting = [_both(own, noise.child(_CRAFT + part)) for part, own in enumerate(crafting)]
    x = augmentation_named(settings.augmentation)(x, augmentation)
    if not settings.cutmix:
        return Drawn(x, labels, labels, tuple(crafting))
    x, partner, share = cutmix(x, augmentation.child(_MIX), settings.cutmix)
    one, other = (F.one_hot(each, run.classes).to(x.dtype) for each in (labels, labels[partner]))
    targets = share[:, None] * one + (1 - share[:, None]) * other
    return Drawn(x, torch.where(share >= 0.5, labels, labels[partner]), targets, tuple(crafting))


def _both(one: Noise, other: Noise) -> Noise:
    return Noise(torch.cat([one.keys, other.keys]))


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
            shared=chance.shared[part].row(number),
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


@contextmanager
def logits_alone(net: nn.Module) -> Iterator[None]:
    """Inside, ``net`` returns its logits [B, C] and nothing else: neither auxiliary heads, which a warning names once,
    nor a batch of one image without its dimension.

    >>> class Pair(nn.Module):
    ...     def forward(self, x):
    ...         return x, "more"
    >>> with logits_alone(net := Pair()):
    ...     net(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    told = False

    def first(module: nn.Module, given: tuple[Any, ...], output: Any) -> Tensor | None:
        nonlocal told
        if isinstance(output, Tensor) and output.dim() > 1:
            return None
        parts = [part for part in output if isinstance(part, Tensor)] if isinstance(output, (tuple, list)) else []
        if len(parts) > 1 and not told:
            told = True
            warn(
                f"The network returns {len(parts)} tensors while it is trained, of which the logits alone are trained: "
                "auxiliary heads have no part in the loss."
            )
        return logits_in(output, len(given[0]))

    if isinstance(net, torch.jit.ScriptModule):  # takes no hooks, and returns what it declares
        yield
        return
    handle = net.register_forward_hook(first)
    try:
        yield
    finally:
        handle.remove()
