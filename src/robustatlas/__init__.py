"""robustatlas: how robust is a classifier, globally? Many threat models, every strength, per sample.

Example:
    >>> import robustatlas as ra
    >>> sorted(name for name in ra.__all__ if name.startswith("load"))
    ['load_dataset', 'load_model', 'load_reference', 'load_result']
"""

from robustatlas import metrics
from robustatlas.attacks.catalogue import compose
from robustatlas.attacks.definition import Attack, Stage
from robustatlas.classifier import Classifier
from robustatlas.datasets import Dataset, load_dataset
from robustatlas.errors import UserError
from robustatlas.evaluation import evaluate
from robustatlas.models import load_model
from robustatlas.outcomes import Outcome, Result, load_result
from robustatlas.references import load_reference
from robustatlas.report.figures import plot_accuracy_matrix, plot_curves
from robustatlas.threats.base import ThreatModel

__version__ = "0.1.0"

__all__ = [
    "Attack",
    "Classifier",
    "Dataset",
    "Outcome",
    "Result",
    "Stage",
    "ThreatModel",
    "UserError",
    "compose",
    "evaluate",
    "load_dataset",
    "load_model",
    "load_reference",
    "load_result",
    "metrics",
    "plot_accuracy_matrix",
    "plot_curves",
]
