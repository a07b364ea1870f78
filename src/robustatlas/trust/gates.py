"""The gates that a model passes before an attack can work, and the first that is shut (AutoAdvExBench)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.plans import plans_of
from robustatlas.attacks.search.plan import Stage
from robustatlas.checks.verdict import Diagnosis
from robustatlas.evaluation.evaluating import evaluated
from robustatlas.evaluation.plan import attack_as_recorded
from robustatlas.evaluation.request import Request
from robustatlas.optimizers.pgd import PGD
from robustatlas.results.result import Result
from robustatlas.trust.subject import KnownSubject

_SAMPLES = 32
_SINGLE, _ITERATED = 2 / 3, 1 / 2
"""Of the samples that are right clean, what a single step and an iteration leave at most, at the largest strength."""


def failed_gate(known: KnownSubject, result: Result, diagnosis: Diagnosis) -> str:
    """The first gate that is shut: ``"forward"`` (labels are not reproduced), ``"gradient"`` (it is zero at more than
    half of the samples), ``"single step"``, ``"iterate"``, or ``""``."""
    index = np.array(diagnosis.record.index, np.int64)
    if not len(index):
        return "forward"
    zero = next((finding for finding in diagnosis.indicators if finding.name == "zero-gradient"), None)
    if zero is not None and zero.share is not None and zero.share.value > 50:
        return "gradient"
    for name in result.attacks:
        if name in catalogue() and result.records:
            attack = replace(attack_as_recorded(name, result.records.values()), typical=0)
            for gate, steps, most in (("single step", 1, _SINGLE), ("iterate", 20, _ITERATED)):
                if _left(known, _stepping(attack, steps, float(result.strengths(name)[-1])), index) > most:
                    return gate
    return ""


def _stepping(attack: Attack, steps: int, strength: float) -> Attack:
    """The attack by so many steps of PGD, at one strength."""
    rate = 1.0 if steps == 1 else 0.25
    return replace(attack, plans=plans_of(Stage(PGD(steps, rate=rate), "margin")), strengths=(strength,))


def _left(known: KnownSubject, attack: Attack, index: NDArray[np.int64]) -> float:
    rows = torch.from_numpy(np.flatnonzero(np.isin(known.work.index, index))[:_SAMPLES])
    data = (known.work.rows[rows], known.work.labels[rows])
    found = evaluated(known.model, data, Request(attacks=attack, diagnose=False, progress=False))
    return float(found.correct(attack.name)[:, -1].mean())
