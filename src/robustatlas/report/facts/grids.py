"""Advice on strengths that tell little about a model, and better ones."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustatlas.common.typed_strengths import format_size, format_strength
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.outcomes.outcome import Outcome

FLAT = 0.8
"""Share of the images that are right without an attack: if more are right at the largest strength, the strengths end
before the model does."""

GONE = 1.0
"""An accuracy below this, in percent, is gone: further strengths repeat it."""

EARLY = 0.1
"""Half of the images wrong below this share of the first strength: everything happens before the grid begins."""

FARTHER = 4
"""Factor of the largest strength that is proposed if half of the accuracy falls beyond it, at an unknown size."""

_PIXEL, _ALL_IMAGES = "largest change of a pixel value", 1.0
"""Strengths of this unit reach all images there, which runs need not record."""

_EVALUATE = ["robustatlas", "evaluate"]

STEPS = 20
"""Strengths that are proposed at most, as many as MultiRobustBench has."""


@dataclass(frozen=True)
class GridAdvice:
    """Why the strengths of an attack tell little, and better ones: equal steps up to `last`."""

    attack: str
    why: str
    last: float
    steps: int

    @property
    def option(self) -> str:
        """The option of ``evaluate`` that asks for them."""
        return f"--strengths {self.attack}={format_strength(self.last, 6, attack=self.attack)}:{self.steps}"


def grid_advice(outcome: Outcome, clean: float, largest: float | None = None) -> GridAdvice | None:
    """Return better strengths of an attack; None where they tell something, or were not all searched.

    Nothing is said of attacks that judge each strength by itself, nor of everyday changes, whose sizes people chose.

    ``clean``: accuracy without an attack, in percent. ``largest``: size beyond which images do not differ.

    >>> from robustatlas.outcomes import OutcomeTable
    >>> table = OutcomeTable.from_sizes("a", [1, 1], {"linf": [0.002, 0.003]}, {"linf": [0.1, 0.2]})
    >>> grid_advice(table.outcome("linf"), 100.0).option
    '--strengths linf=0.0036:10'
    """
    if not outcome.monotone or outcome.typical is not None or clean == 0:
        return None
    attack, strengths, accuracies = outcome.attack, outcome.strengths, outcome.accuracies()
    half, most = RobustnessCurve.from_outcome(outcome).distance_curve.quantile([0.5, 0.9]).tolist()
    searched = np.isfinite(outcome.minimal_size) & (outcome.minimal_size > 0)
    reach = most if math.isfinite(most) else float(np.max(outcome.minimal_size, where=searched, initial=0.0))
    steps = min(STEPS, max(len(strengths), 10))
    gone = int((accuracies < GONE).sum())
    if 0 < half < EARLY * strengths[0]:
        where = format_size(half, attack=attack)
        why = f"{attack}: half of the images are wrong from {where} on, below a tenth of the first strength."
        return GridAdvice(attack, why, _rounded_up(1.2 * reach), steps)
    if 2 * gone > len(strengths) > 1:
        why = f"{attack}: at {gone} of {len(strengths)} strengths the accuracy is below {GONE:g} %."
        return GridAdvice(attack, why, _rounded_up(1.2 * (reach or strengths[0])), steps)
    limit = largest or (_ALL_IMAGES if outcome.unit == _PIXEL else math.inf)
    if accuracies[-1] > FLAT * clean and strengths[-1] < limit:
        why = f"{attack}: the accuracy is at or above {math.floor(accuracies.min())} % throughout."
        beyond = 1.2 * reach if math.isfinite(half) and reach > 0 else FARTHER * strengths[-1]
        return GridAdvice(attack, why, min(limit, _rounded_up(beyond)), steps)
    return None


def extended(command: str, advice: Sequence[GridAdvice]) -> str:
    """The command that extends a run to better strengths: the ``command`` that made it, with these; the options alone
    where that was no command of the shell, or one of several parts.

    >>> farther = GridAdvice("linf", "", 0.6, 20)
    >>> extended("robustatlas evaluate a.py:b --data mnist --strengths linf=0.1:20 --run runs/a", [farther])
    'robustatlas evaluate a.py:b --data mnist --run runs/a --strengths linf=0.6:20'
    >>> extended("python -m robustatlas evaluate a.py:b --run runs/a", [farther])
    'python -m robustatlas evaluate a.py:b --run runs/a --strengths linf=0.6:20'
    >>> extended("python mine.py", [farther])
    '--strengths linf=0.6:20'
    """
    options, begun = " ".join(one.option for one in advice), "--strengths"
    words = iter(shlex.split(command.replace(f"{begun}=", f"{begun} ")))
    kept: list[str] = []
    for word in words:
        given = [word, next(words, "")] if word == begun else [word]
        if len(given) == 1 or given[1].partition("=")[0] not in {one.attack for one in advice}:
            kept += given
    whole = _EVALUATE in (kept[:2], kept[2:4]) and not any(word.startswith("--part") for word in kept)
    return f"{shlex.join(kept)} {options}" if whole else options


def _rounded_up(value: float) -> float:
    """Two significant digits, no smaller than the value."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")
