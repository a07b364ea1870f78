"""Adversarial training (Madry et al. 2018) against any threat model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.bundle import gradient, watched
from robustatlas.datasets import Dataset
from robustatlas.errors import UserError
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Attributes:
        threat: What to train against; None is standard training.
        epsilon: The strength trained at; with ``ascending`` the largest.
        ascending: Let the strength grow linearly from 0 to ``epsilon`` over the first half of the epochs.
        attack_steps: Steps of projected gradient ascent per batch.
        attack_rate: Length of each, as a share of the strength.
        epochs: Passes over the data.
        batch_size: Samples per step.
        learning_rate: Adam's largest; it rises over the first fifth of the steps and falls to zero along a cosine.
        seed: Of everything random: initial weights are the caller's, order and starting points depend on it alone.
    """

    threat: ThreatModel | None = None
    epsilon: float = 0.0
    ascending: bool = False
    attack_steps: int = 10
    attack_rate: float = 0.25
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.threat is not None and not self.epsilon > 0:
            raise UserError(f"Training against a threat model needs a strength above 0, got {self.epsilon}.")
        if min(self.epochs, self.batch_size) < 1:
            raise UserError("Training needs at least one epoch and one sample a batch.")

    def strength(self, progress: float) -> float:
        """The strength when ``progress`` (0..1) of the training is done."""
        return self.epsilon * min(1.0, 2 * progress) if self.ascending else self.epsilon


def adversarial_examples(
    net: Callable[[Tensor], Tensor],
    threat: ThreatModel,
    x: Tensor,
    labels: Tensor,
    epsilon: Tensor,
    noise: Noise,
    steps: int = 10,
    rate: float = 0.25,
) -> Tensor:
    """Inputs of the highest cross-entropy that ``steps`` of projected gradient ascent from a random start end at.

    Args:
        net: Inputs ``[B, ...]`` to logits ``[B, C]``.
        threat: The set to stay in.
        x: ``[B, ...]`` in [0, 1].
        labels: ``[B]``.
        epsilon: ``[B]``, a strength per sample.
        noise: A stream per sample.
        steps: Gradients per sample.
        rate: Length of a step as a share of ``epsilon``.

    Returns:
        ``[B, ...]`` in [0, 1]. For training: the result is not verified, and the last iterate is taken, not the best.
    """
    theta = threat.start(x, epsilon, noise)
    for _ in range(steps):
        theta = watched(theta)
        slope = gradient(F.cross_entropy(net(threat.apply(x, theta)), labels, reduction="none"), theta)
        with torch.no_grad():
            theta = threat.project(x, threat.move(x, theta, threat.steepest(x, slope), rate * epsilon), epsilon)
    return threat.apply(x, theta).detach()


def train(
    net: nn.Module,
    data: Dataset,
    how: Training,
    progress: Callable[[int, float], None] | None = None,
) -> nn.Module:
    """Train ``net`` in place on ``data`` and return it in eval mode.

    Args:
        net: Images in [0, 1] to logits.
        data: Training data.
        how: The recipe.
        progress: Called with the epoch and its mean loss.

    Example:
        >>> from robustatlas.datasets import load_dataset
        >>> from robustatlas.threats.lp import Linf
        >>> _ = torch.manual_seed(0)
        >>> data = load_dataset("digits", "train").take(256)
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> net = train(net, data, Training(Linf(), epsilon=0.05, epochs=20, attack_steps=2, learning_rate=0.05))
        >>> float((net(data.images).argmax(1) == data.labels).float().mean()) > 0.9
        True
    """
    device = next(net.parameters()).device
    batches = math.ceil(len(data) / how.batch_size)
    optimizer = torch.optim.Adam(net.parameters(), lr=how.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, how.learning_rate, total_steps=how.epochs * batches, pct_start=0.2
    )
    order = torch.Generator().manual_seed(how.seed)
    for epoch in range(how.epochs):
        noise = Noise.of(how.seed, data.index, "training").child(torch.tensor(epoch))
        total = 0.0
        for chosen in torch.split(torch.randperm(len(data), generator=order), how.batch_size):
            x, labels = data.images[chosen].to(device), data.labels[chosen].to(device)
            if how.threat is not None:
                epsilon = torch.full((len(x),), how.strength(epoch / how.epochs), dtype=x.dtype, device=device)
                streams = Noise(noise.keys[chosen].to(device))
                net.eval()
                x = adversarial_examples(
                    net, how.threat, x, labels, epsilon, streams, how.attack_steps, how.attack_rate
                )
            net.train()
            loss = F.cross_entropy(net(x), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch declares no types here
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(chosen)
        if progress is not None:
            progress(epoch, total / len(data))
    return net.eval()
