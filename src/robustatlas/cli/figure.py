"""``robustatlas figure``: the curves of runs, for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli._help import ATTACKS, OUTPUT
from robustatlas.cli._options import split_names
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import visible_text
from robustatlas.common.files import picture_kind
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import elide_names, join_words
from robustatlas.report.facts import shared_of_runs
from robustatlas.results.result import Results

_LONGEST = 40
"""Letters of a name in the legend."""


def figure(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories; a line for each in every panel.")],
    attacks: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAMES", "Attacks to draw, such as `linf,l2,l1`, a panel for each. By default all that the runs share."
        ),
    ] = None,
    output: Annotated[Path, OUTPUT.option("FILE", "Picture to write: .pdf, .svg or .png.", "--output", "-o")] = Path(
        "curves.pdf"
    ),
    error: Annotated[bool, OUTPUT.flag("--error", "Draw the robust error instead of the accuracy.")] = False,
) -> None:
    r"""Draw the robustness curves of runs, ready for a paper: a panel for each attack, with 95 % intervals.

    Each panel ends at the largest strength that was asked for. A PDF has TrueType fonts.

    ```bash
    robustatlas figure runs/a runs/b --attacks linf,l2,l1 \
        -o curves.pdf
    ```
    """
    from robustatlas.metrics.figures import plot_panels, save_figure

    picture_kind(output)
    shared = shared_of_runs(Results(runs, kept=len(runs)))
    asked = split_names(attacks) or list(shared.grid)
    if unknown := [attack for attack in asked if attack not in shared.grid]:
        different = [name for name in unknown if name in shared.unlike]
        why = "".join(f" The threat models of {name} differ: {shared.unlike[name]}." for name in different)
        raise UserError(
            f"The runs share no attack {join_words(unknown)}; they share {join_words(list(shared.grid))}.{why}"
        )
    names = elide_names(shared.labels, _LONGEST)
    tables = [shared.table(run) for run in range(len(runs))]
    curves = {attack: {n: table.curve(attack) for n, table in zip(names, tables, strict=True)} for attack in asked}
    save_figure(
        plot_panels(curves, up_to={a: value_as_typed(a, shared.grid[a][-1]) for a in asked}, error=error), output
    )
    for note in shared.notes:
        typer.echo(visible_text(note))
    typer.echo(f"Figure: {visible_text(str(output))}")
