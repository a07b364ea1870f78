"""Attacks of other libraries, which run loops of their own, as optimizers of this package."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from robustatlas.common.bundle import Tree
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier, Knowledge, seeded
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel

Call = Callable[[nn.Module, Tensor, Tensor, float | None], Tensor]
"""An attack: from ``(model, x [B, ...], labels [B], epsilon)`` to the perturbed inputs [B, ...].

``epsilon`` None: the smallest changes that it can find.
"""


class CountedModule(nn.Module):
    """A classifier as the modules that other libraries attack: logits of inputs in [0, 1], every pass counted."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self._classifier = (classifier,)  # in a tuple: no part of this module, whose mode others change
        self.place = nn.Parameter(torch.zeros(1, device=classifier.device), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [B, C]."""
        return self._classifier[0].logits(x)


@dataclass(frozen=True)
class External(Optimizer[State]):
    """An attack of another library: ``call`` runs once on all samples of one strength, and what it returns is judged.

    The points that it returns are measured, evaluated and verified as those of any optimizer. All its passes are
    counted. Its random numbers are seeded, but drawn for a whole batch, so that they depend on the size of batches.

    Attributes:
        call: the attack.
        about: its name and its settings, as JSON, for the record of a run.
        needs: kind of answers that it needs from a model.
        model: the model that it attacks; bound when an evaluation begins.
        steps: 0: it has no step of its own here.
    """

    needs_gradient: ClassVar[bool] = False
    fewest_steps: ClassVar[int] = 0

    call: Call
    about: str
    needs: Knowledge = "gradients"
    model: Classifier | None = None
    steps: int = 0

    def to_record(self) -> dict[str, Any]:
        """Return the settings that determine numbers, for the record of a run."""
        about: dict[str, Any] = json.loads(self.about)
        return {"kind": type(self).__name__, "needs": self.needs} | about

    def for_model(self, model: Classifier) -> Self:
        return replace(self, model=model)

    def check(self, threat: ThreatModel) -> None:
        if not threat.additive:
            raise unsearchable(self, threat, "perturbations that are added to the input", "an lp norm")

    def init(self, problem: Problem, theta: Tree) -> State:
        if self.model is None:
            raise UserError("An external attack needs a model; give the attack to evaluate.")
        module, found = CountedModule(self.model).eval(), problem.x.clone()
        # An attack of another library takes one strength for a whole batch.
        for epsilon in sorted(set(problem.epsilon.tolist())):
            rows = (problem.epsilon == epsilon).nonzero().squeeze(1)
            with _seeded_by(problem.noise.keys[rows], problem.x.device):
                x, labels = problem.x[rows].clone(), problem.labels[rows].clone()  # other code may write into them
                perturbed = self.call(module, x, labels, None if self.minimum_size else epsilon)
            if perturbed.shape != x.shape:
                raise UserError(
                    f"The external attack returned shape {tuple(perturbed.shape)} for inputs of shape "
                    f"{tuple(x.shape)}; expected the perturbed inputs."
                )
            found[rows] = torch.where(perturbed.isfinite(), perturbed.detach().to(found), found[rows]).clamp(0, 1)
        return State(found - problem.x, counter(problem.epsilon))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        return State(state.theta, state.step + 1)


@dataclass(frozen=True)
class ExternalMinimum(External):
    """An :class:`External` attack that looks for the smallest example by itself."""

    minimum_size: ClassVar[bool] = True


@contextmanager
def _seeded_by(keys: Tensor, device: torch.device) -> Iterator[None]:
    """Seed torch's and NumPy's random numbers by the ``keys`` of streams; both are restored at the end."""
    seed = int(keys.sum()) % 2**31
    before = np.random.get_state()  # noqa: NPY002 - other libraries draw from there
    np.random.seed(seed)  # noqa: NPY002
    try:
        with seeded(seed, device):
            yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
