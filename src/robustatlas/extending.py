"""Names for packages that extend robustatlas: for each kind of thing its base class, its registry and some helpers.

A new thing is one file, and one line that names it: an entry point of one's own package, or an entry in the registry.
That holds for threat models, attacks, optimizers, searches, metrics, recipes, certificates, indicators, sources of
models and sections of the report. These names stay where they are; those of the rooms behind them may move.

Example:
    >>> from robustatlas.extending import RECIPES
    >>> "pgd" in RECIPES
    True
"""

from robustatlas.attacks.catalogue import ATTACKS
from robustatlas.attacks.definition import Attack, AttackInfo, AttackRun, grid
from robustatlas.attacks.search import SEARCHES, Schedule
from robustatlas.certificates import CERTIFICATES
from robustatlas.certificates.base import MARGIN_OF_SIZES, Certificate, Samples, Subject, norm_of
from robustatlas.checks.indicators import INDICATORS, DiagnosedSamples, Indicator, Measurement
from robustatlas.common.bundle import Bundle, Fixed, map_tensors, per_sample
from robustatlas.metrics.averages import average_accuracy
from robustatlas.metrics.bootstrap import SampleStatistic
from robustatlas.metrics.registry import METRICS, Metric
from robustatlas.models.objectives import margin_of
from robustatlas.models.schemes import SCHEMES
from robustatlas.optimizers import OPTIMIZERS
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.base import Optimizer, State, counter
from robustatlas.optimizers.crafting import network_mode
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.report.sections import SECTIONS, Section
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import BoxThreat, OneNumber, require_images
from robustatlas.threats.lp import L2, Linf
from robustatlas.threats.probe import probe
from robustatlas.training.recipes import RECIPES, Recipe, Update

__all__ = [
    "APGD",
    "ATTACKS",
    "CERTIFICATES",
    "FMN",
    "INDICATORS",
    "L2",
    "MARGIN_OF_SIZES",
    "METRICS",
    "OPTIMIZERS",
    "PGD",
    "RECIPES",
    "SCHEMES",
    "SEARCHES",
    "SECTIONS",
    "Attack",
    "AttackInfo",
    "AttackRun",
    "BoxThreat",
    "Bundle",
    "Certificate",
    "DiagnosedSamples",
    "Fixed",
    "Indicator",
    "Linf",
    "Measurement",
    "Metric",
    "OneNumber",
    "Optimizer",
    "Recipe",
    "SampleStatistic",
    "Samples",
    "Schedule",
    "Section",
    "State",
    "Subject",
    "ThreatModel",
    "Update",
    "average_accuracy",
    "counter",
    "grid",
    "map_tensors",
    "margin_of",
    "network_mode",
    "norm_of",
    "per_sample",
    "probe",
    "require_images",
]
