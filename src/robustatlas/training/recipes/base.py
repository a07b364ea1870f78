"""Base of recipes: objects that define how to craft examples and which loss to minimise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.models.objectives import cross_entropy, margin
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import Crafted, Mode, Opponent, Start, Value, craft, network_mode
from robustatlas.optimizers.lpa import FastLPA
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import Lp
from robustatlas.threats.perceptual import Perceptual
from robustatlas.training.against import default_ascent, default_rate

Memory = Mapping[str, Tensor]
"""Named tensors that a recipe keeps between updates, stored in checkpoints; empty for most recipes."""


@dataclass(frozen=True)
class Batch:
    """Images of one update, and its place in the training.

    Attributes:
        x: ``[B, ...]`` in [0, 1].
        labels: ``[B]``.
        noise: a stream per sample, of (seed, epoch, sample).
        shared: one stream ``[1]`` of the batch, for choices that belong to all its samples.
        epoch: from 0.
        epochs: of the training.
        done: share of all updates made before, in [0, 1).
        learning_rate: of this update.
        mode: how the network runs while examples are crafted.
        part: which of the recipe's updates of this batch, from 0.
        mixed: ``[B, C]``, shares of the classes where images are mixed; None elsewhere.
    """

    x: Tensor
    labels: Tensor
    noise: Noise
    shared: Noise
    epoch: int = 0
    epochs: int = 1
    done: float = 0.0
    learning_rate: float = 0.0
    mode: Mode = "eval"
    part: int = 0
    mixed: Tensor | None = None

    @property
    def targets(self) -> Tensor:
        """Targets of the loss: the labels ``[B]``, or the shares of the classes [B, C] for mixed images."""
        return self.labels if self.mixed is None else self.mixed

    def take(self, rows: Tensor) -> Batch:
        """Return the batch of the images at ``rows`` (int64 [M])."""
        mixed = None if self.mixed is None else self.mixed[rows]
        return replace(self, x=self.x[rows], labels=self.labels[rows], noise=self.noise.take(rows), mixed=mixed)


@dataclass(frozen=True)
class Update:
    """Loss of one update, and its statistics.

    Attributes:
        loss: scalar, with its graph.
        correct: mean accuracy (scalar in [0, 1]) at the points trained on.
        memory: the recipe's memory after the update.
        by_attack: accuracy [A] in [0, 1] at the examples of each of several attacks; None if unknown.
    """

    loss: Tensor
    correct: Tensor
    memory: Memory = field(default_factory=dict)
    by_attack: Tensor | None = None


@dataclass(frozen=True)
class Recipe:
    """Base of all recipes; implementations are frozen dataclasses that hold settings only.

    Attributes:
        against: what is trained against; some recipes take exactly one opponent, some several, ``standard`` none.
        label_smoothing: share of the target spread over all classes, in the recipe's cross-entropy on labels.
        warmup: share of the training over which all strengths rise linearly from 0 to their own.

    Raises:
        UserError: settings out of range, or a number of opponents that the recipe does not take.

    Example:
        >>> from robustatlas.training import recipe_named
        >>> recipe_named("pgd", {"linf": 0.1}, label_smoothing=0.1).label_smoothing
        0.1
    """

    name: ClassVar[str] = ""
    source: ClassVar[str] = ""
    opponents: ClassVar[str] = "one"
    """Number of opponents: "none", "one", "any" (one or more) or "several" (two or more)."""
    steps: ClassVar[int] = 10
    """Default number of steps of crafting."""
    l2_start: ClassVar[str] = "volume"
    """Default distribution of random starts in l2 balls."""
    mixes: ClassVar[bool] = False
    """True if the loss accepts images that mix two classes (:attr:`Batch.targets`)."""
    measured: ClassVar[bool] = False
    """True if accuracy on held-out images is also measured at the recipe's own examples, as it chooses their sizes."""

    against: tuple[Opponent, ...] = ()
    label_smoothing: float = 0.0
    warmup: float = 0.0

    def __post_init__(self) -> None:
        count = len(self.against)
        fits = {"none": count == 0, "one": count == 1, "any": count >= 1, "several": count >= 2}[self.opponents]
        if not fits:
            expected = {
                "none": "no threat model",
                "one": "one threat model",
                "any": "at least one threat model",
                "several": "at least two threat models",
            }[self.opponents]
            given = ", ".join(o.name for o in self.against) or "none"
            hint = "; for several take avg, max, msd or sat" if self.opponents == "one" and count > 1 else ""
            hint = ", such as against={'linf': 0.1}" if self.opponents != "none" and not count else hint
            raise UserError(f"The recipe {self.name!r} trains against {expected}, given: {given}{hint}.")
        if not 0 <= self.label_smoothing < 1 or not 0 <= self.warmup <= 1:
            raise UserError("label_smoothing must lie in [0, 1), warmup in [0, 1].")

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        """Return the optimizer that crafts examples of ``threat``, unless the user gives an :class:`Opponent`."""
        return default_ascent(threat, steps, rate)

    @classmethod
    def rate_of(cls, steps: int) -> float:
        """Return the default length of a step as a share of the strength."""
        return default_rate(steps)

    @property
    def updates(self) -> int:
        """Number of updates of the weights for each batch."""
        return 1

    def remember(self, net: nn.Module, x: Tensor, noise: Noise) -> Memory:
        """Return the memory before the first update; ``x`` [B, ...] are images, ``noise`` [1] is a stream."""
        return {}

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Return the loss of one update; default: the cross-entropy at the inputs of :meth:`make_examples`.

        ``net`` is in train mode before and after. No gradient is stored in its parameters.
        """
        with network_mode(net, batch.mode):
            x, right = self.make_examples(net, batch)
        logits = net(x)
        return Update(self.cross_entropy(logits, batch.targets), accuracy(logits, batch.labels), by_attack=right)

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the inputs to train on, here examples of the first opponent, and the accuracy [A] at those of each
        attack.

        The accuracy is None if it is unknown.
        """
        return self.craft(net, batch).x, None

    def strength(self, opponent: Opponent, batch: Batch) -> Tensor:
        """Return the strength [B] of ``opponent`` in this batch."""
        share = min(1.0, batch.done / self.warmup) if self.warmup else 1.0
        return torch.full((len(batch.x),), share * opponent.epsilon, dtype=batch.x.dtype, device=batch.x.device)

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy of labels [B], or of shares of the classes [B, C], with the recipe's label
        smoothing.
        """
        return F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)

    def examples(self, net: nn.Module, batch: Batch) -> Iterator[Tensor]:
        """Yield the examples of each opponent in turn, as an update makes them; each is crafted when it is
        requested.
        """
        for which in range(len(self.against)):
            yield self.craft(net, batch, which).x

    def craft(
        self, net: nn.Module, batch: Batch, which: int = 0, value: Value | None = None, start: Start | None = None
    ) -> Crafted:
        """Craft examples of the opponent ``which``.

        By default they maximise the cross-entropy of the labels, or with Fast-LPA the margin, as in its paper.
        """
        opponent = self.against[which]
        return craft(
            net,
            opponent,
            batch.x,
            batch.labels,
            self.strength(opponent, batch),
            batch.noise.child(which),
            value or _objective_of_crafting(opponent, batch),
            start=start,
        )

    def craft_apart(self, net: nn.Module, batch: Batch, start: Start = "near") -> Tensor:
        """Craft the inputs with the highest divergence from the predictions at the images, as TRADES does."""
        with torch.no_grad():
            natural = net(batch.x)
        return self.craft(net, batch, value=lambda logits: divergence(natural, logits), start=start).x


def _objective_of_crafting(opponent: Opponent, batch: Batch) -> Value:
    if isinstance(opponent.optimizer, FastLPA):
        return lambda logits: margin(logits, batch.labels, None)
    return cross_entropy_objective(batch.targets)


def mix_clean(examples: Tensor, x: Tensor, share: float) -> Tensor:
    """Return a batch whose first ``share`` are ``examples`` and the rest the clean images of ``x``.

    Example:
        >>> mix_clean(torch.ones(4), torch.zeros(4), 0.5)
        tensor([1., 1., 0., 0.])
    """
    count = round(share * len(x))
    return torch.cat([examples[:count], x[count:]])


def select_worst(net: nn.Module, batch: Batch, examples: Iterator[Tensor], count: int) -> tuple[Tensor, Tensor | None]:
    """Return for each image the one of ``count`` examples with the highest cross-entropy, and the accuracy [A] at each.

    The first of equal examples is chosen. The accuracy is None for a single example.
    """
    if count == 1:
        return next(examples), None
    value, right = cross_entropy_objective(batch.targets), []
    x, highest = batch.x, torch.full((len(batch.x),), -torch.inf, dtype=batch.x.dtype, device=batch.x.device)
    for example in examples:
        with torch.no_grad():
            logits = net(example)
            reached = value(logits).to(highest.dtype)
        right.append(accuracy(logits, batch.labels))
        x = torch.where(per_sample(reached > highest, x), example, x)
        highest = torch.maximum(highest, reached)
    return x, torch.stack(right)


def cross_entropy_objective(labels: Tensor, targets: Tensor | None = None) -> Value:
    """Return the cross-entropy of labels [B], or of shares of the classes [B, C], as a function of logits.

    With ``targets``, the cross-entropy of the targets is subtracted.
    """
    if labels.is_floating_point():
        return lambda logits: F.cross_entropy(logits, labels, reduction="none")
    return lambda logits: cross_entropy(logits, labels, targets)


def divergence(natural: Tensor, logits: Tensor) -> Tensor:
    """Return ``[B]``: KL(softmax(natural) || softmax(logits)); differentiable in both.

    Example:
        >>> divergence(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([0.])
    """
    return F.kl_div(logits.log_softmax(1), natural.log_softmax(1), reduction="none", log_target=True).sum(1)


def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the accuracy of a batch as a detached scalar in [0, 1]."""
    return (logits.detach().argmax(1) == labels).float().mean()


def require_balls(recipe: str, opponents: tuple[Opponent, ...]) -> None:
    """Raise :class:`UserError` unless all opponents are lp balls."""
    for opponent in opponents:
        if not isinstance(opponent.threat, Lp):
            raise UserError(
                f"The recipe {recipe!r} works in lp balls and {opponent.name!r} is none; take linf, l2 or l1, or the "
                "recipe max, avg or sat for any threat models."
            )


def require_perceptual(recipe: str, opponents: tuple[Opponent, ...]) -> None:
    """Raise :class:`UserError` unless all opponents are perceptual distances."""
    for opponent in opponents:
        if not isinstance(opponent.threat, Perceptual):
            raise UserError(
                f"The recipe {recipe!r} trains against the perceptual distance lpips, given: {opponent.name}; take pgd "
                "for other threat models."
            )
