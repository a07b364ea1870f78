"""Checks made once, before the work: would the numbers of this model on these samples mean anything?"""

from robustatlas.sanity.attacks import check_attacks
from robustatlas.sanity.inputs import check_inputs
from robustatlas.sanity.model import check_model

__all__ = ["check_attacks", "check_inputs", "check_model"]
