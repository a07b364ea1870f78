"""``robustatlas calibrate``: six strengths of an attack, as hard to learn as those of linf."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._terminal import safe


def calibrate(
    attack: Annotated[str, typer.Argument(help="With ATA at six strengths or more in the reference.")],
    reference: Annotated[
        str, typer.Option(metavar="FILE", help="By the rule ata, with linf at six strengths (`robustatlas reference`).")
    ],
    like: Annotated[str, typer.Option(metavar="NAME", help="The attack to match.")] = "linf",
    clean: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Clean accuracy, where the reference has none.")
    ] = None,
    below: Annotated[
        float, typer.Option(metavar="PERCENT", help="The largest strength pushes ATA below this (UAR: 25).")
    ] = 25.0,
    up_to: Annotated[
        float | None, typer.Option(metavar="STRENGTH", help="Leave larger strengths out of the matching.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the calibrated reference here.")
    ] = None,
) -> None:
    """Choose six strengths of ATTACK by UAR's procedure (Kang et al. 2019).

    Make adversarial training accuracies at doubling strengths first, then match:

        robustatlas reference small-cnn --data fashion-mnist --rule ata --strengths linf=.01,.02,.04,.08,.16,.32
          --strengths elastic=.125,.25,.5,1,2,4,8 --out ata

        robustatlas calibrate elastic --reference ata/reference.json -o uar.json
    """
    from robustatlas.references import load_reference
    from robustatlas.training.calibration import calibrate as choose
    from robustatlas.training.calibration import calibrated

    source = load_reference(reference)
    found = choose(attack, source, like, clean=clean, below=below, up_to=up_to)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(attack, justify="right")
    table.add_column("ATA, %", justify="right")
    for strength, ata in zip(found.strengths, found.ata, strict=True):
        table.add_row(f"{strength:.4g}", f"{ata:.1f}")
    console = Console()
    console.print(table)
    for what, value in (("smallest worth while (eps_min)", found.smallest), ("largest (eps_max)", found.largest)):
        console.print(f"{what}: {'not reached' if value is None else f'{value:.4g}'}", highlight=False)
    console.print(f"distance to {like}: {found.cost:.2f} points", highlight=False)
    if output is not None:
        calibrated(source, found, like).to_json(output)
        console.print(f"Calibrated reference: {safe(output)}", highlight=False, soft_wrap=True)
