"""Whether a run was found to be what is required: ``diagnosis=sound``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from robustatlas.checks.verdict import Verdict
from robustatlas.common.errors import UserError, brief
from robustatlas.common.wording import some
from robustatlas.common.wording import strength as written
from robustatlas.outcomes.strengths import position_of
from robustatlas.report.gate.requirements import Requirement, strengths_of
from robustatlas.report.gate.verdict import Check
from robustatlas.results.result import Result

_FORM = re.compile(r"\s*diagnosis\s*=\s*([^=]*?)\s*")


def asks_for_verdict(text: str) -> bool:
    """Whether a requirement is about the diagnosis.

    Example:
        >>> asks_for_verdict("diagnosis=sound"), asks_for_verdict("clean>=90")
        (True, False)
    """
    return _FORM.fullmatch(text) is not None


def check_verdict(text: str, result: Result, bounds: Sequence[Requirement] = ()) -> Check:
    """Whether the diagnosis of a run is the required one; a run without a diagnosis fails, and a sound one where a
    required strength was not looked at.

    Args:
        text: ``diagnosis=sound``, or another verdict.
        bounds: what else is required; the strengths that these name have to be looked at, or all where they name none.

    Raises:
        UserError: no verdict of that name.
    """
    found = _FORM.fullmatch(text)
    wanted, known = found[1] if found else text, get_args(Verdict)
    if wanted not in known:
        raise UserError(
            f"--require {brief(repr(text))} is not understood; expected diagnosis= one of {', '.join(known)}."
        )
    diagnosis = result.diagnosis
    if diagnosis is None:
        return Check(text, False, "The run was not diagnosed; run 'robustatlas diagnose' on it, or evaluate it again.")
    if diagnosis.verdict == wanted == "sound" and (unseen := _unseen(result, bounds)):
        where = some([f"{attack} at {written(strength, of=attack)}" for attack, strength in unseen])
        return Check(
            text,
            False,
            f"Nothing was looked at where these searches ended: {where}; run 'robustatlas diagnose' on the run. "
            f"{diagnosis.sentence}",
        )
    return Check(text, diagnosis.verdict == wanted, diagnosis.sentence)


def _unseen(result: Result, bounds: Sequence[Requirement]) -> list[tuple[str, float]]:
    """The attacks by gradients and required strengths whose searches were not looked at where they ended."""
    by_gradients = {record.name for record in result.records.values() if record.gradient is not None}
    named = [entry for bound in bounds for entry in strengths_of(bound, result)]
    everything = [(attack, strength) for attack in result.attacks for strength in result.strengths(attack).tolist()]
    looked_at = result.diagnosis.looked_at if result.diagnosis is not None else {}
    return [
        (attack, strength)
        for attack, strength in dict.fromkeys(named or everything)
        if attack in by_gradients and position_of(strength, looked_at.get(attack, ())) is None
    ]
