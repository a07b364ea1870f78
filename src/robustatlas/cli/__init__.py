"""The command line: parses, calls, prints."""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from robustatlas.cli._help import LOOK, MEASURE, TRAIN, Command
from robustatlas.cli._terminal import fit_terminal, safe
from robustatlas.cli.attacks import attacks
from robustatlas.cli.calibrate import calibrate
from robustatlas.cli.card import card
from robustatlas.cli.certify import certify
from robustatlas.cli.check import check
from robustatlas.cli.cite import cite
from robustatlas.cli.compare import compare
from robustatlas.cli.diagnose import audit, diagnose
from robustatlas.cli.distances import distances
from robustatlas.cli.evaluate import evaluate
from robustatlas.cli.export import export
from robustatlas.cli.field import field
from robustatlas.cli.figure import figure
from robustatlas.cli.gallery import gallery
from robustatlas.cli.leaderboard import app as leaderboard
from robustatlas.cli.merge import best_known, merge
from robustatlas.cli.query import query
from robustatlas.cli.reference import reference
from robustatlas.cli.report import report
from robustatlas.cli.show import show
from robustatlas.cli.study import study
from robustatlas.cli.train import train
from robustatlas.cli.verify import verify
from robustatlas.common.errors import UserError
from robustatlas.common.version import __version__


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"robustatlas {__version__}")
        raise typer.Exit


class _Interrupted(BaseException):
    """A Ctrl-C, under a name that typer does not know: it would end without a word."""


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _Interrupted from interrupt


app = typer.Typer(
    name="robustatlas",
    cls=_Commands,
    help="How robust is a classifier, globally? Many threat models, every strength, per sample.\n\n"
    "A first look, with a small network and images that come with the package:\n\n"
    "```bash\n"
    "robustatlas evaluate builtin:digits-linf --data digits \\\n"
    "    --samples 100 --run runs/first\n"
    "robustatlas show runs/first --explain\n"
    "```\n\n"
    "`robustatlas COMMAND --help` explains a command.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    MEASURE: (evaluate, field, certify, diagnose, audit, attacks, verify, merge, best_known, distances),
    LOOK: (show, compare, figure, card, check, report, gallery, cite, query, export),
    TRAIN: (train, reference, calibrate, study),
}
for panel, commands in _PANELS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.add_typer(leaderboard, name="leaderboard", rich_help_panel=LOOK)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; mistakes of the user end with one sentence and exit code 1.

    Args:
        arguments: what follows the program's name; those of this process by default.

    Raises:
        KeyboardInterrupt: a Ctrl-C that the command does not answer itself.
    """
    fit_terminal()
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            app(args=arguments, prog_name="robustatlas")
        except _Interrupted as interrupted:
            raise KeyboardInterrupt from interrupted
        except UserError as error:
            _fail(str(error))
        except MemoryError as error:
            _fail(f"There is not enough memory ({error}); take fewer samples or a smaller --batch-size.")


def _fail(sentence: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(f"[bold red]Error:[/bold red] {safe(sentence)}", highlight=False)
    sys.exit(1)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    Console(stderr=True, soft_wrap=True).print(f"[yellow]Warning:[/yellow] {safe(message)}", highlight=False)
