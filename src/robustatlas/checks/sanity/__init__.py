"""Sanity checks, made once before the work: would numbers of this model on these samples mean anything?"""

from robustatlas.checks.sanity.attacks import backward_rules, check_attacks
from robustatlas.checks.sanity.inputs import NOT_KNOWN, ClassesHeld, check_classes, check_inputs
from robustatlas.checks.sanity.model import GRADIENTS, check_logits, check_model, multiple_output_warnings

__all__ = [
    "GRADIENTS",
    "NOT_KNOWN",
    "ClassesHeld",
    "backward_rules",
    "check_attacks",
    "check_classes",
    "check_inputs",
    "check_logits",
    "check_model",
    "multiple_output_warnings",
]
