"""Models that are functions of other frameworks: with a gradient, or with predictions alone."""

from robustatlas.models.frameworks.gradient import from_gradient
from robustatlas.models.frameworks.jax import from_jax
from robustatlas.models.frameworks.predictions import from_predictions
from robustatlas.models.frameworks.tensorflow import from_tensorflow

__all__ = ["from_gradient", "from_jax", "from_predictions", "from_tensorflow"]
