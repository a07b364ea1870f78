"""Any classifier as one thing, with its precision, its random numbers and the count of its passes."""

from robustatlas.models.classifier.classifier import Classifier
from robustatlas.models.classifier.draws import Verdict
from robustatlas.models.classifier.identity import ModelIdentity, Origin
from robustatlas.models.classifier.network import Statistic
from robustatlas.models.classifier.outputs import Outputs, kind_of_outputs
from robustatlas.models.classifier.passes import Passes
from robustatlas.models.classifier.placement import arrival_device, unpickle_on
from robustatlas.models.classifier.precision import true_float32, undisturbed
from robustatlas.models.classifier.randomness import seeded
from robustatlas.models.classifier.rejection import Errors, Rejection, is_rejecting_output
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
    "arrival_device",
    "is_rejecting_output",
    "kind_of_outputs",
    "seeded",
    "true_float32",
    "undisturbed",
    "unpickle_on",
]
