"""Evaluations from the command line that end when their numbers are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from robustatlas.cli._help import ATTACKS
from robustatlas.cli._terminal import safe, shown, table
from robustatlas.common.errors import UserError
from robustatlas.common.scalars import fraction
from robustatlas.common.wording import MASKED, counted, strength, why_masked
from robustatlas.outcomes.masked import masked
from robustatlas.results.result import load_result

if TYPE_CHECKING:
    from robustatlas.evaluation.request import Request
    from robustatlas.evaluation.until import Known
    from robustatlas.metrics.intervals import Interval
    from robustatlas.results.result import Result

Until = Annotated[
    str | None,
    ATTACKS.option(
        "POINTS",
        "Take the samples in random order, and end when every accuracy asked for is known to this many percentage "
        "points either way, at 95 % for all of them together. `separated`: end when it is known which of this model "
        "and the one of --against has the higher average accuracy.",
    ),
]
Against = Annotated[
    Path | None,
    ATTACKS.option("RUN", "Run of the other model, for `--until separated`; the samples that it has are taken."),
]


def result_of(model: Any, data: Any, request: Request, until: str | None, against: Path | None) -> Result:
    """Evaluate; with ``until`` as many samples as it takes, and print what is known of all."""
    from robustatlas.evaluation.auditing import evaluated_and_audited
    from robustatlas.evaluation.until import evaluated_until
    from robustatlas.evaluation.workers.memory import hand_back_at_once

    hand_back_at_once()
    if until is None:
        if against is not None:
            raise UserError("--against is for --until separated; give both, or neither.")
        return evaluated_and_audited(model, data, request)
    width = fraction(until)
    if until != "separated" and width != width:
        raise UserError(f"--until {until!r} is not understood; expected percentage points, such as 2.0, or separated.")
    known = evaluated_until(model, data, request, "separated" if until == "separated" else width, against)
    console = Console(highlight=False)
    console.print(known_table(known.result, known.clean, known.accuracies))
    why = masked(known.result) | ({} if against is None else masked(load_result(against)))
    for sentence in _said(known, why):
        console.print(sentence)
    return known.result


def known_table(result: Result, clean: Interval, accuracies: Mapping[str, Sequence[Interval]]) -> Table:
    """What is known of all samples, at the first, middle and last strength of each attack."""
    rows = table("known of all samples", "%, with intervals that hold together")
    rows.add_row("clean accuracy", shown(clean))
    for attack, row in accuracies.items():
        strengths = result.strengths(attack)
        middle = (len(strengths) - 1) // 2
        for place in sorted({0, middle, len(strengths) - 1}):
            rows.add_row(safe(f"{attack} {strength(strengths[place], of=attack)}"), shown(row[place]))
    return rows


def _said(known: Known, why: Mapping[str, float]) -> list[str]:
    through = f"{counted(known.result.samples, 'sample')} of {known.population:,} searched"
    if known.difference is not None and why:
        return [f"{through}: the average accuracy is {MASKED}, so neither is told to be higher. {why_masked(why)}"]
    if known.difference is not None:
        better = "higher" if known.difference.low > 0 else "lower"
        verdict = f"is {better}" if known.enough else "may be higher or lower"
        return [f"{through}: its average accuracy {verdict} ({shown(known.difference)} points)."]
    ended = "" if known.enough else ", all there are"
    known_to = f"{through}{ended}: every accuracy is known to {known.half_width:.1f} points either way."
    saved = f"{known.saved:,} of {known.population:,} were saved; a number fixed before looking would have been"
    return [known_to, f"{saved} about {known.fixed:,}."] if known.saved else [known_to]
