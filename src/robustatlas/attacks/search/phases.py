"""Phases of a sample under a search from above, and the table of transitions between them.

The same diagram as in docs/searches.md, drawn from :data:`TRANSITIONS` by :func:`state_diagram`:

.. code-block:: text

    clean      -> bounding   : is_attacked (it is classified correctly)
    clean      -> settled    : is_not_attacked (its size is 0 already)
    bounding   -> restarting : bounds_end (restarts begin at the smallest example)
    bounding   -> ascending  : restarts_have_no_start (restarts wait until an ascent has found an example)
    restarting -> ascending  : restarts_have_no_start (restarts wait until an ascent has found an example)
    restarting -> ascending  : restarts_are_fruitless (several in a row found nothing smaller)
    restarting -> ascending  : restarts_end (each restart was made)
    ascending  -> restarting : has_first_example (restarts waited for this example)
    ascending  -> refining   : ascents_end (each kind of ascent failed below the smallest example)
    restarting -> refining   : has_all (nothing smaller is asked for)
    ascending  -> refining   : has_all (nothing smaller is asked for)
    bounding   -> refining   : exceeds_passes (its next run could exceed the limit of passes)
    restarting -> refining   : exceeds_passes (its next run could exceed the limit of passes)
    ascending  -> refining   : exceeds_passes (its next run could exceed the limit of passes)
    refining   -> settled    : has_no_example (there is no example to refine)
    refining   -> settled    : refinements_end (no run is left)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from torch import Tensor


class Phase(Enum):
    """Phase of a sample: which kind of run comes next."""

    CLEAN = "clean"
    BOUNDING = "bounding"
    RESTARTING = "restarting"
    ASCENDING = "ascending"
    REFINING = "refining"
    SETTLED = "settled"

    @property
    def place(self) -> int:
        """Number of the phase in tensors of phases."""
        return list(Phase).index(self)


@dataclass(frozen=True)
class Transition:
    """A change of phase.

    Attributes:
        source: phase of the run that ended, or of the run that would come next.
        condition: name of the mask that must hold, as in ``Downward.advance``.
        target: the phase of the next run; a phase without runs is passed through.
        reason: why the change is right.
    """

    source: Phase
    condition: str
    target: Phase
    reason: str


_CLEAN, _BOUNDING, _RESTARTING, _ASCENDING, _REFINING, _SETTLED = Phase

TRANSITIONS = (
    Transition(_CLEAN, "is_attacked", _BOUNDING, "it is classified correctly"),
    Transition(_CLEAN, "is_not_attacked", _SETTLED, "its size is 0 already"),
    # Decided by the run that ended:
    Transition(_BOUNDING, "bounds_end", _RESTARTING, "restarts begin at the smallest example"),
    Transition(_BOUNDING, "restarts_have_no_start", _ASCENDING, "restarts wait until an ascent has found an example"),
    Transition(_RESTARTING, "restarts_have_no_start", _ASCENDING, "restarts wait until an ascent has found an example"),
    Transition(_RESTARTING, "restarts_are_fruitless", _ASCENDING, "several in a row found nothing smaller"),
    Transition(_RESTARTING, "restarts_end", _ASCENDING, "each restart was made"),
    Transition(_ASCENDING, "has_first_example", _RESTARTING, "restarts waited for this example"),
    Transition(_ASCENDING, "ascents_end", _REFINING, "each kind of ascent failed below the smallest example"),
    # Decided by the run that would come next:
    Transition(_RESTARTING, "has_all", _REFINING, "nothing smaller is asked for"),
    Transition(_ASCENDING, "has_all", _REFINING, "nothing smaller is asked for"),
    Transition(_BOUNDING, "exceeds_passes", _REFINING, "its next run could exceed the limit of passes"),
    Transition(_RESTARTING, "exceeds_passes", _REFINING, "its next run could exceed the limit of passes"),
    Transition(_ASCENDING, "exceeds_passes", _REFINING, "its next run could exceed the limit of passes"),
    Transition(_REFINING, "has_no_example", _SETTLED, "there is no example to refine"),
    Transition(_REFINING, "refinements_end", _SETTLED, "no run is left"),
)
"""Changes of phase, in the order in which they are decided; a later one that holds overrides an earlier one."""


def next_phase(phase: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
    """Apply the table to samples.

    Args:
        phase: int64 [B], places in :class:`Phase`.
        conditions: bool [B] each, by the names in :data:`TRANSITIONS`; transitions of other names do not apply.

    Returns:
        int64 [B]; a sample of which no condition holds stays in its phase.

    Example:
        >>> import torch
        >>> bounding = torch.tensor([Phase.BOUNDING.place] * 2)
        >>> ended = next_phase(bounding, {"bounds_end": torch.tensor([True, False])})
        >>> [list(Phase)[place].value for place in ended]
        ['restarting', 'bounding']
    """
    applied = [each for each in TRANSITIONS if each.condition in conditions]
    # On an accelerator each comparison is a launch, so a source is compared once.
    is_in = {source: phase == source.place for source in dict.fromkeys(each.source for each in applied)}
    after = phase
    for each in applied:
        after = after.masked_fill(is_in[each.source] & conditions[each.condition], each.target.place)
    return after


def state_diagram() -> str:
    """Return the table of transitions as a diagram, one line each.

    Example:
        >>> print(state_diagram().splitlines()[0])
        clean      -> bounding   : is_attacked (it is classified correctly)
    """
    return "\n".join(
        f"{each.source.value:10} -> {each.target.value:11}: {each.condition} ({each.reason})" for each in TRANSITIONS
    )
