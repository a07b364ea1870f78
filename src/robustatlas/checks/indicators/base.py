"""What an indicator is: something measured of each of a few samples that says whether attacks can be believed there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from robustatlas.checks.indicators.differences import Differences
from robustatlas.checks.indicators.searched import Searched
from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier, Knowledge, seeded
from robustatlas.models.classifier.backward import Backward, going_back
from robustatlas.models.classifier.probing import input_gradient
from robustatlas.models.objectives import Objective
from robustatlas.outcomes.readings import Severity

Part = Literal["always", "full", "published"]
"""When an indicator is read. ``"always"``: in every evaluation. ``"full"``: in a full diagnosis, where attacks are run
for it. ``"published"``: there too, as published, but it decides nothing."""
DIRECTIONS = 8
FARTHEST = 0.03
"""Of each value, in [0, 1]. Where the gradient tells the truth, attacks need not go further than it claims; where it
lies, its claim is beside the truth all the same. On the half of 52 networks that chose no threshold, such steps are
never wrong, and steps of .01 are wrong on 6 or 7."""
ULPS = 4
"""Units in the last place by which logits vary with the order of additions, and inputs that are told apart."""


class LookedAt:
    """What the indicators look at: a model, and samples that it classifies correctly.

    What several of them need is computed once.

    Args:
        model: in eval mode.
        x: [B, ...] in [0, 1], on the device and in the dtype of the model.
        labels: [B] of the same, all classified correctly.
        noise: [B] the streams of the samples.
        ways: ways back through input transformations that attacks take gradients by.
        searched: what attacks found of the samples, in a full diagnosis.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> look = LookedAt(model, data.images[:2], data.labels[:2], Noise.of(0, torch.arange(2), "diagnosis"))
        >>> look.margin.shape, look.slopes[0].shape
        (torch.Size([2]), torch.Size([2, 1, 8, 8]))
    """

    def __init__(
        self,
        model: Classifier,
        x: Tensor,
        labels: Tensor,
        noise: Noise,
        ways: Collection[Backward | None] = (None,),
        searched: Searched | None = None,
    ) -> None:
        self.model, self.x, self.labels, self.noise = model, x, labels, noise
        self.ways, self._searched = sorted(ways, key=str) or [None], searched

    @property
    def searched(self) -> Searched:
        """What attacks found; indicators of the full diagnosis are asked only where it is there."""
        assert self._searched is not None
        return self._searched

    def logits(self, x: Tensor, *, seed: int = 0, back: Backward | None = None) -> Tensor:
        """Logits [B, C] at other inputs of the same samples, by the same random numbers unless ``seed`` differs."""
        with seeded(seed, self.model.device), going_back(back):
            return self.model.logits(x, labels=self.labels, noise=self.noise.child(seed), verifying=True)

    @cached_property
    def clean(self) -> Tensor:
        """Logits [B, C] of the samples as they are."""
        with torch.no_grad():
            return self.logits(self.x)

    @cached_property
    def again(self) -> Tensor:
        """Logits [B, C] of a second call."""
        with torch.no_grad():
            return self.logits(self.x)

    @cached_property
    def redrawn(self) -> Tensor:
        """Logits [B, C] of a call with other random numbers."""
        with torch.no_grad():
            return self.logits(self.x, seed=1)

    @cached_property
    def rivals(self) -> Tensor:
        """[B] the class that comes second, which is held fixed."""
        return self.clean.scatter(1, self.labels[:, None], -torch.inf).argmax(1)

    def lead_at(self, x: Tensor) -> Tensor:
        """[B] the lead at other inputs."""
        return self.margin if x is self.x else self.lead(self.logits(x))

    def lead(self, logits: Tensor) -> Tensor:
        """[B] the label's logit minus the rival's."""
        return (logits.gather(1, self.labels[:, None]) - logits.gather(1, self.rivals[:, None])).squeeze(1)

    @cached_property
    def margin(self) -> Tensor:
        """[B] the lead of the samples as they are."""
        return self.lead(self.clean)

    @cached_property
    def reached(self) -> Tensor:
        """[B, 1, ...] the change of each value in steps: as far as the gradient claims the boundary to be, at most
        0.03; so far at least as the network can tell inputs apart."""
        steepest = torch.stack([flat(slope).abs().sum(1).nan_to_num(0.0, posinf=0.0) for slope in self.slopes]).amax(0)
        tiny = torch.finfo(steepest.dtype).tiny
        away = torch.where(steepest > 0, self.margin.abs() / steepest.clamp_min(tiny), FARTHEST).clamp_max(FARTHEST)
        return per_sample(away.clamp_min(ULPS * torch.finfo(self.model.network_dtype).eps).to(self.x.dtype), self.x)

    @cached_property
    def differences(self) -> Differences:
        """Of random steps there and back, inside [0, 1]: what they change, and what the gradients claim."""
        return Differences.between(self._there_and_back(), self.lead_at, self.slopes)

    def _there_and_back(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number in range(DIRECTIONS):
            signs = self.noise.child(1000 + number).sign(*self.x.shape[1:], dtype=self.x.dtype)
            yield (self.x + self.reached * signs).clamp(0, 1), (self.x - self.reached * signs).clamp(0, 1)

    @cached_property
    def rounding(self) -> Tensor:
        """[B] changes of the margin up to which rounding explains."""
        relative = ULPS * torch.finfo(self.model.network_dtype).eps
        least = torch.finfo(self.clean.dtype)
        return (2 * max(relative, ULPS * least.eps) * self.clean.abs().amax(1)).clamp_min(least.tiny)

    @cached_property
    def slopes(self) -> list[Tensor]:
        """The gradient [B, ...] of the lead by each of the ways; zeros where the model gives none."""
        return [self._slope(back) for back in self.ways]

    def _slope(self, back: Backward | None) -> Tensor:
        x = self.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            found = input_gradient(self.lead(self.logits(x, back=back)), x)
        return torch.zeros_like(self.x) if found is None else found


@dataclass(frozen=True)
class Measured:
    """What an indicator found of B samples.

    Attributes:
        values: [B] what was measured.
        doubtful: [B] whether that speaks against the sample's numbers.
        judged: [B] whether anything can be said of it.
    """

    values: Tensor
    doubtful: Tensor
    judged: Tensor

    @classmethod
    def of(cls, values: Tensor, doubtful: Tensor, judged: Tensor | None = None) -> Measured:
        """All judged, unless it is said otherwise."""
        everywhere = torch.ones_like(doubtful) if judged is None else judged
        return cls(values.detach(), doubtful & everywhere, everywhere)

    @classmethod
    def joined(cls, parts: Sequence[Measured]) -> Measured:
        """Several batches as one, on the CPU."""
        return cls(
            *(torch.cat([getattr(part, name).cpu() for part in parts]) for name in ("values", "doubtful", "judged"))
        )


class Indicator(ABC):
    """Base of all indicators; one is one file and one line in :data:`robustatlas.checks.indicators.INDICATORS`.

    A network is flagged where the lower end of the 95 % interval (Clopper-Pearson) of the share of doubtful samples
    exceeds ``threshold``.
    """

    name: ClassVar[str]
    needs: ClassVar[Knowledge] = "gradients"
    """What it must learn of a model."""
    severity: ClassVar[Severity] = "doubtful"
    part: ClassVar[Part] = "always"
    """Where it is read."""
    decides: ClassVar[bool] = True
    """Whether the verdict counts it."""
    threshold: ClassVar[float] = 0.1
    """Share of the samples, above which the network is flagged."""
    means: ClassVar[str]
    """What a flag says, in a sentence without its end."""
    remedy: ClassVar[str]
    """What to do then."""
    code: ClassVar[str] = ""
    """The remedy as one line of Python, where there is something to do. In it ``net`` is the network, ``model`` the
    model, ``data`` the data set, and ``step`` the function inside of the network that the flag is about."""
    source: ClassVar[str]
    limit: ClassVar[str]
    """From which value on a sample is doubtful, in words."""

    @abstractmethod
    def measure(self, look: LookedAt) -> Measured:
        """Look at the samples."""

    def severity_of(self, objectives: Collection[Objective]) -> Severity:
        """What a flag makes of numbers that attacks by these ``objectives`` found."""
        return self.severity
