"""What a classifier is told beside its network, and whether that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, check_choice, shorten
from robustatlas.common.scalars import integer_or_none, real_or_nan
from robustatlas.models.classifier.batches import batch_sizes
from robustatlas.models.classifier.columns import Classes, class_count
from robustatlas.models.classifier.identity import Origin
from robustatlas.models.classifier.normalisation import Given
from robustatlas.models.classifier.outputs import Outputs
from robustatlas.models.classifier.placement import check_numbers
from robustatlas.models.classifier.rejection import Rejection

Precision = Literal["float32", "tf32", "bfloat16"]
Knowledge = Literal["gradients", "scores", "labels"]
"""What an attacker can learn of a model."""

FEWEST_QUERIES = 3
"""One about the clean sample, one about another, one to verify it."""

HALF = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""Half precision, and how far, relative to the largest logit, its logits vary with the rest of the batch."""
ROUNDING = {"float32": 0.0, "tf32": HALF[torch.float16], "bfloat16": HALF[torch.bfloat16]}
"""How far logits of a search may be from those that count; TF32 rounds factors to as many digits as float16 has."""


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings:
    """The arguments of :class:`Classifier` beside its network, as it takes them; None: not given."""

    mean: Given = None
    std: Given = None
    prepare: Callable[[Tensor], Tensor] | None = None
    device: str | torch.device | None = None
    precision: Precision | None = None
    compiled: bool | None = None
    outputs: Outputs | None = None
    batch_size: int | Sequence[int] | None = None
    dtype: torch.dtype | None = None
    knowledge: Knowledge | None = None
    queries: int | None = None
    rejection: Rejection | None = None
    draws: int | None = None
    threshold: float | None = None
    classes: Classes = None
    name: str | None = None
    origin: Origin | None = None

    def completed(self, others: ClassifierSettings) -> ClassifierSettings:
        """With what is not given taken from ``others``."""
        lacking = [field.name for field in fields(self) if getattr(self, field.name) is None]
        return replace(self, **{name: getattr(others, name) for name in lacking})

    @property
    def columns(self) -> int | None:
        """Of each answer, where the classes are told: one for each, and of a model that rejects one more."""
        count = class_count(self.classes)
        return count if count is None or self.rejection is None else count + 1

    def precision_on(self, device: torch.device) -> Precision:
        """The number format of a search on ``device``; raises a :class:`UserError` where it has none such."""
        if self.precision == "tf32" and device.type != "cuda":
            raise UserError(
                f"precision='tf32' is a number format of NVIDIA GPUs, and the model is on {device}: take 'float32', or "
                "'bfloat16' where the processor has units for it."
            )
        return self.precision or "float32"

    def check(self, net: object, own: Tensor | None) -> None:
        """Raise :class:`UserError` where something does not fit ``net``, whose first tensor is ``own``."""
        check_numbers(net)
        if self.prepare is not None and not callable(self.prepare):
            raise UserError(
                f"prepare is a {type(self.prepare).__name__}; expected a function of inputs [B, ...], such as one that "
                "resizes images."
            )
        for name, kind in (("precision", Precision), ("outputs", Outputs), ("knowledge", Knowledge)):
            check_choice(name, getattr(self, name), get_args(kind))
        if self.precision != "float32" and own is not None and own.dtype in HALF:
            raise UserError(
                f"precision={self.precision!r} is for networks in float32; the parameters of this one are {own.dtype} "
                "already: leave the precision out."
            )
        if self.rejection is not None and (self.rejection not in get_args(Rejection) or self.outputs != "logits"):
            expected = ", ".join(map(repr, get_args(Rejection)))
            raise UserError(
                f"rejection={self.rejection!r} with outputs={self.outputs!r} does not fit; expected one of {expected}, "
                "with outputs='logits'."
            )
        class_count(self.classes)
        self._check_draws(net)
        self._check_queries()

    def _check_queries(self) -> None:
        if self.queries is None:
            return
        if (integer_or_none(self.queries) or 0) < FEWEST_QUERIES:
            raise UserError(
                f"queries={shorten(repr(self.queries))}; expected at least {FEWEST_QUERIES}: about the clean sample, "
                "about another, and one to verify it."
            )
        if self.knowledge == "gradients":
            raise UserError(
                f"queries={self.queries} is for models that can only be asked (knowledge='scores' or 'labels'); leave "
                "it out."
            )

    def _check_draws(self, net: object) -> None:
        draws, threshold, sizes = integer_or_none(self.draws), real_or_nan(self.threshold), batch_sizes(self.batch_size)
        if self.draws is not None and (draws is None or draws < 1):
            raise UserError(f"draws={self.draws!r} does not fit; expected a whole number of at least 1, such as 20.")
        if not 0 < threshold < 1:
            raise UserError(f"threshold={self.threshold!r} does not fit; expected a probability between 0 and 1.")
        if self.draws is not None and sizes not in ((), (1,)):
            raise UserError(f"draws={draws} goes with batch_size=1 or any; given {sizes}.")
        if self.compiled and (self.draws is not None or not isinstance(net, nn.Module)):
            what = f"draws={draws}" if self.draws is not None else f"a {type(net).__name__}"
            raise UserError(f"compiled=True goes with an nn.Module that draws no random numbers, not with {what}.")


DEFAULT = ClassifierSettings(
    precision="float32", compiled=False, outputs="logits", knowledge="gradients", threshold=0.5
)
