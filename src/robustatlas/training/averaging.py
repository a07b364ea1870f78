"""Weights that are averaged over the course of a training, in place of the last ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from robustatlas.training.run import TrainingRun

_EMA_FROM = 0.025
_BATCH = 256


def average_weights(run: TrainingRun) -> None:
    """The running mean of the weights after an update: none at first, then over more and more (Rebuffi et al. 2021)."""
    k = run.position.step - _EMA_FROM * run.steps
    _towards(run, 0.0 if k < 0 else min(run.settings.ema, (1 + k) / (10 + k)))


def average_epochs(run: TrainingRun) -> None:
    """The mean of the weights after the epochs from ``swa_from`` on (SWA, Izmailov et al. 2018), with statistics of
    normalisation that belong to it; before, the last weights."""
    first = run.settings.swa_from
    assert first is not None
    before = run.position.step // run.steps_per_epoch - first
    _towards(run, before / (before + 1) if before > 0 else 0.0)
    if before > 0:
        _renormalise(run)


@torch.no_grad()
def _towards(run: TrainingRun, decay: float) -> None:
    """Move the average; running statistics of normalisation are the network's own."""
    averaged = {name for name, _ in run.net.named_parameters()}
    for name, value in run.net.state_dict().items():
        if name in averaged:
            run.ema[name].lerp_(value, 1 - decay)
        else:
            run.ema[name].copy_(value)


@torch.no_grad()
def _renormalise(run: TrainingRun) -> None:
    """Statistics of batch normalisation at the averaged weights: their means over the training images."""
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
    for part in torch.split(torch.arange(len(run.images), device=run.workers.device), _BATCH):
        run.net(run.images.batch(part))
    _restore(run, own)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    for module, mode in modes:
        module.training = mode


def _restore(run: TrainingRun, own: dict[str, Tensor]) -> None:
    """Keep what the averaged network holds now, and give the network its own weights back."""
    for name, value in run.net.state_dict().items():
        run.ema[name].copy_(value)
    run.net.load_state_dict(own)
