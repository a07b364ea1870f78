"""``robustatlas study``: one file, many trainings and evaluations, and the tables and figures of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robustatlas.cli import _asked, _models, _work
from robustatlas.cli._help import COMPUTE, OUTPUT, FullHelp
from robustatlas.cli._terminal import safe, tables_that_fit
from robustatlas.cli._work import end_on_interrupt, print_forecast, share_here
from robustatlas.common.errors import UserError
from robustatlas.common.wording import list_names, pluralise

if TYPE_CHECKING:
    from robustatlas.studies import Differences, Sheet, Studied


def study(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="File of the study, or the name of one that comes with robustatlas."),
    ] = None,
    out: Annotated[
        Path | None,
        OUTPUT.option(
            "DIR",
            "Folder of all trainings, runs and tables; what it holds is not done again. By default "
            "`studies/NAME-SIZE`.",
        ),
    ] = None,
    show: Annotated[bool, OUTPUT.flag("--show", "Print the file, to copy it and change it.")] = False,
    list_: Annotated[bool, OUTPUT.flag("--list", "List the studies that come with robustatlas.")] = False,
    size: Annotated[str | None, COMPUTE.option("NAME", "One of the sizes in the file. By default small.")] = None,
    only: Annotated[
        list[str] | None,
        COMPUTE.option(
            "STEP",
            "Do these steps alone, such as `models`, `models.linf` or `outputs.uar`. May be given several times.",
        ),
    ] = None,
    device: _models.Device = None,
    dry_run: Annotated[
        bool,
        COMPUTE.flag(
            "--dry-run",
            "Say what is missing, and its passes, hours and disk, from some seconds of each network; write nothing.",
        ),
    ] = False,
    device_throughput: _asked.DeviceThroughput = None,
    part: _work.Part = None,
    help_all: FullHelp = False,
) -> None:
    r"""Train, evaluate and tabulate all that the file of a study says.

    Four papers come as studies; this one in some minutes, on small images:

    ```bash
    robustatlas study uar --size small
    ```

    What the paper's own size would take:

    ```bash
    robustatlas study uar --size paper --dry-run \
        --device-throughput rtx3090
    ```

    A study of your own begins with one of these:

    ```bash
    robustatlas study uar --show
    robustatlas study mine.toml --out studies/mine
    ```

    The same command again does what is missing. Many machines that see the folder share the work by `--part`.
    """
    from robustatlas import studies

    if list_:
        for name, about in studies.shipped_studies().items():
            typer.echo(f"{name:20} {about}")
        return
    if file is None:
        raise UserError("No study is given; give a file, or a name that 'robustatlas study --list' shows.")
    if show:
        typer.echo(studies.study_text(file)[1], nl=False)
        return
    what = studies.read_study(file, size)
    folder = out or Path("studies", "-".join(filter(None, (what.name, what.size))))
    if dry_run:
        from robustatlas.evaluation.throughput import DeviceThroughput

        throughput = DeviceThroughput.parse_optional(device_throughput)
        wanted: dict[str, Any] = {"only": only or (), "part": share_here(part)}
        if becomes := studies.plan_sentence(what, folder, **wanted):
            Console(highlight=False).print(safe(becomes), soft_wrap=True)
        expected = studies.forecast_study(what, folder, device_throughput, device, **wanted)
        print_forecast(expected, "step", "number", throughput.name if throughput else "one device like this one")
        _print_differences(studies.study_differences(what))
        return
    share = share_here(part)
    with end_on_interrupt(lambda: f"Stopped. What is done is kept in {folder}; the same command goes on from there."):
        done = studies.study(what, folder, only=only or (), part=share, device=device, progress=True)
    _print(done, [step.name for step in studies.select_steps(studies.study_steps(what), only or ())])


def _print_differences(found: Differences) -> None:
    console = Console(highlight=False)
    lines = [f"Not as in the paper: {sentence}" for sentence in found.paper]
    lines += [f"In place of a preset: {sentence}" for sentence in found.presets]
    lines += [f"Warning: {sentence}" for sentence in found.warnings]
    for line in lines:
        console.print(safe(line), soft_wrap=True)


def _print(done: Studied, names: Sequence[str]) -> None:
    console, outputs = Console(highlight=False), [each for each in done.outputs if each.step.name in names]
    for written in outputs:
        for sheet in written.sheets.values():
            _print_sheet(console, sheet, written.title)
        if written.figures:
            console.print(f"{safe(written.title)}: {safe(list_names(written.figures))}.", soft_wrap=True)
        if written.waits:
            console.print(f"{safe(written.title)} waits for {safe(list_names(written.waits))}.", soft_wrap=True)
    if any(written.effects for written in outputs):
        console.print(f"[bold]{safe(done.answer)}[/bold]", soft_wrap=True)
    if done.warnings:
        console.print(f"{pluralise(len(done.warnings), 'warning')}, at the end of the page.", soft_wrap=True)
    console.print(f"Study: {safe(done.page)}", soft_wrap=True)
    if failed := [written for written in outputs if written.why]:
        for written in failed:
            Console(stderr=True, highlight=False).print(f"{safe(written.why)}", soft_wrap=True)
        raise typer.Exit(1)


def _print_sheet(console: Console, sheet: Sheet, title: str) -> None:
    rows = [[safe(cell) for cell in row] for row in sheet.texts()]
    console.print(f"\n[bold]{safe(sheet.title or title)}[/bold]")
    for part in tables_that_fit([safe(column) for column in sheet.columns], rows, console.width):
        console.print(part)
    for note in sheet.legend:
        console.print(f"[dim]{safe(note)}[/dim]")
