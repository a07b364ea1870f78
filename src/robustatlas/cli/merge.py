"""``robustatlas merge``: several runs as one; ``robustatlas best-known``: and how near each comes to all of them."""

from pathlib import Path
from typing import Annotated

from rich.console import Console

from robustatlas.cli import _runs
from robustatlas.cli._accuracies import print_accuracies
from robustatlas.cli._help import OUTPUT
from robustatlas.cli._terminal import print_run, safe, table
from robustatlas.common.files import named
from robustatlas.common.wording import MASKED, beside_masked, why_masked
from robustatlas.outcomes import merge as merge_runs
from robustatlas.outcomes.masked import masked
from robustatlas.results.result import Result, load_result

Output = Annotated[Path, OUTPUT.option("DIR", "Directory of the joined run, a new one.", "--output", "-o")]


def merge(runs: _runs.Joined, output: Output) -> None:
    """Join runs of the same model and data into a new run.

    Where several runs hold the same attack on the same sample, the smallest adversarial example counts. The given runs
    stay as they are.

    ```bash
    robustatlas merge runs/first runs/second -o runs/both
    ```
    """
    output = named(output)
    merged = Result.of_run(merge_runs(runs, output))
    console = Console(highlight=False)
    print_accuracies(merged, console)
    print_run(output, console)


def best_known(runs: _runs.Joined, output: Output) -> None:
    r"""Join runs into the best known result, and say how near each run comes to it.

    For each sample the smallest adversarial example of any run counts. The optimality of a run is that of AttackBench:
    its area under the robust accuracy compared with that of the best known result, and 1 where no run found anything
    smaller.

    ```bash
    robustatlas best-known runs/default runs/seed1 \
        runs/high -o runs/best
    ```
    """
    output = named(output)
    merged = Result.of_run(merge_runs(runs, output))
    rows = table("optimality, 0 to 1", *map(safe, merged.attacks))
    for run in runs:
        found = load_result(run).optimality(merged)
        cells = {attack: f"{value:.4f}" for attack, value in found.items()}
        rows.add_row(
            safe(named(run)),
            *(
                beside_masked(cells.get(attack, "-"), attack in cells and masked(merged, [attack]))
                for attack in merged.attacks
            ),
        )
    console = Console(highlight=False)
    console.print(rows)
    if why := masked(merged):
        console.print(safe(f"What is known best is itself {MASKED}. {why_masked(why)}"))
    print_run(output, console)
