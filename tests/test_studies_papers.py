"""The four papers, each from one file to all of its tables and figures, on fewer images than their smallest size has,
and their claims."""

from pathlib import Path

import pytest

import robustatlas as ra
from robustatlas.studies import Study, forecast_study, read_study, shipped_studies
from robustatlas.studies.outputs.matrices import CrMatrix
from robustatlas.studies.outputs.pages import Gallery

CLAIMS = Path(__file__).parents[1] / "benchmarks" / "paper_claims.toml"
FEW = {"samples": 4}
PRINTED = {"printed": {"linf": {"linf": 50.0}}, "printed_on": "cifar10"}
SHOWN = {"attacks": ["linf"], "columns": 1, "strengths": {"linf": (0.9,)}}
"""A picture that one step of an attack makes."""


def smaller(study: Study) -> Study:
    """All its steps and outputs, of fewer images and pictures; something is printed beside ratios."""
    changes = {"data": FEW | {"train_samples": 64}, "evaluations": FEW, "references": {"samples": 2}}
    parts = {
        part: {name: entry.model_copy(update=change) for name, entry in getattr(study, part).items()}
        for part, change in changes.items()
    }
    outputs = study.outputs | {
        name: output.model_copy(update=SHOWN if isinstance(output, Gallery) else PRINTED)
        for name, output in study.outputs.items()
        if isinstance(output, Gallery | CrMatrix)
    }
    return study.model_copy(update=parts | {"outputs": outputs})


@pytest.mark.parametrize("name", [*shipped_studies(), str(CLAIMS)], ids=lambda name: Path(name).stem)
def test_each_paper_runs_to_all_of_its_tables_and_figures(name: str, tmp_path: Path) -> None:
    study = smaller(read_study(name, "tiny"))
    forecast = forecast_study(study, tmp_path, "1000").expected
    done = ra.study(study, tmp_path, progress=False)
    assert done.complete, [written.why or written.waits for written in done.outputs if written.why or written.waits]
    for file, sheet in done.tables.items():
        assert sheet.rows, file
        assert all(cell.strip() for row in sheet.texts() for cell in row), file
        assert file == "distances" or "printed" not in sheet.columns, "these are digits, which no paper prints"
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
