"""A Sphinx extension: the leaderboards of `docs/board` and `docs/board-cifar10`, as sites next to the pages."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sphinx.application import Sphinx

import robustatlas as ra
from robustatlas.metrics.references import load_reference
from robustatlas.report.leaderboard import build_leaderboard

TITLES = {
    "board": "A board of one small network on Fashion-MNIST",
    "board-cifar10": "A miniature of CIFAR-10: one small network, trained on 8,000 test images",
}


def build(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        for name, title in TITLES.items():
            _build(Path(app.srcdir) / name, Path(app.outdir) / name, title)


def _build(board: Path, site: Path, title: str) -> None:
    reference = load_reference(board / "reference.json")
    with TemporaryDirectory() as place:
        shutil.unpack_archive(board / "runs.tar.xz", place, filter="data")
        runs = [ra.load_result(run) for run in sorted(Path(place, "runs").iterdir())]
        build_leaderboard(runs, site, reference, board / "about.json", title)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", build)
    return {"parallel_read_safe": True}
