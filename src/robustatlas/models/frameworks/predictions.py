"""Models that only answer: no gradient, scores or labels alone, perhaps slowly and for a price."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import real, whole
from robustatlas.models.classifier import Classifier, Knowledge, Outputs
from robustatlas.models.remote.answers import KeptAnswers
from robustatlas.models.remote.tally import Tally

Answers = Literal["probabilities", "logits", "labels"]


def from_predictions(
    function: Callable[[np.ndarray[Any, np.dtype[np.float32]]], Any],
    answers: Answers = "probabilities",
    *,
    classes: int | None = None,
    batch_size: int | None = None,
    per_second: float | None = None,
    budget: int | None = None,
    queries: int | None = None,
    keeps: bool = False,
    name: str | None = None,
) -> Classifier:
    """A model that can only be asked. Attacks that need a gradient are refused on it; what the others find is a weak
    bound: a smaller change may well exist.

    Args:
        function: a float32 NumPy array [B, ...] in [0, 1] to ``answers``.
        answers: ``"probabilities"`` [B, C] (default), ``"logits"`` [B, C], or ``"labels"``, class numbers [B].
        classes: how many there are; needed for labels.
        batch_size: the only size of batch that it takes; default: any.
        per_second: at most so many samples a second are asked about, by all workers together.
        budget: at most so many samples are asked about altogether, by all workers together.
        queries: at most so many questions about one sample by each attack.
        keeps: keep the answers in the directory of a run: what an interrupted evaluation asked is not asked again, and
            the budget is one for all calls and machines. For answers that take long or cost money.
        name: what reports call it.

    Returns:
        the model, without gradients.

    Raises:
        UserError: ``answers`` is not known, or labels without ``classes``; later, when the budget is used up or an
            answer has another shape.

    Example:
        >>> model = from_predictions(lambda x: (x.sum(1) > 1).astype(int), "labels", classes=2)
        >>> model.logits(torch.tensor([[0.2, 0.3], [0.9, 0.8]])).argmax(1), model.knowledge
        (tensor([0, 1]), 'labels')
    """
    if answers not in get_args(Answers):
        expected = ", ".join(map(repr, get_args(Answers)))
        raise UserError(f"answers={answers!r} is not known; expected one of {expected}.")
    if not callable(function):
        raise UserError(f"The model is a {type(function).__name__}; expected a function from images to {answers}.")
    count, most = whole(classes), whole(budget)
    if answers == "labels" and (count is None or count < 2):
        raise UserError(f"classes={classes!r}, but labels do not tell how many there are; give classes of at least 2.")
    rate = None if per_second is None else real(per_second)
    if rate is not None and not 0 < rate < math.inf:
        raise UserError(f"per_second={per_second!r}; expected a positive number of samples a second.")
    if budget is not None and (most is None or most < 1):
        raise UserError(f"budget={budget!r}; expected a whole number of at least 1 sample.")
    outputs: Outputs = "probabilities" if answers == "probabilities" else "logits"
    knowledge: Knowledge = "labels" if answers == "labels" else "scores"
    return Classifier(
        Oracle(function, count if answers == "labels" else None, rate, most, keeps),
        outputs=outputs,
        batch_size=batch_size,
        knowledge=knowledge,
        queries=queries,
        name=name or getattr(function, "__name__", type(function).__name__),
    )


class Oracle:
    """A function of arrays, asked within a rate and a budget; threads and processes take turns.

    ``classes``: the answers are labels of so many classes (None: scores). ``keeps``: its answers are kept in the
    directory of a run, see :meth:`keep_answers`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        classes: int | None,
        per_second: float | None,
        budget: int | None,
        keeps: bool = False,
    ) -> None:
        self.function, self.classes, self.per_second, self.budget = function, classes, per_second, budget
        self.keeps = keeps
        self._kept: KeptAnswers | None = None
        self._tally = None if per_second is None and budget is None else Tally()
        self._asking = threading.Lock()

    def __call__(self, x: Tensor) -> Tensor:
        """Scores [B, C]; 1 for the label and 0 elsewhere where that is all there is."""
        given = x.detach().cpu().numpy().astype(np.float32, copy=False)
        with self._asking:
            answer = self._ask(given) if self._kept is None else self._remembered(given, self._kept)
        values = torch.as_tensor(answer).to(x.device)
        if self.classes is None:
            return values.to(x.dtype)
        if values.shape != x.shape[:1] or (values.is_floating_point() and bool((values != values.round()).any())):
            raise UserError(f"The model answers with shape {tuple(answer.shape)}; expected class numbers [{len(x)}].")
        if int(values.min()) < 0 or int(values.max()) >= self.classes:
            raise UserError(f"The model answers with class {int(values.max())}; expected 0 to {self.classes - 1}.")
        return torch.nn.functional.one_hot(values.long(), self.classes).to(x.dtype)

    def keep_answers(self, folder: Path) -> None:
        """Answer from what was kept in a folder where it can, and keep there what is asked from now on."""
        if self.keeps and (self._kept is None or self._kept.folder != folder):
            self._kept, self._tally = KeptAnswers(folder), Tally(folder / "asked")

    def _remembered(self, x: NDArray[np.float32], kept: KeptAnswers) -> NDArray[np.float32]:
        """Kept answers are rows of numbers, a label one of one."""
        answers = kept.of(x, lambda unknown: self._ask(unknown).reshape(len(unknown), -1))
        return answers[:, 0] if self.classes is not None else answers

    def _ask(self, x: NDArray[np.float32]) -> NDArray[Any]:
        if self._tally is not None:
            before, wait = self._tally.charge(len(x), self.budget, self.per_second)
            if self.budget is not None and before + len(x) > self.budget:
                raise UserError(
                    f"The model was asked about {before} samples and {len(x)} more would exceed the budget of "
                    f"{self.budget}; give a larger budget, or fewer samples or strengths. Finished parts of a run are "
                    "kept."
                )
            time.sleep(wait)
        return np.asarray(self.function(x))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_asking"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._asking = threading.Lock()
