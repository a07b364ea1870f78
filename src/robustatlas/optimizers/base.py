"""Optimizers: two pure functions over an explicit state of per-sample tensors.

``init(problem, theta) -> state`` and ``step(problem, state, evaluation) -> state``. The engine evaluates the
classifier at ``state.theta``, hands the evaluation to ``step``, and so on until ``finished``. It drops and adds
samples between steps, hence every tensor of a state (and of a problem) has the leading dimension B and counters are
per sample.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, Tree
from robustatlas.common.errors import UserError
from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel

if TYPE_CHECKING:
    from robustatlas.models.classifier import Classifier, Knowledge


@dataclass(frozen=True)
class Problem(Bundle):
    """A batch of samples under attack: ``x`` [B, ...] in [0, 1], ``labels`` [B], ``epsilon`` [B].

    ``targets`` [B]: -1 where untargeted, which all or none of a batch are. ``noise``: a stream per sample.
    ``reference``: what sizes are measured from (``threat.reference(x)``), where it is known. ``eight_bit``: only inputs
    that an 8-bit file holds count.
    """

    threat: ThreatModel
    x: Tensor
    labels: Tensor
    targets: Tensor
    epsilon: Tensor
    noise: Noise
    reference: Tree = ()
    eight_bit: bool = False


@dataclass(frozen=True)
class Evaluation(Bundle):
    """Answer of the classifier at ``state.theta``: ``logits`` [B, C] and the ``objective`` [B].

    ``gradient``: of the objective with respect to theta, built like it (zeros where the optimizer needs none).
    ``fooled`` [B] bool: misclassified, whatever the size. ``size`` [B]: smallest epsilon whose set contains theta.
    ``size_gradient``: that of the size, where the optimizer needs it.
    """

    logits: Tensor
    objective: Tensor
    gradient: Tree
    fooled: Tensor
    size: Tensor
    size_gradient: Tree = None


@dataclass(frozen=True)
class State(Bundle):
    """State of an optimizer: ``theta`` is evaluated next; ``step`` [B] counts the evaluations handed to
    ``step``."""

    theta: Tree
    step: Tensor


S = TypeVar("S", bound=State)


class Optimizer(ABC, Generic[S]):
    """Base of all optimizers; implementations are frozen dataclasses with a field ``steps``."""

    version: ClassVar[int] = 1
    """Rises when the same settings move otherwise: evidence found before is then told from what is found after."""

    title: ClassVar[str] = ""
    """Name for readers; empty: that of the class."""
    paper: ClassVar[str] = ""
    """Paper to cite where it ran, as ``common/papers.toml`` names it; empty: none."""

    steps: int
    needs_gradient: ClassVar[bool] = True
    needs_margin: ClassVar[bool] = False
    """The objective must be zero at the decision boundary."""
    needs_size_gradient: ClassVar[bool] = False
    """Steps along the gradient of the size as well, which the threat model must have."""
    minimum_size: ClassVar[bool] = False
    """Looks for the smallest adversarial example from the clean point, rather than for any at a given epsilon."""
    needs_size: bool = False
    """Looks at the size of theta; where none does, training does not measure it."""
    fewest_steps: ClassVar[int] = 1
    counted_by: ClassVar[str] = "steps"
    """The field that says how long a run is."""
    sweeps: ClassVar[bool] = False
    """Looks at points in the order of their size, so that what it finds first decides."""
    foresees: ClassVar[bool] = False
    """The points that it looks at do not depend on what is said of them, but that a run ends at the first mistake; then
    several of them fit into a batch, see :meth:`states_ahead`."""

    @property
    def needs(self) -> Knowledge:
        """Kind of answers that it needs from a model."""
        return "gradients" if self.needs_gradient else "scores"

    @property
    def evaluations(self) -> int:
        """Largest number of evaluations of theta in a run."""
        return self.steps + 1

    def lengthened(self, factor: float) -> Self:
        """Return the optimizer with ``factor`` times the steps, if it has any."""
        changed: Any = self
        steps = getattr(self, self.counted_by)
        return replace(changed, **{self.counted_by: max(self.fewest_steps, round(factor * steps))}) if steps else self

    def check(self, threat: ThreatModel) -> None:
        """Raise a :class:`UserError` where this optimizer cannot search ``threat``."""
        if self.needs_gradient and not threat.optimised:
            raise unsearchable(self, threat, "something to optimise", "Once")

    def include_strengths(self, strengths: tuple[float, ...]) -> Self:
        """Return the optimizer for an attack reported at ``strengths``: another one only if it looks at these."""
        return self

    def for_model(self, model: Classifier) -> Self:
        """Return the optimizer for attacks on ``model``: another one only if it asks the model by itself."""
        return self

    @property
    def start_radius(self) -> float:
        """Size of the set from which a random start is drawn, as a multiple of epsilon; APGDL1 begins outside."""
        return 1.0

    def init(self, problem: Problem, theta: Tree) -> S:
        """Return the state that begins at ``theta``; an optimizer that remembers more has a class of its own for it."""
        return cast(S, State(theta, counter(problem.epsilon)))

    def states_ahead(self, problem: Problem, state: S, count: int) -> S:
        """Return the states of the next ``count`` points of an optimizer that :attr:`foresees`.

        They have ``B * count`` rows: the points of the first sample, then those of the second, and so on.
        """
        raise NotImplementedError

    @abstractmethod
    def step(self, problem: Problem, state: S, evaluation: Evaluation) -> S:
        """Return the state after one ``evaluation`` at ``state.theta``; ``state`` itself stays as it is."""

    def finished(self, state: S) -> Tensor:
        """Return the samples [B] that want no further evaluation.

        By default a run ends after ``steps`` moves, once the point of the last one was evaluated: hence ``>``.
        """
        return state.step > self.steps


class BoundaryOptimizer(Optimizer[S]):
    """Base of optimizers that look for the smallest adversarial example by the linearised decision boundary."""

    needs_margin: ClassVar[bool] = True
    minimum_size: ClassVar[bool] = True


def unsearchable(optimizer: Optimizer[Any], threat: ThreatModel, needs: str, instead: str) -> UserError:
    """Return the error of an ``optimizer`` that needs what ``threat`` has not, and the optimizer to use ``instead``."""
    return UserError(
        f"{type(optimizer).__name__} needs {needs}, and got the threat model {type(threat).__name__}; use {instead} "
        "for this one."
    )


def counter(like: Tensor) -> Tensor:
    """Return a counter of steps, int64 [B], at 0 and on the device of ``like`` [B, ...]."""
    return torch.zeros(len(like), dtype=torch.int64, device=like.device)


def annealed(step: Tensor, steps: int, like: Tensor) -> Tensor:
    """Return (1 + cos(pi step / steps)) / 2 for each ``step`` [B], in the dtype of ``like``; 0 after ``steps``.

    Example:
        >>> annealed(torch.tensor([0, 5, 10, 11]), 10, torch.zeros(1, dtype=torch.float64)).tolist()
        [1.0, 0.5, 0.0, 0.0]
    """
    return cached_tensor(_half_cosine, steps, like.dtype, like=like)[step.clamp_max(steps)]


def _half_cosine(steps: int, dtype: torch.dtype) -> Tensor:
    """Return the values [steps + 1] of :func:`annealed`: a table, as few numbers occur and a cosine is a launch."""
    return 0.5 * (1 + torch.cos(math.pi * torch.arange(steps + 1).to(dtype) / steps))
