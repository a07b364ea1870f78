"""``robustatlas merge``: several runs as one; ``robustatlas best-known``: and how near each comes to all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from rich.console import Console

from robustatlas.cli import _runs
from robustatlas.cli._accuracies import print_accuracies
from robustatlas.cli._help import OUTPUT
from robustatlas.cli._terminal import print_run, safe, table
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.common.wording import MASKED, join_words, label_masked, masked_reason
from robustatlas.outcomes import merge as merge_runs
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.merge import join_best_known
from robustatlas.report.numbers.shared import distinct_names, subject_of
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
    output = parse_path(output)
    joined = merge_runs(runs, output)
    console = Console(highlight=False)
    try:
        print_accuracies(Result.from_run(joined), console)
    except UserError as error:  # the attacks have no sample in common yet
        console.print(safe(str(error)))
    print_run(output, console)


def best_known(runs: _runs.Joined, output: Output) -> None:
    r"""Join runs into the best known result, and say how near each run comes to it.

    For each sample the smallest adversarial example counts that any run found by any attack on the same threat model,
    whatever the attack is called. The optimality of an attack is that of AttackBench: its area under the robust
    accuracy compared with that of the best known result, and 1 where nothing smaller was found.

    ```bash
    robustatlas best-known runs/default runs/seed1 \
        runs/high -o runs/best
    ```
    """
    output = parse_path(output)
    merged = Result.from_run(join_best_known(runs, output))
    rows = table("optimality, 0 to 1", *map(safe, merged.attacks))
    loaded = [load_result(run) for run in runs]
    for run, result in zip(runs, loaded, strict=True):
        shared = result.select(np.flatnonzero(np.isin(result.index, merged.index)))
        found = shared.optimality(merged)
        cells = {attack: f"{value:.4f}" for attack, value in found.items()}
        rows.add_row(
            safe(parse_path(run)),
            *(
                label_masked(cells.get(attack, "-"), attack in cells and masked_shares(merged, [attack]))
                for attack in merged.attacks
            ),
        )
    console = Console(highlight=False)
    console.print(rows)
    for attacks in _attacks_by_threat(merged):
        console.print(
            safe(f"{join_words(attacks)} are on one threat model; the smallest example of any of them counts.")
        )
    for note in _unfinished(loaded):
        console.print(safe(note))
    if why := masked_shares(merged):
        console.print(safe(f"What is known best is itself {MASKED}. {masked_reason(why)}"))
    print_run(output, console)


def _attacks_by_threat(merged: Result) -> list[list[str]]:
    """Return the names of attacks on each threat model that several attacks are on."""
    names: dict[str, dict[str, None]] = {}
    for record in merged.records.values():
        if record.monotone:
            names.setdefault(record.threat_identity, {})[record.name] = None
    return [[*found] for found in names.values() if len(found) > 1]


def _unfinished(results: Sequence[Result]) -> list[str]:
    subjects = [subject_of(result, name) for result, name in zip(results, distinct_names(results), strict=True)]
    return [subject.unfinished_note for subject in subjects if subject.missing]
