"""Models that only answer: no gradient, scores or labels alone, perhaps slowly and for a price."""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError, check_among
from robustatlas.common.scalars import real, whole
from robustatlas.models.classifier import Classifier, Knowledge, Outputs
from robustatlas.models.classifier.columns import Classes, check_columns, class_count
from robustatlas.models.classifier.outputs import believed
from robustatlas.models.remote.answers import KeptAnswers, Tally

Answers = Literal["probabilities", "logits", "labels"]


class Sender(ABC):
    """A function that may send samples again until it has its answer; ``sent``: called before it does."""

    sent: int = 0

    @abstractmethod
    def send(self, x: NDArray[np.float32], again: Callable[[int], None]) -> Any:
        """The answers to ``x``; ``again`` is called with how many samples are sent once more, before they are."""

    def __call__(self, x: NDArray[np.float32]) -> Any:
        """The answers to ``x``."""
        return self.send(x, lambda count: None)


def from_predictions(
    function: Callable[[np.ndarray[Any, np.dtype[np.float32]]], Any],
    answers: Answers = "probabilities",
    *,
    classes: Classes = None,
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
        classes: how many there are, or their names in the order of their numbers; needed for labels.
        batch_size: the only size of batch that it takes; default: any.
        per_second: at most so many samples a second are asked about, by all workers together.
        budget: at most so many samples are sent altogether, by all workers together.
        queries: at most so many questions about one sample by each attack.
        keeps: keep the answers in the directory of a run: what an interrupted evaluation asked is not asked again, and
            the budget is one for all calls and machines. For answers that take long or cost money.
        name: what reports call it.

    Returns:
        the model, without gradients.

    Raises:
        UserError: ``answers`` is not known, or labels without ``classes``; later, when the budget is used up, an
            answer has another shape, or probabilities are negative or do not sum to 1.

    Example:
        >>> model = from_predictions(lambda x: (x.sum(1) > 1).astype(int), "labels", classes=2)
        >>> model.logits(torch.tensor([[0.2, 0.3], [0.9, 0.8]])).argmax(1), model.knowledge
        (tensor([0, 1]), 'labels')
    """
    check_among("answers", answers, get_args(Answers))
    if not callable(function):
        raise UserError(f"The model is a {type(function).__name__}; expected a function from images to {answers}.")
    most = whole(budget)
    if answers == "labels" and classes is None:
        raise UserError("classes=None, but labels do not tell how many there are; give classes of at least 2.")
    rate = None if per_second is None else real(per_second)
    if rate is not None and not 0 < rate < math.inf:
        raise UserError(f"per_second={per_second!r}; expected a positive number of samples a second.")
    if budget is not None and (most is None or most < 1):
        raise UserError(f"budget={budget!r}; expected a whole number of at least 1 sample.")
    outputs: Outputs = "probabilities" if answers == "probabilities" else "logits"
    knowledge: Knowledge = "labels" if answers == "labels" else "scores"
    return Classifier(
        Oracle(function, answers, class_count(classes), rate, most, keeps),
        outputs=outputs,
        classes=classes,
        batch_size=batch_size,
        knowledge=knowledge,
        queries=queries,
        name=name or getattr(function, "__name__", type(function).__name__),
    )


class Oracle:
    """A function of arrays, asked within a rate and a budget; threads and processes take turns.

    ``kind`` of its answers, of so many ``classes`` (None: not known, of scores). ``keeps``: see :meth:`keep_answers`.
    ``shape`` [B, C, H, W] of its inputs, where the function states it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kind: Answers,
        classes: int | None,
        per_second: float | None,
        budget: int | None,
        keeps: bool = False,
    ) -> None:
        self.function, self.kind, self.classes, self.keeps = function, kind, classes, keeps
        self.per_second, self.budget = per_second, budget
        self.shape = getattr(function, "shape", ())
        self._kept: KeptAnswers | None = None
        self._tally = None if per_second is None and budget is None else Tally()
        self._sent = function.sent if isinstance(function, Sender) else 0
        if self._tally is not None and self._sent:
            self._tally.charge(self._sent)
        self._asking = threading.Lock()

    def __call__(self, x: Tensor) -> Tensor:
        """Scores [B, C]; 1 for the label and 0 elsewhere where that is all there is."""
        given = x.detach().cpu().numpy().astype(np.float32, copy=False)
        with self._asking:
            answer = self._ask(given) if self._kept is None else self._remembered(given, self._kept)
        values = torch.as_tensor(answer).to(x.device)
        if self.kind == "labels" and self.classes is not None:
            return torch.nn.functional.one_hot(values.long(), self.classes).to(x.dtype)
        return values.to(x.dtype)

    def keep_answers(self, folder: Path) -> None:
        """Answer from ``folder`` what was kept there, keep there what is asked from now on, and count both."""
        if self.keeps and (self._kept is None or self._kept.folder != folder):
            self._kept, self._tally = KeptAnswers(folder), Tally(folder / "asked")
            if self._sent:
                self._tally.charge(self._sent)
            self._sent = 0

    def _remembered(self, x: NDArray[np.float32], kept: KeptAnswers) -> NDArray[np.float32]:
        """Kept answers are rows of numbers, a label one of one."""
        answers = kept.of(x, lambda unknown: self._ask(unknown).reshape(len(unknown), -1))
        return answers[:, 0] if self.kind == "labels" else answers

    def _ask(self, x: NDArray[np.float32]) -> NDArray[Any]:
        self._charge(len(x))
        function = self.function
        answer = np.asarray(function.send(x, self._charge) if isinstance(function, Sender) else function(x))
        self._check(answer, len(x))
        return answer

    def _charge(self, count: int) -> None:
        """Count samples that are about to be sent, and wait until they may be."""
        if self._tally is not None:
            before, wait = self._tally.charge(count, self.budget, self.per_second)
            if self.budget is not None and before + count > self.budget:
                raise UserError(
                    f"The model was asked about {before} samples and {count} more would exceed the budget of "
                    f"{self.budget}; give a larger budget, or fewer samples or strengths. Finished parts of a run are "
                    "kept."
                )
            time.sleep(wait)
        self._sent += count if self._kept is None else 0

    def _check(self, answer: NDArray[Any], asked: int) -> None:
        """Raise :class:`UserError` where an answer about so many inputs is not of its kind; before it is kept."""
        if self.kind != "labels":
            if answer.ndim == 2 and self.classes is not None:
                check_columns(answer.shape[1], self.classes)
            if self.kind == "probabilities":
                believed(torch.as_tensor(answer), "probabilities")
            return
        if answer.shape != (asked,) or (answer.dtype.kind == "f" and bool((answer != answer.round()).any())):
            raise UserError(f"The model answers with shape {answer.shape}; expected class numbers [{asked}].")
        if self.classes is not None and (answer.min() < 0 or answer.max() >= self.classes):
            raise UserError(f"The model answers with class {int(answer.max())}; expected 0 to {self.classes - 1}.")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_asking"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._asking = threading.Lock()
