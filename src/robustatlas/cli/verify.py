"""``robustatlas verify``: examples of others as evidence in a run, and certificates looked at again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robustatlas.cli import _models
from robustatlas.cli._help import ATTACKS, COMPUTE, DATA, MODEL, OUTPUT, REFERENCE, FullHelp
from robustatlas.cli._options import split_names
from robustatlas.cli._terminal import safe, table
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import pluralise
from robustatlas.outcomes import Run

if TYPE_CHECKING:
    from robustatlas.models.classifier import Classifier


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory that the verified examples are added to.")],
    examples: Annotated[
        Path | None,
        typer.Argument(
            metavar="[EXAMPLES]",
            help="Adversarial examples: an `.npz` with images (and index, labels, theta, attack), a folder of PNG "
            "files named by position in the data set, or a run that kept its examples. Without any, the certificates "
            "of the run are computed again.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        MODEL.option(
            "MODEL",
            "Model of the run, where it is found under another name now. By default the one that the run names.",
        ),
    ] = None,
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    data: Annotated[
        str | None,
        DATA.option(
            "NAME",
            "Data set of the run, where it is found under another name now. By default the one that the run names.",
        ),
    ] = None,
    attacks: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAMES",
            "Attacks of the run that the examples are evidence for, with commas between them. By default those "
            "of linf, l2, l1 and l0 that the run has.",
        ),
    ] = None,
    eight_bit: Annotated[
        bool, ATTACKS.flag("--eight-bit", "Count an example only if it still fools the model after rounding to 8 bits.")
    ] = False,
    submission: Annotated[
        str | None,
        REFERENCE.option(
            "NAME",
            "Check instead whether the run is a complete submission to the leaderboard of this reference, such as "
            "`multirobustbench-cifar10`.",
        ),
    ] = None,
    by: Annotated[str | None, OUTPUT.option("TEXT", "Who found the examples. By default the name of the file.")] = None,
    device: _models.Device = None,
    batch_size: Annotated[
        int | None, COMPUTE.option("N", "Number of examples that are checked at once. By default 256.", min=1)
    ] = None,
    help_all: FullHelp = False,
) -> None:
    r"""Check adversarial examples that others found, and add those that hold to RUN; or check its certificates, or
    whether it is a complete submission.

    For each example the clean prediction, the range [0, 1], the model's answer and the size in each norm are checked.
    From then on the smallest example of each sample counts, whoever found it.

    ```bash
    robustatlas verify runs/mynet-cifar10 adversarial.npz \
        --by "Jane Doe"
    ```

    Whether every certified size of a run is certain, by its own method, computed again here:

    ```bash
    robustatlas verify runs/mynet-cifar10
    ```

    Whether a run has all that the leaderboard takes, its card too:

    ```bash
    robustatlas verify runs/mynet-cifar10 \
        --submission multirobustbench-cifar10
    ```
    """
    if submission is not None:
        _check_submission(run, submission, examples)
        return
    from robustatlas.evaluation.verification import model_source
    from robustatlas.evaluation.verification import verify as verified

    source = model or model_source(Run.open(run))
    classifier = _models.loaded(source, weights, settings, mean, std, device)
    if examples is None:
        _recheck(run, classifier, data)
        return
    found = verified(
        run,
        examples,
        by,
        model=classifier,
        data=data,
        attacks=split_names(attacks) or None,
        eight_bit=eight_bit,
        batch_size=batch_size,
    )
    console = Console(highlight=False)
    console.print(f"{int(found.verified.sum())} of {pluralise(found.given, 'example')} by {safe(found.by)} verified.")
    for reason, count in found.refused.items():
        console.print(f"{count} refused: {safe(reason)}.")
    rows = table("attack", "samples", "now the\nsmallest", "strength", "robust accuracy\nbefore", "with them")
    for name, told in found.attacks.items():
        changed = [k for k in range(len(told.strengths)) if told.before[k] != told.after[k]]
        for k in changed or [len(told.strengths) // 2]:
            rows.add_row(
                safe(name),
                str(told.samples),
                str(told.smaller),
                format_strength(told.strengths[k], attack=name),
                f"{told.before[k]:.1f}",
                f"{told.after[k]:.1f}",
            )
    console.print(rows)


def _check_submission(run: Path, reference: str, examples: Path | None) -> None:
    """Print what a submission lacks; the command fails where that is anything."""
    from robustatlas.metrics.references import load_reference
    from robustatlas.report.submission import submission_faults
    from robustatlas.results.result import load_result

    if examples is not None:
        raise UserError("--submission looks at the run alone; leave EXAMPLES out.")
    found = submission_faults(load_result(run), load_reference(reference))
    console = Console(highlight=False)
    for sentence in found:
        console.print(safe(sentence), soft_wrap=True)
    if found:
        raise typer.Exit(1)
    console.print(f"{safe(str(run))} is a complete submission to the leaderboard of {safe(reference)}.", soft_wrap=True)


def _recheck(run: Path, model: Classifier, data: str | None) -> None:
    """Print which certificates hold; the command fails where one does not."""
    from robustatlas.certificates.certify import recheck

    found = recheck(run, model=model, data=data)
    console = Console(highlight=False)
    for each in found:
        console.print(f"{safe(str(each))}.", soft_wrap=True)
    if not all(each.holds for each in found):
        raise typer.Exit(1)
