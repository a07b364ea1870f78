"""`robustatlas leaderboard build | serve`: the leaderboard site, and a look at it."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli._terminal import printable
from robustatlas.errors import UserError
from robustatlas.facts import chosen_reference
from robustatlas.references import load_reference
from robustatlas.result import load_result

PUBLISHED = "multirobustbench-cifar10"
"""The reference with published defenses, which make a board without any run."""

app = typer.Typer(help="A leaderboard site with the published defenses and your own runs.", no_args_is_help=True)


@app.command()
def build(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories to show too.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the site.")] = Path("leaderboard"),
    reference: Annotated[
        str | None,
        typer.Option(help="Reference by name or file; by default the shipped one that fits the runs."),
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
    if chosen is None:
        raise UserError("No shipped reference fits the runs; give one with --reference (a name, or a JSON file).")
    page = build_leaderboard(results, output, chosen, about=about, title=title)
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
        raise UserError(f"{folder} holds no leaderboard; write one with `robustatlas leaderboard build -o {folder}`")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise UserError(f"port {port} cannot be used ({error.strerror}); choose another one with --port") from error


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing about single requests."""
