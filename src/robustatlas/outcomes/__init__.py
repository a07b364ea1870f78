"""The outcome table: per sample and attack, the smallest strength at which an adversarial example was found."""

from robustatlas.outcomes.manifest import (
    FORMAT_VERSION,
    AttackSettings,
    Context,
    DataSettings,
    Manifest,
    ModelSettings,
    SampleSettings,
    Settings,
    sha256_of_array,
    sha256_of_tensors,
)
from robustatlas.outcomes.query import query
from robustatlas.outcomes.result import Outcome, Result
from robustatlas.outcomes.store import RunStore, load_result

__all__ = [
    "FORMAT_VERSION",
    "AttackSettings",
    "Context",
    "DataSettings",
    "Manifest",
    "ModelSettings",
    "Outcome",
    "Result",
    "RunStore",
    "SampleSettings",
    "Settings",
    "load_result",
    "query",
    "sha256_of_array",
    "sha256_of_tensors",
]
