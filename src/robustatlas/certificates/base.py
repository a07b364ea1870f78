"""Certificates: methods that find, for a sample, a size of an attack's set up to which no example exists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.network import Network
from robustatlas.certificates.reading import read
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.threats.lp import Lp

MARGIN_OF_SIZES = (1 + STRENGTH_TOLERANCE) ** 2
"""Sizes found are measured in float32 and rounded to the strengths of a grid; a set certified at a size is larger than
its name by as much."""


@dataclass
class Subject:
    """A model to certify, on inputs of one shape.

    Attributes:
        model: the classifier.
        shape: of one input.
        seed: of methods that draw.
    """

    model: Classifier
    shape: tuple[int, ...]
    seed: int = 0

    @cached_property
    def network(self) -> Network:
        """The network of the model, read once."""
        return Network(read(self.model, self.shape))

    def __reduce__(self) -> tuple[type[Subject], tuple[Any, ...]]:
        """Travel without the network, which each process reads once."""
        return Subject, (self.model, self.shape, self.seed)

    @property
    def network_read(self) -> Network | None:
        """The network, where a method has asked for it."""
        return vars(self).get("network")


@dataclass(frozen=True)
class Samples:
    """Some samples: inputs ``x`` [B, ...] float64 in [0, 1], ``labels`` [B], ``index`` [B] in the data set."""

    x: Tensor
    labels: Tensor
    index: Tensor

    def select(self, rows: Tensor) -> Samples:
        """Return the samples at ``rows``."""
        return Samples(self.x[rows], self.labels[rows], self.index[rows])


@dataclass(frozen=True)
class Certificate(ABC):
    """A method that certifies sizes. Its fields are its settings, which determine its numbers.

    Attributes:
        name: as registries know it.
        version: raised when the same settings give other numbers.
        source: paper and section.
        own_model: True where the model that attacks see is certified, on which sizes are tried out before they are
            written; False where it is another model, such as a smoothed one, with a row of its own.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    source: ClassVar[str] = ""
    own_model: ClassVar[bool] = True

    @abstractmethod
    def supports(self, attack: Attack) -> bool:
        """Return if the method certifies an attack's threat model."""

    def check(self, subject: Subject, attack: Attack) -> None:
        """Raise :class:`UserError` where the method cannot say anything of the model under the attack.

        Raises:
            UserError: the threat model or the network does not fit the method.
        """
        if not self.supports(attack):
            raise UserError(f"The certificate {self.name!r} does not cover {attack.name!r}; {self.covers}.")

    covers: ClassVar[str] = "it covers linf, l2 and l1"

    @property
    def certifies(self) -> str:
        """The model that is certified where that is not the model itself, in a few words."""
        return ""

    @abstractmethod
    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        """Certified sizes of samples that the model classifies correctly.

        Args:
            subject: the model.
            attack: whose threat model.
            samples: B of them; where another model is certified, also such as this one misclassifies.

        Returns:
            ``[B]`` float64: no input of the set of that size is misclassified; inf where no input of any is, 0 where
            nothing is certain, NaN where the method abstains.
        """

    def seconds_at_most(self, subject: Subject, attack: Attack, x: Tensor) -> float:
        """Return the seconds that one sample like ``x`` [1, ...] takes at most here, as far as can be said beforehand.

        Returns:
            0.0 of methods that are tried as they are.
        """
        return 0.0

    def holds(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Tensor:
        """Return if sizes ``[B]`` that were certified before are certain now; here by certifying again.

        Returns:
            ``[B]`` bool.
        """
        return self.sizes(subject, attack, samples).nan_to_num(nan=0.0, posinf=torch.inf) >= sizes * (1 - ROUNDING)


ROUNDING = 1e-8
"""Relative, of a size that was computed on another machine."""


def norm_of(attack: Attack) -> float | None:
    """The p of an attack on balls of the lp norm in [0, 1]; None of all others.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> norm_of(attack_named("pgd-l2")), norm_of(attack_named("hue"))
        (2.0, None)
    """
    return attack.threat.p if isinstance(attack.threat, Lp) else None


def is_ball(attack: Attack) -> bool:
    """Return if an attack's threat model is the balls of linf, l2 or l1."""
    return norm_of(attack) in (1.0, 2.0, torch.inf)
