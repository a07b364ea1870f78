"""Whether a run was found to be what is required: ``diagnosis=sound``."""

from __future__ import annotations

import re
from typing import get_args

from robustatlas.checks.verdict import Verdict
from robustatlas.common.errors import UserError, brief
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


def check_verdict(text: str, result: Result) -> Check:
    """Whether the diagnosis of a run is the required one; a run without a diagnosis fails.

    Args:
        text: ``diagnosis=sound``, or another verdict.
        result: the run.

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
    return Check(text, diagnosis.verdict == wanted, diagnosis.sentence)
