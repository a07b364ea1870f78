"""The four papers, each from one file to all of its tables and figures, at their smallest size, and their claims."""

from __future__ import annotations

from pathlib import Path

import pytest

import robustatlas as ra
from robustatlas.studies import forecast_study, read_study, shipped

CLAIMS = Path(__file__).parents[1] / "benchmarks" / "paper_claims.toml"


@pytest.mark.parametrize("name", [*shipped(), str(CLAIMS)], ids=lambda name: Path(name).stem)
def test_each_paper_runs_to_all_of_its_tables_and_figures(name: str, tmp_path: Path) -> None:
    forecast = forecast_study(read_study(name, "tiny"), tmp_path).entries
    done = ra.study(name, tmp_path, "tiny", progress=False)
    assert done.complete, [written.why or written.waits for written in done.outputs if written.why or written.waits]
    for file, sheet in done.tables.items():
        assert sheet.rows, file
        assert all(cell.strip() for row in sheet.texts() for cell in row), file
        assert (tmp_path / "outputs" / f"{file}.csv").is_file()
    text = (tmp_path / "study.md").read_text(encoding="utf-8")
    assert not any(f"\n{written.title}: " in text for written in done.outputs), "captions say what the title does not"
    figures = [figure for written in done.outputs for figure in written.figures]
    assert figures
    for figure in figures:
        assert all((tmp_path / "outputs" / f"{figure}.{form}").stat().st_size > 1000 for form in ("png", "svg", "pdf"))
    assert all(written.sheets or written.figures or written.pages for written in done.outputs)
    told = sum(each.passes for each in forecast if each.name.startswith("evaluations."))
    runs = [ra.load_result(file.parent) for file in (tmp_path / "runs").rglob("run.json")]
    made = sum(run.samples * sum(run.passes(attack)) for run in runs for attack in run.attacks)
    right = sum(int(run.clean.sum()) for run in runs) / sum(run.samples for run in runs)
    assert right * told / 2 < made < 2 * told, "about twice, where all images are attacked or those that are right"
