"""Indicators: measurements at single samples that say if attacks can be believed there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from robustatlas.checks.indicators.differences import Differences
from robustatlas.checks.indicators.search_results import SearchResults
from robustatlas.common.bundle import flatten, per_sample
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier, Knowledge, seeded
from robustatlas.models.classifier.backward import Backward, going_back
from robustatlas.models.classifier.probing import input_gradient
from robustatlas.models.objectives import Objective
from robustatlas.outcomes.records import Severity

Part = Literal["always", "full", "published"]
"""Diagnosis in which an indicator is read. ``"always"``: every evaluation. ``"full"``: a full diagnosis, in which
attacks are run for it. ``"published"``: there too, as published, but it decides nothing."""
DIRECTIONS = 8
FARTHEST = 0.03
"""Largest step of each value, in [0, 1]. If the gradient tells the truth, attacks need not go further than it claims.
If it lies, the claim is wrong at this distance too. On the half of 52 networks that chose no threshold, such steps are
never wrong, and steps of .01 are wrong on 6 or 7."""
ULPS = 4
"""Units in the last place by which logits vary with the order of additions. Inputs closer than this are equal."""


class DiagnosedSamples:
    """Samples that a model classifies correctly, with what several indicators compute from them, once.

    Args:
        model: in eval mode.
        x: [B, ...] in [0, 1], on the device and in the dtype of the model.
        labels: [B] of the same, all classified correctly.
        noise: [B] the streams of the samples.
        rules: backward rules through input transformations by which attacks take gradients.
        searched: results of attacks on the samples, in a full diagnosis.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> noise = Noise.for_samples(0, torch.arange(2), "diagnosis")
        >>> samples = DiagnosedSamples(model, data.images[:2], data.labels[:2], noise)
        >>> samples.margin.shape, samples.slopes[0].shape
        (torch.Size([2]), torch.Size([2, 1, 8, 8]))
    """

    def __init__(
        self,
        model: Classifier,
        x: Tensor,
        labels: Tensor,
        noise: Noise,
        rules: Collection[Backward | None] = (None,),
        searched: SearchResults | None = None,
    ) -> None:
        self.model, self.x, self.labels, self.noise = model, x, labels, noise
        self.rules, self._searched = sorted(rules, key=str) or [None], searched

    @property
    def searched(self) -> SearchResults:
        """Results of attacks. Only a full diagnosis has them, and only it reads the indicators that use them."""
        assert self._searched is not None
        return self._searched

    def logits(self, x: Tensor, *, seed: int = 0, back: Backward | None = None) -> Tensor:
        """Return the logits [B, C] at other inputs of the samples. Equal seeds give equal random numbers."""
        with seeded(seed, self.model.device), going_back(back):
            return self.model.logits(x, labels=self.labels, noise=self.noise.child(seed), verifying=True)

    @cached_property
    def clean(self) -> Tensor:
        """Logits [B, C] of the samples as they are."""
        with torch.no_grad():
            return self.logits(self.x)

    @cached_property
    def second_logits(self) -> Tensor:
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
        """[B] class that comes second at the clean samples. It is held fixed: the margin over it has no kinks."""
        return self.clean.scatter(1, self.labels[:, None], -torch.inf).argmax(1)

    def rival_margins_at(self, x: Tensor) -> Tensor:
        """Return the margins [B] over the rivals at other inputs."""
        return self.margin if x is self.x else self.rival_margins(self.logits(x))

    def rival_margins(self, logits: Tensor) -> Tensor:
        """Return the label's logit minus the rival's, [B]."""
        return (logits.gather(1, self.labels[:, None]) - logits.gather(1, self.rivals[:, None])).squeeze(1)

    @cached_property
    def margin(self) -> Tensor:
        """[B] margin of the clean samples."""
        return self.rival_margins(self.clean)

    @cached_property
    def step_size(self) -> Tensor:
        """[B, 1, ...] size of the steps of each value.

        It is the distance at which the gradient claims the boundary to be, at most 0.03, and at least the smallest
        distance at which the network tells inputs apart.
        """
        steepest = torch.stack([flatten(slope).abs().sum(1).nan_to_num(0.0, posinf=0.0) for slope in self.slopes]).amax(
            0
        )
        tiny = torch.finfo(steepest.dtype).tiny
        away = torch.where(steepest > 0, self.margin.abs() / steepest.clamp_min(tiny), FARTHEST).clamp_max(FARTHEST)
        return per_sample(away.clamp_min(ULPS * torch.finfo(self.model.network_dtype).eps).to(self.x.dtype), self.x)

    @cached_property
    def differences(self) -> Differences:
        """Changes of the margin under opposite random steps inside [0, 1], beside the gradients' claims."""
        return Differences.from_pairs(self._opposite_points(), self.rival_margins_at, self.slopes)

    def _opposite_points(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number in range(DIRECTIONS):
            signs = self.noise.child(1000 + number).sign(*self.x.shape[1:], dtype=self.x.dtype)
            yield (self.x + self.step_size * signs).clamp(0, 1), (self.x - self.step_size * signs).clamp(0, 1)

    @cached_property
    def rounding(self) -> Tensor:
        """[B] largest changes of the margin that rounding explains."""
        relative = ULPS * torch.finfo(self.model.network_dtype).eps
        least = torch.finfo(self.clean.dtype)
        return (2 * max(relative, ULPS * least.eps) * self.clean.abs().amax(1)).clamp_min(least.tiny)

    @cached_property
    def slopes(self) -> list[Tensor]:
        """Gradient [B, ...] of the margin by each backward rule; zeros if the model gives none."""
        return [self._slope(rule) for rule in self.rules]

    def _slope(self, back: Backward | None) -> Tensor:
        x = self.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            found = input_gradient(self.rival_margins(self.logits(x, back=back)), x)
        return torch.zeros_like(self.x) if found is None else found


@dataclass(frozen=True)
class Measurement:
    """Measurement of an indicator at B samples.

    Attributes:
        values: [B] measured values.
        doubtful: [B] True if the value speaks against the sample's numbers.
        judged: [B] True if the value says anything.
    """

    values: Tensor
    doubtful: Tensor
    judged: Tensor

    @classmethod
    def from_values(cls, values: Tensor, doubtful: Tensor, judged: Tensor | None = None) -> Measurement:
        """Return a measurement in which only judged samples are doubtful; by default all are judged."""
        everywhere = torch.ones_like(doubtful) if judged is None else judged
        return cls(values.detach(), doubtful & everywhere, everywhere)

    @classmethod
    def concatenate(cls, batches: Sequence[Measurement]) -> Measurement:
        """Return several batches as one, on the CPU."""
        return cls(
            torch.cat([batch.values.cpu() for batch in batches]),
            torch.cat([batch.doubtful.cpu() for batch in batches]),
            torch.cat([batch.judged.cpu() for batch in batches]),
        )


class Indicator(ABC):
    """Base of all indicators; one is one file and one line in :data:`robustatlas.checks.indicators.INDICATORS`.

    A network is flagged where the lower end of the 95 % interval (Clopper-Pearson) of the share of doubtful samples
    exceeds ``threshold``.
    """

    name: ClassVar[str]
    needs: ClassVar[Knowledge] = "gradients"
    """Knowledge of the model that the measurement needs."""
    severity: ClassVar[Severity] = "doubtful"
    part: ClassVar[Part] = "always"
    """Diagnosis in which it is read."""
    decides: ClassVar[bool] = True
    """True if the verdict counts it."""
    threshold: ClassVar[float] = 0.1
    """Share of the samples above which the network is flagged."""
    means: ClassVar[str]
    """Meaning of a flag, a sentence without its end."""
    remedy: ClassVar[str]
    """Advice for a flagged network."""
    code: ClassVar[str] = ""
    """Line of Python that carries out the remedy, if there is something to do. In it ``net`` is the network, ``model``
    the model, ``data`` the data set, and ``step`` the function inside of the network that the flag is about."""
    source: ClassVar[str]
    limit: ClassVar[str]
    """Value from which on a sample is doubtful, in words."""

    @abstractmethod
    def measure(self, samples: DiagnosedSamples) -> Measurement:
        """Measure at the samples."""

    def severity_of(self, objectives: Collection[Objective]) -> Severity:
        """Return the verdict that a flag leads to, for numbers of attacks by these objectives."""
        return self.severity
