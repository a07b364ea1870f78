"""The settings of a classifier beside its network: read from arguments, checked, and frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, brief, check_among
from robustatlas.common.scalars import real, whole
from robustatlas.models.classifier.batches import batch_sizes
from robustatlas.models.classifier.columns import Classes, class_count
from robustatlas.models.classifier.identity import Origin
from robustatlas.models.classifier.network import Net, Statistic, statistic
from robustatlas.models.classifier.outputs import Logits, Outputs
from robustatlas.models.classifier.placement import check_numbers, first_float, input_dtype, usable_device
from robustatlas.models.classifier.rejection import Errors, Rejection
from robustatlas.models.classifier.smoothing import Kinks

Precision = Literal["float32", "tf32", "bfloat16"]
Knowledge = Literal["gradients", "scores", "labels"]
"""The part of a model's answers that an attacker can learn."""

LabelledLogits = Callable[[Tensor, Tensor | None], Tensor]
"""A function of inputs [B, ...] and their labels [B] to logits [B, C]."""

FEWEST_QUERIES = 3
"""One query about the clean sample, one about another input, and one to verify it."""

HALF = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""Distance, relative to the largest logit, by which logits in half precision vary with the rest of the batch."""
ROUNDING = {"float32": 0.0, "tf32": HALF[torch.float16], "bfloat16": HALF[torch.bfloat16]}
"""Distance, relative to the largest logit, between the logits of a search and those that count. TF32 rounds factors to
as many digits as float16 has."""


@dataclass(frozen=True)
class StandIn:
    """A function that searches follow in place of the network.

    Attributes:
        logits: function of inputs [B, ...] in [0, 1] to the logits of the model, with a gradient of its own.
        name: name of its gradient in records; empty: the record does not name it.
    """

    logits: Logits
    name: str


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings:
    """All that decides the answers of a classifier beside its network.

    The arguments of :class:`Classifier` are those of its documentation. The other fields are:

    Attributes:
        network_dtype: number format of the network's parameters (None: it has none, and inputs stay as they are).
        errors: the event that counts as an error.
        kinks: spread of the input of each ReLU, by which gradients can be smoothed (empty: they cannot).
        stand_in: the function that searches follow (None: the network itself).
        channels_last: give the network images channels-last.
        labelled: logits that depend on the labels too, in place of those of the network.
    """

    device: torch.device
    dtype: torch.dtype
    network_dtype: torch.dtype | None
    name: str
    mean: Statistic | None = None
    std: Statistic | None = None
    prepare: Net | None = None
    precision: Precision = "float32"
    compiled: bool = False
    outputs: Outputs = "logits"
    batch_sizes: tuple[int, ...] = ()
    knowledge: Knowledge = "gradients"
    queries: int | None = None
    rejection: Rejection | None = None
    draws: int | None = None
    threshold: float = 0.5
    classes: Classes = None
    origin: Origin | None = None
    errors: Errors = "accepted"
    kinks: Kinks = ()
    stand_in: StandIn | None = None
    channels_last: bool = False
    labelled: LabelledLogits | None = None

    def replace(self, **changes: Any) -> ClassifierSettings:
        """Return these settings with some of them changed."""
        return dataclass_replace(self, **changes)

    @property
    def columns(self) -> int | None:
        """Number of logits: one for each class, and one more if the model rejects; None if it is not known."""
        count = class_count(self.classes)
        return count if count is None or self.rejection is None else count + 1

    @property
    def rounding(self) -> float:
        """Distance, relative to the largest logit, by which search and verification may differ."""
        return ROUNDING[self.precision] or HALF.get(self.network_dtype or self.dtype, 0.0)


ARGUMENTS = (
    "mean", "std", "prepare", "device", "precision", "compiled", "outputs", "batch_sizes", "knowledge", "queries",
    "rejection", "draws", "threshold", "classes", "name", "origin",
)  # fmt: skip
"""The settings that a classifier takes over from another one of the same network."""


def read_settings(net: Net, given: Mapping[str, Any], base: ClassifierSettings | None) -> ClassifierSettings:
    """Return the settings of a classifier of ``net``, checked.

    Args:
        net: the network.
        given: the arguments of the classifier; those that are None are not given.
        base: settings that hold where nothing is given (None: the defaults).

    Raises:
        UserError: an argument does not fit by itself, with another one, or with the network.
    """
    check_numbers(net)
    values: dict[str, Any] = {} if base is None else {name: getattr(base, name) for name in ARGUMENTS}
    values |= {name: _read_argument(name, value) for name, value in given.items() if value is not None}
    if "batch_size" in values:
        values["batch_sizes"] = values.pop("batch_size")
    own, asked = first_float(net), values.pop("dtype", None)
    if asked is None and base is not None and base.network_dtype is None:
        asked = base.dtype
    values.setdefault("name", str(getattr(net, "__name__", type(net).__name__)))
    values.setdefault("device", own.device if own is not None else torch.device("cpu"))
    settings = ClassifierSettings(
        **values, dtype=input_dtype(own, asked), network_dtype=None if own is None else own.dtype
    )
    _check_together(settings, net)
    return settings


def _read_argument(name: str, value: Any) -> Any:
    """Return an argument of a classifier as its setting; :class:`UserError` if it does not fit by itself."""
    choices = {"precision": Precision, "outputs": Outputs, "knowledge": Knowledge}
    if name in choices:
        check_among(name, value, get_args(choices[name]))
    elif name in ("mean", "std"):
        return statistic(value, name)
    elif name == "device":
        return usable_device(value)
    elif name == "batch_size":
        return batch_sizes(value)
    elif name == "compiled":
        return bool(value)
    elif name == "name":
        return str(value)
    elif name == "classes":
        class_count(value)
    elif name == "prepare" and not callable(value):
        raise UserError(
            f"prepare is a {type(value).__name__}; expected a function of inputs [B, ...], such as one that "
            "resizes images."
        )
    elif name == "draws":
        draws = whole(value)
        if draws is None or draws < 1:
            raise UserError(f"draws={value!r} does not fit; expected a whole number of at least 1, such as 20.")
        return draws
    elif name == "threshold":
        threshold = real(value)
        if not 0 < threshold < 1:
            raise UserError(f"threshold={value!r} does not fit; expected a probability between 0 and 1.")
        return threshold
    elif name == "queries":
        queries = whole(value) or 0
        if queries < FEWEST_QUERIES:
            raise UserError(
                f"queries={brief(repr(value))}; expected at least {FEWEST_QUERIES}: about the clean sample, "
                "about another, and one to verify it."
            )
        return queries
    return value


def _check_together(settings: ClassifierSettings, net: Net) -> None:
    """Raise a :class:`UserError` if two settings, or a setting and the network, do not go together."""
    if settings.precision != "float32" and settings.network_dtype in HALF:
        raise UserError(
            f"precision={settings.precision!r} is for networks in float32; the parameters of this one are "
            f"{settings.network_dtype} already: leave the precision out."
        )
    if settings.precision == "tf32" and settings.device.type != "cuda":
        raise UserError(
            f"precision='tf32' is a number format of NVIDIA GPUs, and the model is on {settings.device}: take "
            "'float32', or 'bfloat16' where the processor has units for it."
        )
    rejections = get_args(Rejection)
    if settings.rejection is not None and (settings.rejection not in rejections or settings.outputs != "logits"):
        raise UserError(
            f"rejection={settings.rejection!r} with outputs={settings.outputs!r} does not fit; expected one of "
            f"{', '.join(map(repr, rejections))}, with outputs='logits'."
        )
    if settings.draws is not None and settings.batch_sizes not in ((), (1,)):
        raise UserError(f"draws={settings.draws} goes with batch_size=1 or any; given {settings.batch_sizes}.")
    if settings.compiled and (settings.draws is not None or not isinstance(net, nn.Module)):
        what = f"draws={settings.draws}" if settings.draws is not None else f"a {type(net).__name__}"
        raise UserError(f"compiled=True goes with an nn.Module that draws no random numbers, not with {what}.")
    if settings.queries is not None and settings.knowledge == "gradients":
        raise UserError(
            f"queries={settings.queries} is for models that can only be asked (knowledge='scores' or 'labels'); leave "
            "it out."
        )
