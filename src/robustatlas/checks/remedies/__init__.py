"""Other gradients for a model whose own mislead, and a network that imitates it; made from the model alone."""

from robustatlas.checks.remedies.modules import Way, around
from robustatlas.checks.remedies.ways import distilled, estimated

__all__ = ["Way", "around", "distilled", "estimated"]
