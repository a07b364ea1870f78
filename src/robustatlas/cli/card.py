"""``robustatlas card``: one picture that says how robust a model is."""

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli import _runs
from robustatlas.cli._help import OUTPUT
from robustatlas.cli._options import parse_attack_strengths
from robustatlas.cli.show import load_facts
from robustatlas.common.escaping import visible_text
from robustatlas.common.files import picture_kind
from robustatlas.report.facts import choose_reference
from robustatlas.results.result import load_result


def card(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories; a card for each.")],
    headline: _runs.Headline = None,
    reference: _runs.Reference = None,
    output: Annotated[Path, OUTPUT.option("FILE", "Picture to write: .svg, .png or .pdf.", "--output", "-o")] = Path(
        "card.svg"
    ),
) -> None:
    """Draw the robustness card of runs: the headline, and for each attack its curve and its median size.

    Each curve ends at the last strength of its attack. A bar stands at the median size, with its interval; a thick line
    shows how far half of the clean accuracy is proved.

    ```bash
    robustatlas card runs/mynet-cifar10 -o card.svg
    ```
    """
    from robustatlas.report import card as cards

    picture_kind(output)
    results = [load_result(run) for run in runs]
    chosen = choose_reference(reference, results)
    first = parse_attack_strengths(headline, "--headline") or None
    facts = [load_facts(result, chosen or "none", headline=first) for result in results]
    drawn = cards.card(results, chosen or "none", facts)
    typer.echo(f"Card: {visible_text(str(drawn.save(output)))}")
