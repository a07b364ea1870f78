"""Checks made once, before the work: would the numbers of this model on these samples mean anything?"""

from robustatlas.checks.sanity.attacks import check_attacks, ways_back
from robustatlas.checks.sanity.inputs import NOT_KNOWN, ClassesHeld, check_classes, check_inputs
from robustatlas.checks.sanity.model import GRADIENTS, check_logits, check_model, first_taken

__all__ = [
    "GRADIENTS",
    "NOT_KNOWN",
    "ClassesHeld",
    "check_attacks",
    "check_classes",
    "check_inputs",
    "check_logits",
    "check_model",
    "first_taken",
    "ways_back",
]
