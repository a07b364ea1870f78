"""The archived runs of the boards in the documentation: today's code reads them, and finds the published means."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

import robustatlas as ra

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(("board", "recipe", "seeds"), [("board", "mng-ac", 3), ("board-cifar10", "mart-linf", 1)])
def test_the_archive_has_the_means_of_its_table(board: str, recipe: str, seeds: int, tmp_path: Path) -> None:
    shutil.unpack_archive(DOCS / board / "runs.tar.xz", tmp_path, filter="data")
    runs = {run.name: run for run in (tmp_path / "runs").iterdir()}
    assert set(runs) == set(json.loads((DOCS / board / "about.json").read_text()))
    tables = [ra.load_result(run).accuracies() for name, run in runs.items() if name.startswith(f"{recipe}-seed")]
    assert len(tables) == seeds
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (DOCS / board / "table.md").open()]
    published = dict(zip(rows[0], next(row for row in rows if row[0] == f"`{recipe}`"), strict=True))
    assert published["clean"] == f"{statistics.fmean(table.clean for table in tables):.1f}"
    for attack in tables[0].attacks:
        assert published[attack] == f"{statistics.fmean(table.values(attack).mean() for table in tables):.0f}"
