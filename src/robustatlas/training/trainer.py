"""The one trainer: any recipe, from any checkpoint of its own, to the same weights."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.description import plain
from robustatlas.classifier import Classifier
from robustatlas.datasets import Dataset
from robustatlas.errors import UserError
from robustatlas.files import remove_stale_temporaries, write_text
from robustatlas.models.card import WEIGHTS, Card, Identity, TrainingData, here, read_card
from robustatlas.models.weights import load_weights
from robustatlas.noise import Noise
from robustatlas.outcomes import sha256_of_array, sha256_of_tensors
from robustatlas.sanity import check_inputs
from robustatlas.training.against import Against, check_opponents
from robustatlas.training.augmentation import augmentation_named
from robustatlas.training.checkpoint import (
    CHECKPOINT,
    Position,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
    write_checkpoint,
    write_tensors,
)
from robustatlas.training.devices import Workers, workers
from robustatlas.training.display import TrainingDisplay, display_of
from robustatlas.training.journal import Events, write_log
from robustatlas.training.monitor import accuracies
from robustatlas.training.recipes import Recipe, recipe_named
from robustatlas.training.recipes.base import Batch
from robustatlas.training.settings import Settings
from robustatlas.training.watch import check_loss, concerns

_CHECKPOINT_SECONDS = 120.0
_HELD_OUT = 1024
_EMA_FROM = 0.025
_SEEDS = 1_000_003
_LOOK = 10
"""Updates between two looks at the loss on devices that would have to wait for it."""


@dataclass(frozen=True)
class Trained:
    """A finished training: the network in eval mode, its card, and a record of each epoch."""

    net: nn.Module
    card: Card
    history: tuple[Mapping[str, Any], ...]


@dataclass
class _Run:
    """A training at work."""

    net: nn.Module
    recipe: Recipe
    settings: Settings
    workers: Workers
    optimizer: torch.optim.Optimizer
    images: Tensor
    labels: Tensor
    index: Tensor
    held_images: Tensor
    held_labels: Tensor
    held_index: Tensor
    classes: int
    ema: dict[str, Tensor]
    best: dict[str, Tensor]
    memory: dict[str, Tensor]
    position: Position
    sums: Tensor
    """Over the images of the epoch at work: their number, loss and correctness; float64 [3]."""
    order: Tensor
    noise: Noise
    order_epoch: int = -1
    """The epoch that ``order`` and ``noise``, a stream per training image, belong to."""

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.labels) / self.settings.batch_size)

    @property
    def steps(self) -> int:
        return self.settings.epochs * self.steps_per_epoch


def train(
    net: nn.Module,
    data: Dataset,
    recipe: str | Recipe = "standard",
    against: Against | None = None,
    *,
    settings: Settings | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    architecture: str | None = None,
    device: str | torch.device | None = None,
    progress: bool | TrainingDisplay | None = None,
) -> Trained:
    """Train ``net`` in place by a recipe.

    Random numbers belong to (seed, epoch, sample): the weights depend neither on interruptions nor on what else runs.

    Args:
        net: images in [0, 1] to logits; with its initial weights.
        data: training images.
        recipe: a name (:data:`robustatlas.training.RECIPES`), or a recipe with settings of its own from
            :func:`robustatlas.training.recipe_named`.
        against: for a name: attack -> strength in the unit of the catalogue.
        settings: optimizer, schedule, augmentation and so on.
        epochs, seed: in place of those of ``settings``.
        out: folder for checkpoint, log, weights and card. A training that was interrupted there goes on, to the very
            weights it would have reached; a finished one is read. None: nothing is written.
        architecture: what the card calls the network.
        device: where to train; default: a GPU where there is one.
        progress: show a bar or lines (default: a bar where standard error is a terminal), or a display of your own.

    Raises:
        UserError: what was given does not fit, the loss is no number any more, or files cannot be written; checkpoints
            stay.

    Example:
        >>> import robustatlas as ra
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> data = ra.load_dataset("digits", "train").take(300)
        >>> trained = train(net, data, "pgd", {"linf": 0.05}, epochs=10, settings=Settings(learning_rate=0.05))
        >>> trained.card.trained_on, trained.card.accuracies["clean"] > 80
        ({'linf': 0.05}, True)
    """
    given = settings or Settings()
    given = replace(given, epochs=epochs or given.epochs, seed=given.seed if seed is None else seed)
    plan = _recipe(recipe, against)
    check_inputs(data.images, data.labels)
    if given.selection == "best" and given.held_out == 0:
        raise UserError("selection='best' needs held-out images to choose by; give held_out more than 0.")
    team = workers(device)
    net.to(team.device)
    plan_here = _bound(plan, net)
    check_opponents(plan_here.against, data.images[:1].to(team.device))
    classes = _check_net(net, data, team.device)
    held = _held_out(data, given)
    identity = _identity(net, data, plan, given, held, team)
    folder = None if out is None else Path(out)
    name = architecture or type(net).__name__
    if folder is not None:
        finished = _open(folder, identity, net, team)
        if finished is not None:
            return finished
    run = _begin(net, data, plan_here, given, team, held, classes)
    if folder is not None:
        _restore(run, folder)
    with display_of(progress if team.main else False) as display, _generators_kept(team.device):
        display.begin(plan.name, run.steps, run.position.step)
        events = Events(folder) if folder is not None and team.main else None
        begun = time.perf_counter() - run.position.seconds
        saved = time.perf_counter()
        while run.position.step < run.steps:
            _step(run, display)
            run.position.seconds = time.perf_counter() - begun
            ended = run.position.step % run.steps_per_epoch == 0
            if ended:
                record = _close_epoch(run, display)
                if events is not None:
                    events.add(record)
            late = time.perf_counter() - saved > _CHECKPOINT_SECONDS and team.count == 1
            if folder is not None and team.main and (ended or late):
                _save(run, folder)
                saved = time.perf_counter()
        return _finish(run, identity, name, plan, folder)


def _recipe(recipe: str | Recipe, against: Against | None) -> Recipe:
    if isinstance(recipe, Recipe):
        if against is not None:
            raise UserError("against= belongs to a recipe given by name; this recipe has its own threat models.")
        return recipe
    return recipe_named(recipe, against)


def _bound(recipe: Recipe, net: nn.Module) -> Recipe:
    """The recipe with threat models that look at the network itself, where they do (lpips)."""
    classifier = Classifier(net)
    return replace(recipe, against=tuple(replace(o, threat=o.threat.bound_to(classifier)) for o in recipe.against))


def _check_net(net: nn.Module, data: Dataset, device: torch.device) -> int:
    """The number of classes of ``net``; raises where its output does not fit the labels."""
    if not any(p.requires_grad for p in net.parameters()):
        raise UserError("The network has no parameters that require a gradient; there is nothing to train.")
    mode = net.training
    try:
        with torch.no_grad():
            logits = net.eval()(data.images[:2].to(device))
    except Exception as error:
        raise UserError(
            f"The network fails on images of shape {tuple(data.images.shape[1:])}: {type(error).__name__}: {error}"
        ) from error
    finally:
        net.train(mode)
    if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[1] < 2:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise UserError(f"The network returns {shape}; expected logits [B, C] of at least 2 classes.")
    highest = int(data.labels.max())
    if highest >= logits.shape[1]:
        raise UserError(
            f"Labels of {data.name} go up to {highest}, but the network has {logits.shape[1]} classes (0 to "
            f"{logits.shape[1] - 1}); build it with {highest + 1} classes."
        )
    if int(data.labels.min()) == highest:
        raise UserError(f"All images of {data.name} are of class {highest}; expected at least 2 classes to tell apart.")
    return int(logits.shape[1])


def _held_out(data: Dataset, settings: Settings) -> Tensor:
    """``[N]`` bool: images kept for measuring, evenly from all classes."""
    count = min(_HELD_OUT, len(data) // 10) if settings.held_out is None else settings.held_out
    if count >= len(data):
        raise UserError(f"held_out={count} of {len(data)} images leaves none to train on; hold fewer out.")
    if not count:
        return torch.zeros(len(data), dtype=torch.bool)
    positions = replace(data, index=torch.arange(len(data))).take(count, stratified=True, seed=settings.seed).index
    return torch.zeros(len(data), dtype=torch.bool).index_fill(0, positions, True)


def _identity(
    net: nn.Module, data: Dataset, recipe: Recipe, settings: Settings, held: Tensor, team: Workers
) -> Identity:
    identity = Identity(
        recipe={"name": recipe.name} | plain(recipe),
        settings=asdict(settings),
        data=TrainingData(
            name=data.name,
            images_sha256=sha256_of_array(data.images.contiguous().numpy()),
            labels_sha256=sha256_of_array(data.labels.numpy()),
            images=len(data),
            held_out=int(held.sum()),
            shape=tuple(data.images.shape[1:]),
            classes=data.classes,
        ),
        initial_sha256=sha256_of_tensors(net.state_dict()),
        processes=team.count,
    )
    return Identity.model_validate_json(identity.model_dump_json())  # as a file gives it back: infinity is text


_IDENTITY = "training.json"


def _open(folder: Path, identity: Identity, net: nn.Module, team: Workers) -> Trained | None:
    """Claim ``folder`` for this training, or read the finished one in it; raises where it holds another."""
    path = folder / _IDENTITY
    if path.is_file():
        try:
            there = Identity.model_validate_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{path} does not describe a training; give another folder.") from error
        different = there.differences(identity)
        if different:
            raise UserError(
                f"{folder} holds another training ({'; '.join(different[:3])}); give another folder, or the same "
                "settings to go on."
            )
        if (folder / "card.json").is_file():
            card = read_card(folder)
            load_weights(net, folder / WEIGHTS)
            done = read_checkpoint(folder)
            return Trained(net.eval(), card, tuple(done[1].history if done else ()))
    elif (folder / CHECKPOINT).is_file():
        raise UserError(f"{folder} holds a checkpoint, but no {_IDENTITY} that says of what; give another folder.")
    elif team.main:
        text = identity.model_dump_json(indent=2) + "\n"
        write_text(path, text)
    if team.main:
        remove_stale_temporaries(folder)
    return None


def _begin(
    net: nn.Module,
    data: Dataset,
    recipe: Recipe,
    settings: Settings,
    team: Workers,
    held: Tensor,
    classes: int,
) -> _Run:
    dtype = next(p for p in net.parameters() if p.is_floating_point()).dtype
    images, labels, index = (t.to(team.device) for t in (data.images.to(dtype), data.labels, data.index))
    held = held.to(team.device)
    start = Noise.of(settings.seed, torch.zeros(1, dtype=torch.int64, device=team.device), f"memory/{recipe.name}")
    return _Run(
        net=net,
        recipe=recipe,
        settings=settings,
        workers=team,
        optimizer=_optimizer(net, settings),
        images=images[~held],
        labels=labels[~held],
        index=index[~held],
        held_images=images[held],
        held_labels=labels[held],
        held_index=index[held],
        classes=classes,
        ema={name: value.detach().clone() for name, value in net.state_dict().items()} if settings.ema else {},
        best={},
        memory=dict(recipe.remember(net, images[:1], start)),
        position=Position(),
        sums=torch.zeros(3, dtype=torch.float64, device=team.device),
        order=torch.empty(0, dtype=torch.int64, device=team.device),
        noise=start,
    )


def _optimizer(net: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    trained = [p for p in net.parameters() if p.requires_grad]
    if settings.decay_vectors:
        groups: list[dict[str, Any]] = [{"params": trained}]
    else:
        groups = [
            {"params": [p for p in trained if p.dim() > 1]},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, rate, settings.momentum, weight_decay=decay, nesterov=settings.nesterov)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, rate, weight_decay=decay)
    return torch.optim.Adam(groups, rate, weight_decay=decay)


def _restore(run: _Run, folder: Path) -> None:
    found = read_checkpoint(folder)
    if found is None:
        return
    groups, run.position = found
    run.net.load_state_dict(groups["net"])
    run.sums = groups["epoch"]["sums"].to(run.workers.device)
    restore_optimizer(run.optimizer, groups.get("optimizer", {}))
    for target, name in ((run.ema, "ema"), (run.best, "best"), (run.memory, "memory")):
        target.update({key: value.to(run.workers.device) for key, value in groups.get(name, {}).items()})


def _save(run: _Run, folder: Path) -> None:
    groups = {
        "net": run.net.state_dict(),
        "optimizer": optimizer_tensors(run.optimizer),
        "ema": run.ema,
        "best": run.best,
        "memory": run.memory,
        "epoch": {"sums": run.sums},
    }
    write_checkpoint(folder, groups, run.position)
    write_log(folder, run.position.history)


@contextmanager
def _generators_kept(device: torch.device) -> Iterator[None]:
    """Dropout draws from torch's generators, which are seeded at each step; the caller's are put back at the end."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def _seed(device: torch.device, seed: int) -> None:
    """Set torch's generators of the CPU and of ``device`` (torch.manual_seed sets all there are, and takes longer)."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _order(run: _Run, epoch: int) -> Tensor:
    """The training images in the order of this epoch."""
    keys = Noise.of(run.settings.seed, run.index, "order").child(epoch)
    return keys.uniform(1, dtype=torch.float64).squeeze(1).argsort(stable=True)


def _step(run: _Run, display: TrainingDisplay) -> None:
    """The updates of one batch."""
    settings, position, team = run.settings, run.position, run.workers
    epoch, number = divmod(position.step, run.steps_per_epoch)
    if run.order_epoch != epoch:
        run.order, run.order_epoch = _order(run, epoch), epoch
        run.noise = Noise.of(settings.seed, run.index, "training").child(epoch)
    size = settings.batch_size
    chosen = team.share(run.order[number * size : (number + 1) * size])
    noise = run.noise.take(chosen)
    x = augmentation_named(settings.augmentation)(run.images[chosen], noise.child(0))
    rate = settings.rate(position.step, run.steps_per_epoch)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    steps = torch.tensor([position.step], device=team.device)
    for part in range(run.recipe.updates):
        batch = Batch(
            x=x,
            labels=run.labels[chosen],
            noise=noise.child(1 + part),
            shared=Noise.of(settings.seed, steps, "batch").child(part),
            epoch=epoch,
            epochs=settings.epochs,
            done=position.step / run.steps,
            learning_rate=rate,
            mode=settings.crafting,
            part=part,
        )
        loss, correct = _update(run, batch)
        run.sums += torch.stack([torch.ones_like(loss), loss, correct.to(loss.dtype)]).double() * len(chosen)
    if run.ema:
        _average_weights(run)
    position.step += 1
    known = None
    if team.device.type == "cpu" or position.step % _LOOK == 0 or position.step % run.steps_per_epoch == 0:
        known = float(loss)
        check_loss(known, epoch, rate)
    display.update(position.step, known)


def _update(run: _Run, batch: Batch) -> tuple[Tensor, Tensor]:
    """One update of the weights; its loss and accuracy, detached."""
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
    return update.loss.detach(), update.correct


@torch.no_grad()
def _average_weights(run: _Run) -> None:
    """The running mean of the weights: none at first, then over more and more updates (Rebuffi et al. 2021).

    Running statistics of normalisation are the network's own.
    """
    k = run.position.step
    decay = 0.0 if k < _EMA_FROM * run.steps else min(run.settings.ema, (1 + k) / (10 + k))
    averaged = {name for name, _ in run.net.named_parameters()}
    for name, value in run.net.state_dict().items():
        if name in averaged:
            run.ema[name].lerp_(value, 1 - decay)
        else:
            run.ema[name].copy_(value)


def _close_epoch(run: _Run, display: TrainingDisplay) -> dict[str, Any]:
    """Measure, record, and look for what goes wrong."""
    settings, position = run.settings, run.position
    epoch = position.step // run.steps_per_epoch
    if run.workers.count > 1:
        run.workers.average(b for b in run.net.buffers() if b.is_floating_point())
        run.workers.average([run.sums])
    images, loss, correct = run.sums.tolist()
    run.sums.zero_()
    record: dict[str, Any] = {
        "epoch": epoch,
        "epochs": settings.epochs,
        "loss": loss / images,
        "training_accuracy": 100 * correct / images,
        "learning_rate": settings.rate(position.step - 1, run.steps_per_epoch),
        "seconds": position.seconds,
    }
    if run.workers.main and len(run.held_labels):
        count = None if settings.selection == "best" else settings.monitored
        with _weights_of(run, run.ema):
            measured = _measured(run, count)
        record |= {"clean": measured.pop("clean"), "robust": measured.pop("union", None)}
        record |= {f"robust/{name}": value for name, value in measured.items()}
        if settings.selection == "best":
            _keep_best(run, epoch, record["clean"] if record["robust"] is None else record["robust"])
    position.history.append(record)
    for message in concerns(position.history, run.recipe, run.classes, settings.epochs):
        kind = message.split(":")[0].split(" after")[0]
        if not any(said.startswith(kind) for said in position.warnings):
            position.warnings.append(message)
            display.warn(message)
    display.epoch(record)
    run.workers.wait()
    return record


def _measured(run: _Run, count: int | None) -> dict[str, float]:
    return accuracies(
        run.net,
        run.recipe.against,
        run.held_images[:count],
        run.held_labels[:count],
        run.held_index[:count],
        run.settings.seed,
    )


def _keep_best(run: _Run, epoch: int, accuracy: float) -> None:
    if run.position.best is None or accuracy > run.position.best[1]:
        run.position.best = (epoch, accuracy)
        run.best = {name: value.clone() for name, value in (run.ema or run.net.state_dict()).items()}


@contextmanager
def _weights_of(run: _Run, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """The network with other weights (none: its own)."""
    if not weights:
        yield
        return
    own = {name: value.clone() for name, value in run.net.state_dict().items()}
    run.net.load_state_dict(dict(weights))
    try:
        yield
    finally:
        run.net.load_state_dict(own)


def _finish(run: _Run, identity: Identity, architecture: str, plan: Recipe, folder: Path | None) -> Trained:
    """Choose the weights, measure them on all held-out images, and write them and their card."""
    chosen = run.best or run.ema
    if chosen:
        run.net.load_state_dict(chosen)
    measured = _measured(run, None) if len(run.held_labels) else {}
    weights = run.net.state_dict()
    card = Card(
        architecture=architecture,
        parameters=sum(p.numel() for p in run.net.parameters() if p.requires_grad),
        trained_on={opponent.name: opponent.epsilon for opponent in plan.against},
        identity=identity,
        epoch=run.position.best[0] if run.position.best else run.settings.epochs,
        accuracies=measured,
        warnings=tuple(run.position.warnings),
        weights_sha256=sha256_of_tensors(weights),
        seconds=run.position.seconds,
        **here(),
    )
    if folder is not None and run.workers.main:
        write_tensors(folder / WEIGHTS, weights, {"recipe": plan.name})
        card.write(folder)
    run.workers.wait()
    return Trained(run.net.eval(), card, tuple(run.position.history))
