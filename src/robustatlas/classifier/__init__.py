"""Any classifier as one thing, and what it runs in: its precision, its random numbers, its passes counted."""

from robustatlas.classifier.classifier import Classifier, Precision
from robustatlas.classifier.identity import Identity, Origin
from robustatlas.classifier.normalisation import Statistic
from robustatlas.classifier.passes import Passes
from robustatlas.classifier.precision import true_float32, undisturbed
from robustatlas.classifier.randomness import seeded

__all__ = [
    "Classifier",
    "Identity",
    "Origin",
    "Passes",
    "Precision",
    "Statistic",
    "seeded",
    "true_float32",
    "undisturbed",
]
