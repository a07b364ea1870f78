"""A Sphinx extension: the leaderboard of `docs/board`, as a site next to the pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sphinx.application import Sphinx

import robustatlas as ra
from robustatlas.references import load_reference
from robustatlas.report.leaderboard import build_leaderboard

TITLE = "A board of one small network on Fashion-MNIST"


def build(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        board = Path(app.srcdir) / "board"
        reference = load_reference(board / "reference.json")
        with TemporaryDirectory() as place:
            shutil.unpack_archive(board / "runs.tar.xz", place, filter="data")
            runs = [ra.load_result(run) for run in sorted(Path(place, "runs").iterdir())]
            build_leaderboard(runs, Path(app.outdir) / "board", reference, board / "about.json", TITLE)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", build)
    return {"parallel_read_safe": True}
