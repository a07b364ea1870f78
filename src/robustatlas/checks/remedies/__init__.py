"""Other gradients for a model whose own mislead, and a network that imitates it; made from the model alone."""

from robustatlas.checks.remedies.imitation import distill, model_with_estimated_gradient
from robustatlas.checks.remedies.modules import GradientRemedy, find_gradient_remedies

__all__ = ["GradientRemedy", "distill", "find_gradient_remedies", "model_with_estimated_gradient"]
