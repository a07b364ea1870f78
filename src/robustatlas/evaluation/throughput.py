"""Passes of one image a second through a network on a device that need not be here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import parse_fraction
from robustatlas.common.wording import join_words


@dataclass(frozen=True)
class PublishedThroughput:
    """Training speed of one architecture: ``images`` a second, each with ``operations`` of a forward pass."""

    architecture: str
    operations: float
    images: float


PUBLISHED: dict[str, tuple[PublishedThroughput, ...]] = {
    "rtx3090": (
        PublishedThroughput("resnet18", 1.82e9, 3481.78),
        PublishedThroughput("resnet34", 3.67e9, 2036.51),
        PublishedThroughput("resnet50", 4.11e9, 1218.01),
        PublishedThroughput("resnet101", 7.83e9, 747.89),
    ),
}
"""Device -> architectures at 224x224 pixels, with multiplications and additions counted as one operation.

The speeds are those of timm's results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv (mixed precision, batch 256 to
512, commit 5e7d47ca); the operations those of torchvision's table of models.
"""


@dataclass(frozen=True)
class DeviceThroughput:
    """Speed of a device.

    Attributes:
        name: of the device, or the number that was given.
        passes: forward or backward passes of one image a second, the same for every network; None: by `PUBLISHED`.

    Example:
        >>> DeviceThroughput.parse("2000").seconds_a_pass(torch.nn.Linear(2, 2), torch.zeros(1, 2))
        0.0005
    """

    name: str
    passes: float | None = None

    @classmethod
    def parse(cls, given: str) -> "DeviceThroughput":
        """Return the throughput that a user gives: a device of `PUBLISHED`, or a number of passes a second.

        Raises:
            UserError: neither of the two.
        """
        if given in PUBLISHED:
            return cls(given)
        passes = parse_fraction(given)
        if not 0 < passes < torch.inf:
            raise UserError(
                f"The device throughput is {shorten(repr(given))}; expected passes of one image a second, such as "
                "2000, "
                f"or a device with published speeds: {join_words(list(PUBLISHED))}."
            )
        return cls(f"a device of {passes:,g} passes a second", passes)

    @classmethod
    def parse_optional(cls, asked: str | None) -> "DeviceThroughput | None":
        """Return the throughput that a user gives; None where a trial is to measure it."""
        return None if asked is None else cls.parse(asked)

    def seconds_a_pass(self, net: Callable[[Tensor], Any], image: Tensor) -> float:
        """Return the seconds that a forward or a backward pass of ``image`` [1, ...] takes.

        A device of the table is as fast in operations a second as with its architecture of the nearest size. An image
        trained on is counted as two passes.

        Raises:
            UserError: the speed is that of a device of the table, and no operation of the network can be counted.
        """
        if self.passes is not None:
            return 1 / self.passes
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(image)
        operations = counter.get_total_flops() / 2
        if not operations:
            raise UserError(
                f"No operation of the model could be counted, so its speed on {self.name} is not known; give "
                "--device-throughput as a number of passes a second."
            )
        nearest = min(PUBLISHED[self.name], key=lambda known: abs(known.operations - operations))
        return float(operations / nearest.operations / (2 * nearest.images))
