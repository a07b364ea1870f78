"""What can be done where gradients mislead: other ways back, other starts, other outputs; made from the model alone."""

from robustatlas.checks.remedies.modules import around
from robustatlas.checks.remedies.ways import (
    Way,
    at_logits,
    averaged,
    distilled,
    estimated,
    from_random_starts,
    inside,
    precise,
    rescaled,
    transferred,
)

__all__ = [
    "Way",
    "around",
    "at_logits",
    "averaged",
    "distilled",
    "estimated",
    "from_random_starts",
    "inside",
    "precise",
    "rescaled",
    "transferred",
]
