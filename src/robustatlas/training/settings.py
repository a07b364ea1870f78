"""Settings of a training for any recipe: optimizer, schedule, augmentation, held-out images."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, get_args

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import integer_or_none, parse_seed, real_or_nan
from robustatlas.optimizers.crafting import Mode
from robustatlas.training.augmentation import augmentation_named
from robustatlas.training.schedules import schedule_named

Method = Literal["adam", "adamw", "sgd"]
Selection = Literal["last", "best"]

_NUMBERS = (
    "learning_rate", "warmup_epochs", "momentum", "weight_decay", "clip_norm", "clip_value", "cutmix", "ratio", "ema",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Everything of a training that does not belong to its recipe.

    Attributes:
        epochs: passes over the training images.
        batch_size: images per update.
        optimizer: "adam", "adamw" or "sgd".
        learning_rate: the largest; see :mod:`robustatlas.training.schedules`.
        schedule: its name there.
        warmup_epochs: epochs over which the learning rate rises linearly from 0, before the schedule counts.
        momentum, nesterov: of sgd.
        weight_decay: l2 penalty (decoupled for adamw).
        decay_vectors: whether biases and normalisation are decayed too.
        clip_norm: largest norm of all gradients together; None: any.
        clip_value: largest absolute value of an entry of a gradient; None: any.
        augmentation: "none", "flip", "crop", "crop+flip", "resized-crop" or "resized-crop+flip".
        cutmix: probability with which an image gets a patch of another one, and of its label; 0: none.
        ratio: share of each batch that comes from the extra data, where there are any.
        ema: decay of the running mean of the weights that is kept in place of the last ones; 0: none.
        swa_from: epoch from which the weights after each epoch are averaged, in place of the last ones; None: none.
        precision: "bfloat16" runs forward passes under autocast.
        crafting: how the network runs while examples are crafted: "eval", "train" or "batch".
        selection: "last" epoch, or the "best" robust (without opponents: clean) accuracy on the held-out images.
        held_out: training images kept for measuring; None: a tenth, 1,024 at most.
        monitored: how many of them are attacked after each epoch (all for the selection "best").
        seed: of the order, augmentation and everything random in the recipe. Initial weights are the caller's.

    Raises:
        UserError: a setting that is out of range, or whose name is not known.

    Example:
        >>> Settings(epochs=100, optimizer="sgd", learning_rate=0.1, schedule="piecewise").batch_size
        128
    """

    epochs: int = 20
    batch_size: int = 128
    optimizer: Method = "adam"
    learning_rate: float = 3e-3
    schedule: str = "one-cycle"
    warmup_epochs: float = 0.0
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    decay_vectors: bool = True
    clip_norm: float | None = None
    clip_value: float | None = None
    augmentation: str = "none"
    cutmix: float = 0.0
    ratio: float = 0.7
    ema: float = 0.0
    swa_from: int | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    crafting: Mode = "eval"
    selection: Selection = "last"
    held_out: int | None = None
    monitored: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        schedule_named(self.schedule)
        augmentation_named(self.augmentation)
        for name, kind in (("optimizer", Method), ("crafting", Mode), ("selection", Selection)):
            if getattr(self, name) not in get_args(kind):
                raise UserError(f"{name}={getattr(self, name)!r} is not known; expected {', '.join(get_args(kind))}.")
        if self.precision not in ("float32", "bfloat16"):
            raise UserError(f"precision={self.precision!r} is not known; expected float32 or bfloat16.")
        object.__setattr__(self, "seed", parse_seed(self.seed))
        for name in ("epochs", "batch_size", "monitored", "held_out", "swa_from"):
            self._check(name, integer_or_none, "a whole number")
        for name in _NUMBERS:
            self._check(name, _finite, "a number")
        if min(self.epochs, self.batch_size, self.monitored) < 1:
            raise UserError("Training needs at least one epoch, one image a batch and one image to monitor.")
        if not self.learning_rate > 0:
            raise UserError(f"learning_rate={self.learning_rate}; expected a positive number, such as 0.003.")
        if not 0 <= self.ema < 1 or self.weight_decay < 0 or self.warmup_epochs < 0:
            raise UserError("ema must lie in [0, 1), weight_decay and warmup_epochs must not be negative.")
        if not 0 <= self.cutmix <= 1 or not 0 < self.ratio < 1:
            raise UserError("cutmix is a probability in [0, 1], and ratio a share of each batch in (0, 1).")
        if self.swa_from is not None and (self.ema or not 1 <= self.swa_from < self.epochs):
            raise UserError(
                f"swa_from={self.swa_from}; expected an epoch from 1 to {self.epochs - 1}, and no ema beside it."
            )
        if self.held_out is not None and self.held_out < 0:
            raise UserError(f"held_out={self.held_out}; expected 0 or a number of images.")

    def _check(self, name: str, plain: Callable[[Any], Any], kind: str) -> None:
        """Keep a number as one of Python; None only where that is the default."""
        given = getattr(self, name)
        if given is None and getattr(type(self), name) is None:
            return
        if plain(given) is None:
            raise UserError(f"{name}={shorten(repr(given))}; expected {kind}.")
        object.__setattr__(self, name, plain(given))

    def rate(self, step: int, steps_per_epoch: int) -> float:
        """Return the learning rate of update ``step`` (from 0)."""
        t = (step + 1) / steps_per_epoch
        if t < self.warmup_epochs:
            return self.learning_rate * t / self.warmup_epochs
        return self.learning_rate * schedule_named(self.schedule)(t, self.epochs)


def _finite(value: Any) -> float | None:
    number = real_or_nan(value)
    return number if isfinite(number) else None
