"""Published defenses as an output of a study: the numbers that the paper prints, from the published accuracies."""

from pathlib import Path

import pytest

from robustatlas.studies import read_study
from robustatlas.studies.finished import Finished


def test_every_printed_number_is_met_without_a_run(tmp_path: Path) -> None:
    """MultiRobustBench's figures 2 and 3 and its table 1; the means of figure 1c have no printed values."""
    study = read_study("multirobustbench", "small")
    output = study.outputs["field"]
    made = output.make(Finished.of(study, tmp_path), tmp_path)
    table = made.sheets[""]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    pairs = [(row[name], row[f"{name}, printed"]) for row in rows for name in ("CR ind-avg", "CR ind-worst", "SC")]
    met = [(float(ours), float(printed)) for ours, printed in pairs if printed != "none"]
    assert len(rows) == 16 and len(met) == 22
    assert all(ours == pytest.approx(printed, abs=0.005) for ours, printed in met)
    assert rows[0]["trained against"] == "L∞, L2, L1"
    hardest = sorted(made.sheets["by-attack"].rows, key=lambda row: float(row[1]))[:2]
    assert {name for name, _ in hardest} == {"StAdv", "Elastic"}  # as section 5.1 says
    assert set(made.figures) == {"average", "worst", "by-attack"}
