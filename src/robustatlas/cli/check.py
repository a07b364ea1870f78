"""``robustatlas check``: a gate for pipelines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli import _runs
from robustatlas.cli._help import GENERAL, OUTPUT
from robustatlas.cli._options import parse_attack_strengths
from robustatlas.cli._terminal import safe
from robustatlas.common.files import explain_write_errors, write_text
from robustatlas.outcomes.strengths import strengths_as_typed
from robustatlas.report.gate import FORMATS, Check, Decision, Judged, overall_sentence
from robustatlas.report.gate import check as check_run
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.headline import choose_headline, headline_of
from robustatlas.report.numbers.of_run import numbers_of_run
from robustatlas.report.words import headline_sentence
from robustatlas.results.result import load_result

FAILED = 3
"""Exit code where a check is not kept or not decided; a mistake in the command itself ends with 1 or 2."""


def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    union: _runs.Union = None,
    headline: _runs.Headline = None,
    reference: _runs.Reference = None,
    junit: Annotated[Path | None, OUTPUT.option("FILE", "Write the verdict as JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, OUTPUT.option("FILE", "Append the verdict as Markdown, such as to `$GITHUB_STEP_SUMMARY`.")
    ] = None,
    require: Annotated[
        list[str] | None,
        GENERAL.option(
            "WHAT>=NUMBER",
            "A bound, in percent: on a robust accuracy, `linf@8/255>=45`, under several attacks at once, "
            "`linf@8/255,l2@0.5>=40`, on a typical one, `typical-hue@9>=90`, or on clean, average, union (see "
            "--union), cr, cr-ind-worst, cr-exp, cr-max, uar; on a "
            "hypervolume (`ah-linf>=0.3`) or a median size (`median-linf>=0.02`). <= bounds from above. "
            "`diagnosis=sound` asks for the verdict of the run's diagnosis, on the strengths that are required. Give "
            "it several times for several bounds.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        GENERAL.option(
            "RUN0",
            "A run of an earlier version of the model: no accuracy may fall behind it, on the same images, by "
            "more than --max-drop.",
        ),
    ] = None,
    max_drop: Annotated[
        float, GENERAL.option("POINTS", "Percentage points that an accuracy may fall behind --against.")
    ] = 0.0,
    value: Annotated[
        bool,
        GENERAL.flag(
            "--value",
            "Judge by the measured values alone. Without it, the whole 95 % interval of a number has to keep its "
            "bound, and a drop has to be significant to count.",
        ),
    ] = False,
) -> None:
    r"""Check what is required of a run; the exit code is 3 where it is not kept or not decided.

    At least 45 % withstand linf 8/255, even at the low end of the interval:

    ```bash
    robustatlas check runs/mynet \
        --require "linf@8/255>=45"
    ```

    A quantised network against the network it was made from:

    ```bash
    robustatlas check runs/mynet-int8 --against runs/mynet \
        --max-drop 1.0 --junit robustness.xml
    ```
    """
    asked: Judged = "value" if value else "interval"
    result = load_result(run)
    at = strengths_as_typed(parse_attack_strengths(union, "--union") or {})
    checks = check_run(result, require or (), against, max_drop, reference, at, asked)
    if junit is not None:
        write_text(junit, FORMATS["junit"](checks, str(run)))
    if markdown is not None:
        with explain_write_errors(markdown), markdown.open("a", encoding="utf-8") as file:
            file.write(FORMATS["markdown"](checks, str(run)))
    judged_table = result.select_judged()
    choice = choose_headline([judged_table], parse_attack_strengths(headline, "--headline") or None)
    numbers = numbers_of_run(result, worst_case_points(judged_table))
    if (first := headline_of(numbers, choice)) is not None:
        said = headline_sentence(first, result.data)
        Console(highlight=False).print(f"[bold]{safe(result.name)}[/bold]: {safe(said)}.")
    _print(checks, result.warnings)
    if not all(found.passed for found in checks):
        raise typer.Exit(FAILED)


def _print(checks: Sequence[Check], warnings: Sequence[str]) -> None:
    console = Console(highlight=False)
    for warning in warnings:
        console.print(f"[yellow]Warning:[/yellow] {safe(warning)}")
    for check in checks:
        style = _STYLES[check.decision]
        console.print(f"[{style}]{check.decision.value}[/{style}]  {safe(check.name)}: {safe(check.sentence)}")
    console.print(f"[bold]{overall_sentence(checks)}[/bold]")


_STYLES = {Decision.KEPT: "green", Decision.NOT_KEPT: "bold red", Decision.NOT_DECIDED: "yellow"}
