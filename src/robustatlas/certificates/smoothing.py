"""Randomised smoothing: certifies not the model but what it says most often under Gaussian noise."""

from dataclasses import dataclass
from typing import ClassVar

import scipy  # which imports its parts where they are used: stats takes long
import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import Certificate, Samples, Subject, norm_of
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise

_TOGETHER = 50
"""Draws of a sample that share a stream, so that numbers do not depend on what is computed at once."""


@dataclass(frozen=True)
class Smoothing(Certificate):
    """The class that a model gives most often to an input with Gaussian noise, and a radius in l2 in which it stays.

    Of each sample ``first`` draws pick the class and ``draws`` fresh ones bound its probability p from below, by
    Clopper and Pearson. The radius is sigma Phi^-1(p). Where p is not certainly above 1/2 it abstains, and nothing is
    certain. The noise is not clipped. What is certified is the smoothed model, in a row of its own: attacks on the
    model itself say nothing of it. Each radius holds with probability 1 - alpha; all of N at once with 1 - N alpha.

    Attributes:
        sigma: standard deviation of the noise, of pixels in [0, 1].
        draws: n in the source.
        first: n0 in the source.
        alpha: probability, at most, that a radius is too large.
        at_once: inputs of a forward pass.

    Source: Cohen et al. 2019, Certified Adversarial Robustness via Randomized Smoothing, section 3.2.2
    (CERTIFY).

    Example:
        >>> Smoothing(sigma=0.25, draws=10_000).certifies
        'smoothed, sigma 0.25'
    """

    name: ClassVar[str] = "smoothing"
    source: ClassVar[str] = "Cohen et al. 2019 (randomised smoothing)"
    covers: ClassVar[str] = "it covers l2"
    own_model: ClassVar[bool] = False

    sigma: float = 0.25
    draws: int = 100_000
    first: int = 100
    alpha: float = 1e-3
    at_once: int = 1000

    def __post_init__(self) -> None:
        whole = (self.draws, self.first, self.at_once)
        if not (self.sigma > 0 and 0 < self.alpha < 1 and all(n >= 1 and n == int(n) for n in whole)):
            raise UserError(
                f"The certificate 'smoothing' got sigma={self.sigma}, draws={self.draws}, first={self.first}, "
                f"alpha={self.alpha}, at_once={self.at_once}; expected sigma > 0, alpha between 0 and 1, and counts "
                "of at least 1."
            )

    @property
    def certifies(self) -> str:
        return f"smoothed, sigma {self.sigma:g}"

    def supports(self, attack: Attack) -> bool:
        return norm_of(attack) == 2

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        """As of every certificate; NaN where the method abstains."""
        noise = Noise.for_samples(subject.seed, samples.index.to(samples.x.device), f"smoothing {self.sigma!r}")
        found = self._counts(subject, samples.x, noise.child(0), self.first).argmax(1)
        of_class = self._counts(subject, samples.x, noise.child(1), self.draws).gather(1, found[:, None])[:, 0].cpu()
        least = torch.from_numpy(scipy.stats.beta.ppf(self.alpha, of_class, self.draws - of_class + 1))
        least = torch.where(of_class > 0, least, 0.0)
        radius = torch.where(least > 0.5, self.sigma * torch.special.ndtri(least), torch.nan)
        return torch.where(found.cpu() == samples.labels.cpu(), radius, torch.where(radius.isnan(), radius, 0.0))

    def _counts(self, subject: Subject, x: Tensor, noise: Noise, draws: int) -> Tensor:
        """``[B, C]``: how often the model gives each class to inputs [B, ...] with noise."""
        model, total = subject.model, None
        for number, begin in enumerate(range(0, draws, _TOGETHER)):
            drawn = min(_TOGETHER, draws - begin)
            moved = x[:, None] + self.sigma * noise.child(number).normal(_TOGETHER, *x.shape[1:], dtype=x.dtype)
            inputs = moved[:, :drawn].flatten(0, 1).to(model.dtype)
            with torch.no_grad():
                logits = torch.cat([model.logits(some, verifying=True) for some in torch.split(inputs, self.at_once)])
            chosen = logits.argmax(1).view(len(x), drawn)
            counts = torch.nn.functional.one_hot(chosen, logits.shape[1]).sum(1)
            total = counts if total is None else total + counts
        assert total is not None
        return total
