"""`robustatlas report`: one page for one or several runs."""

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli import _runs
from robustatlas.cli._help import DATA, MODEL, OUTPUT
from robustatlas.cli._options import parse_attack_strengths
from robustatlas.common.escaping import visible_text
from robustatlas.report.facts import choose_reference
from robustatlas.report.facts.rows import read_about
from robustatlas.report.gate import Requirement, asks_for_verdict
from robustatlas.results.result import load_result


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Run directories, one to five. The curves of several are drawn in the same plots."
        ),
    ],
    about: Annotated[
        Path | None,
        MODEL.option(
            "FILE",
            "JSON file that says for each model what it was trained on (name of the model: trained_on: attack: "
            "strength), which the stability constant needs.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        DATA.option(
            "NAME", "Data set of the runs, for the clean images beside the adversarial examples that a run kept."
        ),
    ] = None,
    headline: _runs.Headline = None,
    reference: _runs.Reference = None,
    output: Annotated[Path, OUTPUT.option("FILE", "HTML file to write.", "--output", "-o")] = Path("report.html"),
    require: Annotated[
        list[str] | None,
        OUTPUT.option(
            "WHAT>=NUMBER",
            "A bound as `check` takes it; the page begins with whether it is kept, how many images would decide "
            "it, and the images that broke. Give it several times for several bounds.",
        ),
    ] = None,
) -> None:
    r"""Write a page on one or several runs: how robust, against what, where it breaks, what to trust.

    One HTML file that needs no network to be read:

    ```bash
    robustatlas report runs/mynet-cifar10 -o report.html
    ```

    With a verdict above all, on what you require:

    ```bash
    robustatlas report runs/mynet \
        --require "rotation@10>=80" \
        --require "typical-rotation@10>=90"
    ```
    """
    from robustatlas.data import load_dataset
    from robustatlas.report.page import build_report

    results = [load_result(run) for run in runs]
    known = {model: entry.trained_on for model, entry in read_about(about).items() if entry.tells_training}
    page = build_report(
        results,
        output,
        reference=choose_reference(reference, results),
        trained_on=known,
        data=None if data is None else load_dataset(data),
        headline=parse_attack_strengths(headline, "--headline") or None,
        requirements=[Requirement.parse(text) for text in require or () if not asks_for_verdict(text)],
        verdicts=[text for text in require or () if asks_for_verdict(text)],
    )
    typer.echo(f"Report: {visible_text(str(page.resolve()))}")
