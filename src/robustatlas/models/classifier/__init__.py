"""Any classifier as one thing, and what it runs in: its precision, its random numbers, its passes counted."""

from robustatlas.models.classifier.classifier import Classifier
from robustatlas.models.classifier.draws import Verdict
from robustatlas.models.classifier.identity import ModelIdentity, Origin
from robustatlas.models.classifier.normalisation import Statistic
from robustatlas.models.classifier.outputs import Outputs, looks_like
from robustatlas.models.classifier.passes import Passes
from robustatlas.models.classifier.placement import arriving, arriving_on
from robustatlas.models.classifier.precision import true_float32, undisturbed
from robustatlas.models.classifier.randomness import seeded
from robustatlas.models.classifier.rejection import Errors, Rejection, looks_rejecting
from robustatlas.models.classifier.settings import Knowledge, Precision

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
