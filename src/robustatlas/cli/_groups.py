"""Groups of runs on the command line: ``--group NAME=RUNS``, and what is printed of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rich.console import Console

from robustatlas.cli._help import OUTPUT
from robustatlas.cli._terminal import safe, table, tables_that_fit
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.common.wording import MASKED, join_words, pluralise
from robustatlas.metrics.trainings import OverTrainings
from robustatlas.report.numbers.groups import Groups
from robustatlas.report.numbers.texts import range_text

LEVEL = 0.05
"""Level of the tests over trainings, as in table II of Guo et al. 2024."""

Group = Annotated[
    list[str] | None,
    OUTPUT.option(
        "NAME=RUNS",
        "Runs that are trainings of one model with several seeds, and count as one: run directories or patterns "
        "such as `trades=runs/trades-*`, with commas between them. Given once for each group.",
    ),
]


def parse_groups(given: Sequence[str]) -> dict[str, list[Path]]:
    """Group -> its run directories, in order; patterns are looked up."""
    found: dict[str, list[Path]] = {}
    for item in given:
        name, equals, patterns = item.partition("=")
        if not name.strip() or not equals or name.strip() in found:
            raise UserError(
                f"--group {item!r} is not understood; expected each name once with its runs, such as a=runs/a-*."
            )
        runs: list[Path] = []
        for pattern in filter(None, (part.strip() for part in patterns.split(","))):
            fitting = _directories(parse_path(pattern))
            if not fitting:
                raise UserError(f"--group {name}: no directory is called {pattern}; give run directories.")
            runs += fitting
        if not runs:
            raise UserError(f"--group {item!r} names no run; expected such as a=runs/a-*.")
        found[name.strip()] = runs
    every = [run.resolve() for runs in found.values() for run in runs]
    if twice := sorted({str(run) for run in every if every.count(run) > 1}):
        raise UserError(f"{join_words(twice)} is in the groups twice; give each run once.")
    return found


def _directories(pattern: Path) -> list[Path]:
    """Return the directories whose path matches, in order."""
    root = Path(pattern.anchor)
    fitting = [pattern] if pattern.is_dir() else root.glob(str(pattern.relative_to(pattern.anchor)))
    return sorted(place for place in fitting if place.is_dir())


def print_groups(console: Console, groups: Groups) -> None:
    """The numbers of each group, and the tests between them."""
    names = {name: f"{name}\n{pluralise(groups.trainings(name), 'training')}" for name in groups.numbers}
    rows = []
    for number in next(iter(groups.numbers.values())):
        cells = (_cell(group[number], number in groups.masked[name]) for name, group in groups.numbers.items())
        rows.append([safe(number), *cells])
    for part in tables_that_fit(["", *map(safe, names.values())], rows, console.width):
        console.print(part)
    console.print(
        "[dim]Mean and standard deviation of the trainings; in brackets the 95 % interval over the choice of trainings "
        "and that over the choice of images.[/dim]"
    )
    for (one, other), tests in groups.tests().items():
        part = table(f"{safe(one)} against {safe(other)}", "", "rank-sum p")
        for number, test in tests.items():
            mark = "=" if test.p_value > LEVEL else "+" if test.effect > 0 else "-"
            part.add_row(safe(number), mark, f"{test.p_value:.4f}")
        console.print(part)
    if groups.tests():
        console.print(
            f"[dim]+ better, - worse, = neither at p = {LEVEL:g}: Wilcoxon's rank-sum test over the trainings, not "
            "corrected for the number of tests.[/dim]"
        )


def _cell(number: OverTrainings, masked: bool) -> str:
    """Write such as `55.1 ± 0.4 (54.6 to 55.6) (52.0 to 58.1)`; without the first interval if there is none."""
    spread = "" if math.isnan(number.std) else f" ± {number.std:.2f}"
    over = f" ({range_text(number.trainings)})" if math.isfinite(number.trainings.low) else ""
    cell = f"{number.mean:.2f}{spread}{over} ({range_text(number.images)})"
    return f"{cell}\n{MASKED}" if masked else cell
