"""``robustatlas calibrate``: six strengths of an attack, as hard to learn as those of linf."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._help import ATTACKS, OUTPUT, REFERENCE
from robustatlas.cli._terminal import safe
from robustatlas.common.wording import text_as_typed


def calibrate(
    attack: Annotated[
        str,
        typer.Argument(metavar="ATTACK", help="Attack whose accuracies the reference holds at six strengths or more."),
    ],
    reference: Annotated[
        str,
        REFERENCE.option(
            "FILE", "Reference by the rule ata that has linf at six strengths; `robustatlas reference` makes it."
        ),
    ],
    below: Annotated[
        float,
        ATTACKS.option(
            "PERCENT", "Accuracy after adversarial training (ATA) that the largest strength is to push below."
        ),
    ] = 25.0,
    up_to: Annotated[
        float | None,
        ATTACKS.option("STRENGTH", "Largest strength that may be chosen. By default the largest one of the reference."),
    ] = None,
    like: Annotated[str, REFERENCE.option("NAME", "Attack whose accuracies the six strengths are to match.")] = "linf",
    clean: Annotated[
        float | None, REFERENCE.option("PERCENT", "Clean accuracy, where the reference holds none.")
    ] = None,
    output: Annotated[
        Path | None,
        OUTPUT.option("FILE", "JSON file to write the reference at the chosen strengths to.", "--output", "-o"),
    ] = None,
) -> None:
    r"""Choose six strengths of ATTACK as UAR does (Kang et al. 2019).

    First make accuracies of adversarial training at strengths that double from one to the next:

    ```bash
    robustatlas reference small-cnn --data fashion-mnist \
        --rule ata --out ata \
        --strengths linf=.01,.02,.04,.08,.16,.32 \
        --strengths elastic=.125,.25,.5,1,2,4,8
    ```

    Then choose the strengths of the second attack that are as hard to learn as those of linf:

    ```bash
    robustatlas calibrate elastic \
        --reference ata/reference.json -o uar.json
    ```
    """
    from robustatlas.metrics.references import load_reference
    from robustatlas.training.calibration import calibrate as choose
    from robustatlas.training.calibration import calibrated

    source = load_reference(reference)
    found = choose(attack, source, like, clean=clean, below=below, up_to=up_to)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(attack, justify="right")
    table.add_column("ATA, %", justify="right")
    for at, ata in zip(found.strengths, found.ata, strict=True):
        table.add_row(text_as_typed(at), f"{ata:.1f}")
    console = Console(highlight=False)
    console.print(table)
    for what, value in (("smallest worth while (eps_min)", found.smallest), ("largest (eps_max)", found.largest)):
        console.print(f"{what}: {'not reached' if value is None else text_as_typed(value)}")
    console.print(f"distance to {like}: {found.cost:.2f} points")
    if found.far:
        console.print(f"[yellow]Warning:[/yellow] {safe(found.mark(like))}", soft_wrap=True)
    if output is not None:
        calibrated(source, found, like).to_json(output)
        console.print(f"Calibrated reference: {safe(output)}", soft_wrap=True)
