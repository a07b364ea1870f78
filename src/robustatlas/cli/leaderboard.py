"""`robustatlas leaderboard build | serve`: the leaderboard site, and a look at it."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from robustatlas.cli._terminal import printable
from robustatlas.errors import UserError
from robustatlas.facts import chosen_reference
from robustatlas.references import load_reference
from robustatlas.result import load_result
from robustatlas.wording import in_shell

PUBLISHED = "multirobustbench-cifar10"
"""The reference with published defenses, which make a board without any run."""


class _BuildUnlessTold(TyperGroup):
    """What follows ``leaderboard`` goes to ``build`` where no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["build", *args])


app = typer.Typer(
    cls=_BuildUnlessTold,
    help="A leaderboard site with the published defenses and your own runs; `leaderboard RUN ...` builds it.",
    no_args_is_help=True,
)


@app.command()
def build(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories to show too.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the site.")] = Path("leaderboard"),
    reference: Annotated[
        str | None,
        typer.Option(help="Reference by name or file, or none; by default the shipped one that fits, if any."),
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(help="JSON: model name -> title, url, architecture, extra_data, trained_on, notes."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the site.")] = None,
) -> None:
    """Write the site: open its index.html, or put the folder on any web server."""
    from robustatlas.report.leaderboard import build_leaderboard

    results = [load_result(run) for run in runs or ()]
    chosen = chosen_reference(reference, results) if results else load_reference(reference or PUBLISHED)
    page = build_leaderboard(results, output, chosen, about=about, title=title)
    if chosen is None:
        why = "" if reference else "No shipped reference fits the runs. "
        typer.echo(f"{why}Ranked by mean accuracy; CR and SC need a reference ('robustatlas reference' makes one).")
    typer.echo(f"Leaderboard: {printable(str(page.resolve()))}")


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(help="Folder that `leaderboard build` wrote.")] = Path("leaderboard"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
) -> None:
    """Serve a built site on this machine only, until Ctrl-C."""
    with server(folder, port) as running:
        typer.echo(f"Leaderboard: http://127.0.0.1:{running.server_port}/ (Ctrl-C ends)")
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Ended.")


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the folder that only this machine can reach."""
    if not (folder / "index.html").is_file():
        raise UserError(
            f"{folder} holds no leaderboard; write one with `robustatlas leaderboard build -o {in_shell(folder)}`"
        )
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise UserError(f"port {port} cannot be used ({error.strerror}); choose another one with --port") from error


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing about single requests."""
