"""What is certain of a run's attacks, in sentences."""

from __future__ import annotations

from robustatlas.result import Result
from robustatlas.wording import listed, strength


def certified_sentences(result: Result) -> list[str]:
    """A sentence for each attack of which sizes are certified: at the middle one of its strengths, from both sides
    where it was run too.

    Args:
        result: of a run.

    Returns:
        one sentence an attack; nothing certified is called robust without "at least".

    Example:
        >>> import numpy as np
        >>> from robustatlas.outcomes.certified import CertifiedSizes
        >>> found = Result.from_arrays([0, 1], [0, 1], {"linf": [0.15, np.inf]}, {"linf": [0.1, 0.2]})
        >>> sizes = CertifiedSizes("linf", np.array([0.14, 0.05]), ("crown",), strengths=(0.1, 0.2))
        >>> vars(found)["certified_sizes"] = {"linf": sizes}
        >>> certified_sentences(found)
        ['linf, certified by crown: at least 50.0 %, at most 100.0 % robust at 0.1; both sides meet on 0.0 % ...']
    """
    return [_sentence(result, row) for row in result.certified_sizes]


def _sentence(result: Result, row: str) -> str:
    held = result.certified_sizes[row]
    beginning = f"{row}, certified by {listed(list(held.methods))}:"
    middle = held.strengths[(len(held.strengths) - 1) // 2]
    if row not in result.attacks or not result.outcome(row).judged:
        return f"{beginning} at least {held.accuracies([middle])[0]:.1f} % robust at {strength(middle)}."
    both = result.two_sided(row)
    return f"{beginning} {both.at(middle)}; both sides meet on {both.share_closed:.1f} % of the images."
