"""End of an epoch: average weights, measure and record accuracies, and keep the best weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import warn
from robustatlas.common.noise import Noise
from robustatlas.optimizers.crafting import network_mode
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.recipes.base import Batch, accuracy
from robustatlas.training.run import TrainingRun
from robustatlas.training.watch import accuracies, concerns


def close_epoch(run: TrainingRun, display: TrainingDisplay) -> dict[str, Any]:
    """Measure and record an epoch, and warn of what goes wrong."""
    settings, position = run.settings, run.position
    epoch = position.step // run.steps_per_epoch
    if run.workers.count > 1:
        run.workers.average(b for b in run.net.buffers() if b.is_floating_point())
        run.workers.average([run.sums])
    images, loss, correct, *each = run.sums.tolist()
    run.sums.zero_()
    record: dict[str, Any] = {
        "epoch": epoch,
        "epochs": settings.epochs,
        "loss": loss / images,
        "training_accuracy": 100 * correct / images,
        "learning_rate": settings.rate(position.step - 1, run.steps_per_epoch),
        "seconds": position.seconds,
    }
    names = [opponent.name for opponent in run.recipe.against]
    record |= {f"training/{name}": 100 * at / images for name, at in zip(names, each, strict=True) if at == at}
    if settings.swa_from is not None:
        average_epochs(run)
    if run.workers.is_main and len(run.held):
        count = None if settings.selection == "best" else settings.monitored
        with _use_weights(run, run.ema):
            reached = measure_held_out(run, count)
            if run.recipe.measured:
                record |= {
                    f"held_out/{name}": value for name, value in _measure_examples(run, settings.monitored).items()
                }
        record |= {"clean": reached.pop("clean"), "robust": reached.pop("union", None)}
        record |= {f"robust/{name}": value for name, value in reached.items()}
        if settings.selection == "best":
            _keep_best(run, epoch, record["clean"] if record["robust"] is None else record["robust"])
    position.history.append(record)
    for message in concerns(position.history, run.recipe, run.classes, settings.epochs):
        kind = message.split(":")[0].split(" after")[0]
        if not any(said.startswith(kind) for said in position.warnings):
            warn_once(run, display, message)
    display.epoch(record)
    run.workers.wait()
    return record


def warn_once(run: TrainingRun, display: TrainingDisplay, message: str) -> None:
    """Warn of something in a training once, also on its card."""
    if message not in run.position.warnings:
        run.position.warnings.append(message)
        display.warn(message)
        warn(message)


def measure_held_out(run: TrainingRun, count: int | None) -> dict[str, float]:
    """Return accuracies in percent on the first ``count`` held-out images, or on all for None; see
    :func:`accuracies`.
    """
    return accuracies(
        run.net,
        run.recipe.against,
        run.held.batch(torch.arange(len(run.held), device=run.workers.device)[:count]),
        run.held.labels[:count],
        run.held.index[:count],
        run.settings.seed,
    )


def _measure_examples(run: TrainingRun, count: int) -> dict[str, float]:
    """Return by attack the accuracy in percent at the recipe's own examples of the first ``count`` held-out images."""
    rows = torch.arange(len(run.held), device=run.workers.device)[:count]
    x, labels = run.held.batch(rows), run.held.labels[:count]
    noise = Noise.for_samples(run.settings.seed, run.held.index[:count], "held out")
    batch = Batch(x, labels, noise, noise.take(rows[:1]), done=1.0)
    found = {}
    with network_mode(run.net, "eval"):
        for opponent, example in zip(run.recipe.against, run.recipe.examples(run.net, batch), strict=True):
            with torch.no_grad():
                found[opponent.name] = 100 * float(accuracy(run.net(example), labels))
    return found


def _keep_best(run: TrainingRun, epoch: int, accuracy: float) -> None:
    if run.position.best is None or accuracy > run.position.best[1]:
        run.position.best = (epoch, accuracy)
        run.best = {name: value.clone() for name, value in (run.ema or run.net.state_dict()).items()}


@contextmanager
def _use_weights(run: TrainingRun, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Use other weights inside of the block; empty weights mean the network's own."""
    if not weights:
        yield
        return
    own = {name: value.clone() for name, value in run.net.state_dict().items()}
    run.net.load_state_dict(dict(weights))
    try:
        yield
    finally:
        run.net.load_state_dict(own)


_EMA_START = 0.025
"""Share of all updates before the running mean begins (Rebuffi et al. 2021)."""
"""Share of all updates before the running mean begins (Rebuffi et al. 2021)."""
_NORMALISATION_BATCH = 256


def average_weights(run: TrainingRun) -> None:
    """Update the running mean of the weights: no averaging at first, then over longer times (Rebuffi et al. 2021)."""
    k = run.position.step - _EMA_START * run.steps
    _move_average(run, 0.0 if k < 0 else min(run.settings.ema, (1 + k) / (10 + k)))


def average_epochs(run: TrainingRun) -> None:
    """Update the mean of the weights of the epochs from ``swa_from`` on (SWA, Izmailov et al. 2018).

    Its statistics of normalisation are computed anew. Before ``swa_from`` it is the last weights.
    """
    first = run.settings.swa_from
    assert first is not None
    before = run.position.step // run.steps_per_epoch - first
    _move_average(run, before / (before + 1) if before > 0 else 0.0)
    if before > 0:
        _renormalise(run)


@torch.no_grad()
def _move_average(run: TrainingRun, decay: float) -> None:
    """Move the average towards the weights; running statistics of normalisation are copied."""
    averaged = {name for name, _ in run.net.named_parameters()}
    for name, value in run.net.state_dict().items():
        if name in averaged:
            run.ema[name].lerp_(value, 1 - decay)
        else:
            run.ema[name].copy_(value)


@torch.no_grad()
def _renormalise(run: TrainingRun) -> None:
    """Compute the statistics of batch normalisation at the averaged weights from all training images."""
    norms = [m for m in run.net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return
    own = {name: value.clone() for name, value in run.net.state_dict().items()}
    momenta, modes = [norm.momentum for norm in norms], [(m, m.training) for m in run.net.modules()]
    run.net.load_state_dict(run.ema)
    run.net.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum, norm.training = None, True
    for part in torch.split(torch.arange(len(run.images), device=run.workers.device), _NORMALISATION_BATCH):
        run.net(run.images.batch(part))
    _restore(run, own)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    for module, mode in modes:
        module.training = mode


def _restore(run: TrainingRun, own: dict[str, Tensor]) -> None:
    """Store the state of the averaged network, and restore the network's own weights."""
    for name, value in run.net.state_dict().items():
        run.ema[name].copy_(value)
    run.net.load_state_dict(own)
