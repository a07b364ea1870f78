"""robustatlas: how robust is a classifier, globally? Many threat models, every strength, per sample.

What is named here is imported when it is first used, so that metrics and the command line's help do not wait for torch.

Example:
    >>> import robustatlas as ra
    >>> sorted(name for name in ra.__all__ if name.startswith("load"))
    ['load_dataset', 'load_model', 'load_reference', 'load_result']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from robustatlas.common.bound import WHERE
from robustatlas.common.version import __version__

if TYPE_CHECKING:
    from robustatlas import callbacks, metrics
    from robustatlas.attacks.catalogue import compose
    from robustatlas.attacks.definition import Attack, AttackInfo, AttackRun, Plan
    from robustatlas.certificates.certify import certify
    from robustatlas.common.errors import UserError
    from robustatlas.compat.external import external
    from robustatlas.data import Dataset, load_dataset
    from robustatlas.evaluation import evaluate
    from robustatlas.evaluation.verification import verify
    from robustatlas.metrics.figures import plot_accuracy_matrix, plot_curves
    from robustatlas.metrics.references import load_reference
    from robustatlas.models import load_model
    from robustatlas.models.classifier import Classifier
    from robustatlas.models.frameworks import from_gradient, from_jax, from_predictions, from_tensorflow
    from robustatlas.models.gradients import straight_through, surrogate
    from robustatlas.report.compared import compare
    from robustatlas.report.gate.checked import check
    from robustatlas.results.result import Result, load_result
    from robustatlas.studies import study
    from robustatlas.threats.base import ThreatModel
    from robustatlas.training import train
    from robustatlas.trust import audit, diagnose

__all__ = [
    "Attack",
    "AttackInfo",
    "AttackRun",
    "Classifier",
    "Dataset",
    "Plan",
    "Result",
    "ThreatModel",
    "UserError",
    "__version__",
    "audit",
    "callbacks",
    "certify",
    "check",
    "compare",
    "compose",
    "diagnose",
    "evaluate",
    "external",
    "from_gradient",
    "from_jax",
    "from_predictions",
    "from_tensorflow",
    "load_dataset",
    "load_model",
    "load_reference",
    "load_result",
    "metrics",
    "plot_accuracy_matrix",
    "plot_curves",
    "straight_through",
    "study",
    "surrogate",
    "train",
    "verify",
]

WHERE["Result.card"] = "robustatlas.report.card:card_of_result"
WHERE["Result._repr_html_"] = "robustatlas.report.notebook:result_html"

_HOME = {
    "AttackInfo": "attacks.definition",
    "Attack": "attacks.definition",
    "Classifier": "models.classifier",
    "Dataset": "data",
    "AttackRun": "attacks.definition",
    "Plan": "attacks.definition",
    "Result": "results.result",
    "ThreatModel": "threats.base",
    "UserError": "common.errors",
    "audit": "trust",
    "certify": "certificates.certify",
    "check": "report.gate.checked",
    "compare": "report.compared",
    "compose": "attacks.catalogue",
    "diagnose": "trust",
    "evaluate": "evaluation",
    "external": "compat.external",
    "from_gradient": "models.frameworks",
    "from_jax": "models.frameworks",
    "from_predictions": "models.frameworks",
    "from_tensorflow": "models.frameworks",
    "load_dataset": "data",
    "load_model": "models",
    "load_reference": "metrics.references",
    "load_result": "results.result",
    "plot_accuracy_matrix": "metrics.figures",
    "plot_curves": "metrics.figures",
    "straight_through": "models.gradients",
    "study": "studies",
    "surrogate": "models.gradients",
    "train": "training",
    "verify": "evaluation.verification",
}


_MODULES = {
    "callbacks": "callbacks",
    "errors": "common.errors",
    "metrics": "metrics",
    "references": "metrics.references",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"robustatlas.{_MODULES[name]}")
    if name in _HOME:
        return getattr(import_module(f"robustatlas.{_HOME[name]}"), name)
    raise AttributeError(f"module 'robustatlas' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
