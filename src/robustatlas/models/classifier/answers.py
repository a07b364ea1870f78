"""The answers of a model to labelled samples: one pass each, or the mean over random draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.models.classifier.backends import Backend
from robustatlas.models.classifier.batches import run_in_batches
from robustatlas.models.classifier.columns import Columns
from robustatlas.models.classifier.draws import Verdict, draw_logits, judge_by_draws
from robustatlas.models.classifier.outputs import Logits
from robustatlas.models.classifier.passes import Passes, count_passes, listeners
from robustatlas.models.classifier.precision import pass_precision
from robustatlas.models.classifier.rejection import for_labels
from robustatlas.models.classifier.settings import HALF, ClassifierSettings, LabelledLogits
from robustatlas.models.objectives import margin_of


class Answers(ABC):
    """Logits of labelled samples, by one pass for each batch."""

    @abstractmethod
    def forward(self, x: Tensor, labels: Tensor | None, verifying: bool) -> Tensor:
        """Return the logits of ``x`` [B, ...] that count, for the ``labels`` [B] where they are given."""

    @abstractmethod
    def gradient(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """Return the logits of ``x`` [B, ...] that a search follows, for the ``labels`` [B] where they are given."""


@dataclass(frozen=True)
class CountedAnswers(Answers):
    """The logits of a backend in batches of the sizes it takes, counted, in the precision of the settings.

    The logits of a model that rejects are folded for the labels, see
    :mod:`robustatlas.models.classifier.rejection`.
    """

    backend: Backend
    settings: ClassifierSettings
    columns: Columns
    passes: Passes

    def forward(self, x: Tensor, labels: Tensor | None, verifying: bool) -> Tensor:
        """Return the logits that count."""
        return self._for_labels(self.run(self.backend.forward, x, verifying), labels)

    def gradient(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """Return the logits that a search follows."""
        return self._for_labels(self.run(self.backend.gradient, x, verifying=False), labels)

    def run(self, backend: Logits, x: Tensor, verifying: bool) -> Tensor:
        """Return the logits [B, C] that ``backend`` gives, and count the passes; an empty batch makes none."""
        if not len(x):
            return self._logits_of_nothing(x)
        x = count_passes(x, [self.passes, *listeners(self.passes)])
        with pass_precision(self.settings.precision, self.settings.device, verifying):
            logits = run_in_batches(lambda part: self.columns.check(backend(part)), x, self.settings.batch_sizes)
        return logits.to(_logits_dtype(x))

    def _for_labels(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None:
            return logits
        return for_labels(logits, labels, self.settings.errors, self.settings.rejection is not None)

    def _logits_of_nothing(self, x: Tensor) -> Tensor:
        """Return logits [0, C] that are connected to ``x``; a grey sample shows C where no batch has shown it yet."""
        if self.columns.count is None:
            with torch.no_grad():
                grey = torch.full((1, *x.shape[1:]), 0.5, dtype=x.dtype, device=x.device)
                self.run(self.backend.forward, grey, verifying=False)
        return x.flatten(1).sum(1, keepdim=True).to(_logits_dtype(x)).expand(0, self.columns.count or 0)


def _logits_dtype(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in HALF else x.dtype


@dataclass(frozen=True)
class LabelledAnswers(Answers):
    """Logits of a function of samples and labels. They are not counted: the function counts what it asks itself."""

    logits: LabelledLogits

    def forward(self, x: Tensor, labels: Tensor | None, verifying: bool) -> Tensor:
        """Return the logits that count."""
        return self.logits(x, labels)

    def gradient(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """Return the logits that a search follows."""
        return self.logits(x, labels)


@dataclass(frozen=True)
class Deterministic:
    """A model whose answer to a sample is one pass."""

    answers: Answers

    def logits(self, x: Tensor, labels: Tensor | None, noise: Noise | None, verifying: bool) -> Tensor:
        """Return the logits of ``x`` [B, ...]."""
        return self.answers.forward(x, labels, verifying)

    def searched(self, x: Tensor, labels: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """Return the logits that a search follows; every margin below zero is believed."""
        return self.answers.gradient(x, labels), None

    def judge(self, x: Tensor, labels: Tensor, noise: Noise) -> Verdict:
        """Return the verdict on ``x`` [B, ...] by a pass of its own."""
        logits = self.answers.forward(x, labels, verifying=True)
        prediction = logits.argmax(1)
        wrong = prediction != labels
        return Verdict(logits, prediction, wrong, wrong, wrong.long(), torch.ones_like(labels))


@dataclass(frozen=True)
class Randomised:
    """A model that draws random numbers: its answer is the mean over draws, and fresh draws judge it.

    Attributes:
        answers: of one draw.
        draws: the number that logits are averaged over.
        threshold: how often, from 0 to 1, an input must be misclassified to count.
        one_by_one: pass sample by sample; for networks that draw one number for a whole batch.
    """

    answers: Answers
    draws: int
    threshold: float
    one_by_one: bool

    def logits(self, x: Tensor, labels: Tensor | None, noise: Noise | None, verifying: bool) -> Tensor:
        """Return the mean of the logits of ``x`` [B, ...] over draws from the streams ``noise`` [B]."""
        if not len(x):
            return self.answers.forward(x, labels, verifying)
        if noise is None:
            noise = Noise.of(0, torch.arange(len(x), device=x.device), "draws")
        return torch.stack(self._draw(x, labels, noise, self.draws, verifying)).mean(0)

    def searched(self, x: Tensor, labels: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """Return the mean of the logits that a search follows, and twice the standard error of its margins."""
        if not len(x):
            return self.answers.gradient(x, labels), None
        # Draws of a search go through the network itself, as those that judge do: no other form of it is used.
        drawn = self._draw(x, labels, noise, self.draws, False)
        logits = torch.stack(drawn).mean(0)
        if self.draws == 1:
            return logits, None
        margins = torch.stack([margin_of(values.detach(), labels) for values in drawn])
        return logits, 2 * margins.std(0) / self.draws**0.5

    def judge(self, x: Tensor, labels: Tensor, noise: Noise) -> Verdict:
        """Return the verdict on ``x`` [B, ...] by as many fresh draws as it takes to be certain."""
        if not len(x):
            return Deterministic(self.answers).judge(x, labels, noise)

        def draw(rows: Tensor, streams: Noise, count: int) -> Tensor:
            return torch.stack(self._draw(x[rows], labels[rows], streams, count, True))

        return judge_by_draws(draw, labels, noise, self.threshold)

    def _draw(self, x: Tensor, labels: Tensor | None, noise: Noise, count: int, verifying: bool) -> list[Tensor]:
        """Return the logits [B, C] of each of ``count`` draws."""

        def single(rows: Tensor, truth: Tensor | None) -> Tensor:
            return self.answers.forward(rows, truth, verifying)

        return draw_logits(single, x, labels, noise, count, one_by_one=self.one_by_one)
