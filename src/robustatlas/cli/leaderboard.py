"""`robustatlas leaderboard build | serve`: the leaderboard site, and a look at it."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from robustatlas.cli import _runs
from robustatlas.cli._help import OUTPUT, Command, FullHelp
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import visible_text
from robustatlas.common.wording import list_names, shell_word
from robustatlas.metrics.references import Reference
from robustatlas.metrics.references.shipped import available_fields, available_references, has_dataset
from robustatlas.report.facts import choose_reference
from robustatlas.results.result import Results

PUBLISHED = "multirobustbench-cifar10"
"""The reference with published defenses, which make a board without any run."""


class _BuildUnlessTold(TyperGroup):
    """Group of commands that gives its arguments to ``build`` if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["build", *args])


app = typer.Typer(
    cls=_BuildUnlessTold,
    help="Make a leaderboard: a site with the published defenses and your own runs.\n\n"
    "Where no command is named, the site is built:\n\n"
    "```bash\nrobustatlas leaderboard runs/mynet-cifar10 -o leaderboard\n```",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command(cls=Command)
def build(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Run directories of your own models, shown beside the published defenses."),
    ] = None,
    about: _runs.About = None,
    reference: _runs.Reference = None,
    weights: _runs.Weights = None,
    alpha: _runs.Alpha = None,
    output: Annotated[Path, OUTPUT.option("DIR", "Directory of the site.", "--output", "-o")] = Path("leaderboard"),
    title: Annotated[str | None, OUTPUT.option("TEXT", "Title of the site.")] = None,
    help_all: FullHelp = False,
) -> None:
    r"""Write the site. Open its index.html, or put the directory on any web server.

    ```bash
    robustatlas leaderboard build runs/mynet-cifar10 \
        --reference multirobustbench-cifar10 \
        -o leaderboard
    ```
    """
    from robustatlas.report.leaderboard import build_leaderboard

    results = Results(runs or ())
    chosen = choose_reference(reference if results else reference or PUBLISHED, results, weights)
    steadiness = _runs.steadiness(alpha, None)
    most = {} if steadiness is None else {"alpha": steadiness.alpha}
    page = build_leaderboard(results, output, chosen, about=about, title=title, **most)
    for sentence in _advice(results, chosen, reference):
        typer.echo(visible_text(sentence))
    typer.echo(f"Leaderboard: {visible_text(str(page.resolve()))}")


def _advice(results: Results, chosen: Reference | None, asked: str | None) -> Iterator[str]:
    """Yield sentences on what runs lack for the ranking that a reference gives, and how they get it."""
    from robustatlas.attacks.suites import SUITES

    if chosen is not None:
        if others := sorted({attack for run in results for attack in run.attacks} - set(chosen.ranked)):
            yield (
                f"Shown and not ranked, since {chosen.name} has no accuracies under it: {list_names(others)}. A "
                "reference of "
                "your own ranks any attack: 'robustatlas reference' trains a model against it and measures that."
            )
        return
    yield "Ranked by mean accuracy, since there is no reference to hold the runs against."
    shipped = [name for name in available_references() if name not in available_fields()]
    fitting = [name for name in shipped if all(has_dataset(name, run.data) for run in results)]
    for name in [] if asked else fitting:
        suite = next(suite for suite in SUITES if name == suite or name.startswith(f"{suite}-"))
        yield f"{name} fits the data: add its attacks to each run ('robustatlas evaluate ... --attacks {suite}')."
    if not fitting:
        yield "No shipped reference is measured on this data; 'robustatlas reference' makes one, for any attack."


@app.command(cls=Command)
def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory that `robustatlas leaderboard build` wrote.")
    ] = Path("leaderboard"),
    port: Annotated[int, OUTPUT.option("N", "Port of the server; 0 takes a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Serve a site that was built, to this machine only, until Ctrl-C.

    ```bash
    robustatlas leaderboard serve leaderboard --port 8000
    ```
    """
    with server(folder, port) as running:
        typer.echo(f"Leaderboard: http://127.0.0.1:{running.server_port}/ (Ctrl-C ends)")
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Ended.")


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the folder that only this machine can reach."""
    if not (folder / "index.html").is_file():
        raise UserError(
            f"{folder} holds no leaderboard; write one with `robustatlas leaderboard build -o {shell_word(folder)}`."
        )
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_QuietHandler, directory=str(folder)))
    except OSError as error:
        raise UserError(f"Port {port} cannot be used ({error.strerror}); choose another one with --port.") from error


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing about single requests."""
