"""The outcome table: per sample and attack, the smallest strength at which an adversarial example was found."""

from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.base import sha256_of_array, sha256_of_tensors
from robustatlas.outcomes.comparable import common_strengths, shared_samples
from robustatlas.outcomes.identity import DataRecord, Identity, ModelRecord
from robustatlas.outcomes.merge import merge
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.query import query
from robustatlas.outcomes.records import AttackRecord, CallRecord
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.table import OutcomeTable

__all__ = [
    "AccuracyTable",
    "AttackRecord",
    "CallRecord",
    "DataRecord",
    "Identity",
    "ModelRecord",
    "Outcome",
    "OutcomeTable",
    "Run",
    "common_strengths",
    "merge",
    "query",
    "sha256_of_array",
    "sha256_of_tensors",
    "shared_samples",
]
