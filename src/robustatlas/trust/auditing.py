"""``audit``: search a part of the samples again, by stronger attacks."""

from robustatlas.common.errors import UserError
from robustatlas.evaluation.auditing import SAMPLES, search_again
from robustatlas.evaluation.request import Data
from robustatlas.models.classifier import undisturbed
from robustatlas.results.result import Result
from robustatlas.trust.subject import Model, Subject, resolve_subject


def audit(
    run: Subject, data: Data | None = None, *, model: Model | None = None, samples: int = SAMPLES, seed: int = 0
) -> Result:
    """Search a random part of the samples of a run again, by every kind of attack that fits, at high effort.

    What is found is kept beside the run, apart from its own numbers. :meth:`Result.audited` says what such a search
    would leave of all samples, with an exact interval for these samples and that search.

    Args:
        run: a result, or the folder of a run.
        data: of the run; default: by its name.
        model: of the run, where it cannot be loaded from its source.
        samples: number of samples, drawn at random.
        seed: of their choice, which does not depend on their order.

    Returns:
        the result of the run, with the audit.

    Raises:
        UserError: not a run, its model and data cannot be had, or no samples.

    Source: two-phase sampling, with the intervals of :func:`robustatlas.metrics.audited`.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> result = ra.evaluate(model, data, "brightness", samples=9, progress=False)
        >>> audit(result, data, model=model, samples=3).audited("brightness").audited
        3
    """
    if not isinstance(samples, int) or samples < 1:
        raise UserError(f"samples={samples!r}; expected how many samples to search again, at least 1.")
    with undisturbed():
        known = resolve_subject(run, data, model)
    if known.result is None:
        raise UserError("audit is of a run: give a result or the folder of a run, not a model.")
    return search_again(known.result, known.model, known.data, samples, seed)
