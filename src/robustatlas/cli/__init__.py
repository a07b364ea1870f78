"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from robustatlas.cli.attacks import attacks
from robustatlas.cli.calibrate import calibrate
from robustatlas.cli.compare import compare
from robustatlas.cli.distances import distances
from robustatlas.cli.evaluate import evaluate
from robustatlas.cli.gallery import gallery
from robustatlas.cli.leaderboard import app as leaderboard
from robustatlas.cli.query import query
from robustatlas.cli.reference import reference
from robustatlas.cli.report import report
from robustatlas.cli.show import show
from robustatlas.cli.train import train
from robustatlas.errors import UserError

app = typer.Typer(
    name="robustatlas",
    help="How robust is a classifier, globally? Many threat models, every strength, per sample.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, reference, calibrate, evaluate, show, compare, report, attacks, gallery, distances, query):
    app.command()(command)
app.add_typer(leaderboard, name="leaderboard")


def main() -> None:
    """Run the command line; mistakes of the user end with one sentence and exit code 1."""
    try:
        app()
    except UserError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]Error:[/bold red] {_escaped(error)}", highlight=False)
        sys.exit(1)


def _escaped(error: UserError) -> str:
    return str(error).replace("[", r"\[")
