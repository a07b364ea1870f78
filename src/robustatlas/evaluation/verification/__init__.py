"""``verify``: other people's adversarial examples, checked one by one, as evidence in a run."""

from robustatlas.evaluation.verification.asked import model_source
from robustatlas.evaluation.verification.judging import REFUSALS
from robustatlas.evaluation.verification.verifying import Confirmed, Verification, verify

__all__ = ["REFUSALS", "Confirmed", "Verification", "model_source", "verify"]
