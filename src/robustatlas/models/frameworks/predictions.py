"""Models that can only be asked: no gradient, and scores or labels alone."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError, check_choice
from robustatlas.models.classifier import Classifier, Knowledge, Outputs
from robustatlas.models.classifier.columns import Classes, class_count

Answers = Literal["probabilities", "logits", "labels"]


def from_predictions(
    function: Callable[[np.ndarray[Any, np.dtype[np.float32]]], Any],
    answers: Answers = "probabilities",
    *,
    classes: Classes = None,
    batch_size: int | None = None,
    queries: int | None = None,
    name: str | None = None,
) -> Classifier:
    """Return a model that can only be asked.

    Attacks that need a gradient are refused on it. What the other attacks find is a weak bound: a smaller change may
    well exist.

    Args:
        function: a float32 NumPy array [B, ...] in [0, 1] to ``answers``.
        answers: ``"probabilities"`` [B, C] (default), ``"logits"`` [B, C], or ``"labels"``, class numbers [B].
        classes: the number of classes, or their names in the order of their numbers; needed for labels.
        batch_size: the only size of batch that the function takes; default: any.
        queries: at most this many questions about one sample by each attack.
        name: the name in reports.

    Returns:
        the model, without gradients.

    Raises:
        UserError: ``answers`` is not known, or labels without ``classes``; later, when an answer has another shape,
            or probabilities are negative or do not sum to 1.

    Example:
        >>> model = from_predictions(lambda x: (x.sum(1) > 1).astype(int), "labels", classes=2)
        >>> model.logits(torch.tensor([[0.2, 0.3], [0.9, 0.8]])).argmax(1), model.knowledge
        (tensor([0, 1]), 'labels')
    """
    check_choice("answers", answers, get_args(Answers))
    if not callable(function):
        raise UserError(f"The model is a {type(function).__name__}; expected a function from images to {answers}.")
    if answers == "labels" and classes is None:
        raise UserError("classes=None, but labels do not tell how many there are; give classes of at least 2.")
    outputs: Outputs = "probabilities" if answers == "probabilities" else "logits"
    knowledge: Knowledge = "labels" if answers == "labels" else "scores"
    return Classifier(
        Oracle(function, answers, class_count(classes)),
        outputs=outputs,
        classes=classes,
        batch_size=batch_size,
        knowledge=knowledge,
        queries=queries,
        name=name or getattr(function, "__name__", type(function).__name__),
    )


class Oracle:
    """A function of arrays as a function of tensors, with answers of one ``kind``.

    ``classes`` is the number of classes; None: not known, of scores.
    """

    def __init__(self, function: Callable[..., Any], kind: Answers, classes: int | None) -> None:
        self.function, self.kind, self.classes = function, kind, classes

    def __call__(self, x: Tensor) -> Tensor:
        """Return scores [B, C]; where the answers are labels, 1 for the label and 0 elsewhere."""
        answer = np.asarray(self.function(x.detach().cpu().numpy().astype(np.float32, copy=False)))
        if self.kind == "labels":
            self._check_labels(answer, len(x))
        elif answer.ndim == 1 or answer.shape[1:] == (1,):
            raise UserError(self._sentence_on_single_numbers(answer))
        values = torch.as_tensor(answer).to(x.device)
        if self.kind == "labels" and self.classes is not None:
            return torch.nn.functional.one_hot(values.long(), self.classes).to(x.dtype)
        return values.to(x.dtype)

    def _check_labels(self, answer: NDArray[Any], count: int) -> None:
        """Raise :class:`UserError` if ``answer`` is not one class number for each of ``count`` inputs."""
        if answer.shape != (count,) or (answer.dtype.kind == "f" and bool((answer != answer.round()).any())):
            remedy = ""
            if answer.shape == (count, 1):
                remedy = "; give answer[:, 0]"
            elif answer.ndim > 1 and len(answer) == count:
                remedy = "; give answers='probabilities' or answers='logits' where it is a score for each class"
            raise UserError(f"The model answers with shape {answer.shape}; expected class numbers [{count}]{remedy}.")
        if self.classes is not None and (answer.min() < 0 or answer.max() >= self.classes):
            raise UserError(f"The model answers with class {int(answer.max())}; expected 0 to {self.classes - 1}.")

    def _sentence_on_single_numbers(self, answer: NDArray[Any]) -> str:
        """Return a sentence about one number a sample, [B] or [B, 1], where a score for each class is expected."""
        said = f"The model answers with shape {answer.shape}, one number a sample; expected {self.kind} [B, C]"
        if answer.dtype.kind in "biu" or (answer.dtype.kind == "f" and bool((answer == answer.round()).all())):
            return f"{said}. These look like class numbers: give answers='labels' and the number of classes."
        if self.kind == "probabilities":
            return f"{said}. Of the probability p of class 1, give np.stack([1 - p, p], 1)."
        return f"{said}. Of the logit z of class 1, give np.stack([0 * z, z], 1)."
