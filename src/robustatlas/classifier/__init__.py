"""Any classifier as one thing, and what it runs in: its precision, its random numbers, its passes counted."""

from robustatlas.classifier.classifier import Classifier
from robustatlas.classifier.draws import Verdict
from robustatlas.classifier.identity import ModelIdentity, Origin
from robustatlas.classifier.normalisation import Statistic
from robustatlas.classifier.outputs import Outputs, looks_like
from robustatlas.classifier.passes import Passes
from robustatlas.classifier.placement import arriving, arriving_on
from robustatlas.classifier.precision import true_float32, undisturbed
from robustatlas.classifier.randomness import seeded
from robustatlas.classifier.rejection import Errors, Rejection, looks_rejecting
from robustatlas.classifier.settings import Knowledge, Precision

__all__ = [
    "Classifier",
    "Errors",
    "Knowledge",
    "ModelIdentity",
    "Origin",
    "Outputs",
    "Passes",
    "Precision",
    "Rejection",
    "Statistic",
    "Verdict",
    "arriving",
    "arriving_on",
    "looks_like",
    "looks_rejecting",
    "seeded",
    "true_float32",
    "undisturbed",
]
