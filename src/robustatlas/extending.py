"""Names for packages that extend robustatlas: for each kind of thing its base class, its registry and some helpers.

A new thing is one file, and one line that names it: an entry point of one's own package, or an entry in the registry.
That holds for threat models, attacks, optimizers, searches, metrics, recipes, certificates, indicators, sources of
models and sections of the report. These names stay where they are; those of the rooms behind them may move.

Each is imported when it is first used, so that a metric does not wait for torch.

Example:
    >>> from robustatlas.extending import RECIPES
    >>> "pgd" in RECIPES
    True
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "attacks.catalogue": "ATTACKS",
    "attacks.definition": "Attack AttackInfo AttackRun grid",
    "attacks.search": "SEARCHES Schedule",
    "certificates": "CERTIFICATES",
    "certificates.base": "MARGIN_OF_SIZES Certificate Samples Subject norm_of",
    "checks.indicators": "INDICATORS DiagnosedSamples Indicator Measurement",
    "common.bundle": "Bundle Fixed over per_sample",
    "metrics.averages": "average_accuracy",
    "metrics.bootstrap": "SampleStatistic",
    "metrics.registry": "METRICS Metric",
    "models.objectives": "margin_of",
    "models.schemes": "SCHEMES",
    "optimizers": "OPTIMIZERS",
    "optimizers.apgd": "APGD",
    "optimizers.base": "Optimizer State counter",
    "optimizers.fmn": "FMN",
    "optimizers.pgd": "PGD",
    "report.sections": "SECTIONS Section",
    "optimizers.crafting": "network_mode",
    "threats.base": "ThreatModel",
    "threats.box": "BoxThreat OneNumber require_images",
    "threats.lp": "L2 Linf",
    "threats.probe": "probe",
    "training.recipes": "RECIPES Recipe Update",
}
_HOME = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"robustatlas.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
