"""The checks of a run, for Python and for the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.strengths import read_strengths
from robustatlas.report.facts.run import facts_of
from robustatlas.report.gate.requirements import Judged, Requirement
from robustatlas.report.gate.verdict import (
    Check,
    check_against,
    check_requirements,
    check_verdict,
    is_about_diagnosis,
)
from robustatlas.report.numbers.against import choose_reference, hold_against
from robustatlas.results.result import Result, load_result


def check(
    run: Result | str | Path,
    require: Sequence[str] = (),
    against: Result | str | Path | None = None,
    max_drop: float = 0.0,
    reference: Reference | str | None = None,
    union: Mapping[str, float] | None = None,
    judged: Judged = "interval",
) -> list[Check]:
    """Check what is required of a run.

    Args:
        run: a result, or a run directory.
        require: bounds such as `"linf@8/255>=45"` or `"clean>=90"`, and `"diagnosis=sound"`.
        against: an earlier version, which no accuracy may fall behind on the same images by more than `max_drop`.
        max_drop: in percentage points.
        reference: a reference, or its name or file; `"none"` for none, None for the shipped one that fits.
        union: attack -> strength of the worst case over attacks, as people type it.
        judged: whether the whole 95 % interval of a number has to keep a bound, or its value alone.

    Returns:
        one row for each thing that was checked: its name, whether it is kept, not kept or not decided, and a sentence.

    Raises:
        UserError: nothing is required, the run is not finished, or a requirement is not understood.

    Example:
        >>> run = Result.from_arrays([0] * 90, [0] * 90, {"linf": [0.3] * 90}, {"linf": [0.2, 0.4]})
        >>> [(one.name, one.decision.value) for one in check(run, ["clean>=90", "linf@0.4>=10"])]
        [('clean>=90', 'kept'), ('linf@0.4>=10', 'not kept')]
    """
    if not require and against is None:
        raise UserError("Nothing is required; give bounds (such as clean>=90), or an earlier run.")
    if not 0 <= max_drop <= 100:
        raise UserError(f"The drop that is allowed is {max_drop:g}; expected percentage points from 0 to 100.")
    result = run if isinstance(run, Result) else load_result(run)
    if result.missing:
        raise UserError(
            f"{result.path or result.name} is not finished; run the same evaluation again, and only what is missing is "
            "computed."
        )
    verdicts = [text for text in require if is_about_diagnosis(text)]
    worst_at = read_strengths(union or {})
    bounds = [replace(Requirement.parse(text), union=worst_at) for text in require if text not in verdicts]
    checks = [check_verdict(text, result, bounds) for text in verdicts]
    if bounds:
        chosen = reference if isinstance(reference, Reference) else choose_reference(reference, [result])
        if chosen:
            hold_against(result, chosen).require()
        checks += check_requirements(bounds, result, facts_of(result, reference=chosen), judged)
    if against is not None:
        checks += check_against(
            result, against if isinstance(against, Result) else load_result(against), max_drop, judged
        )
    return checks
