"""Published defenses as an output of a study: the numbers that the paper prints, from the published accuracies."""

from pathlib import Path

import pytest

from robustatlas.studies import read_study
from robustatlas.studies.finished import Finished


def test_every_printed_number_is_met_without_a_run(tmp_path: Path) -> None:
    """MultiRobustBench's figures 2 and 3 and its table 1; the means of figure 1c have no printed values."""
    study = read_study("multirobustbench", "small")
    output = study.outputs["field"]
    made = output.make(Finished.open(study, tmp_path), tmp_path)
    table = made.sheets[""]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.texts()]
    pairs = [(row[name], row[f"{name}, printed"]) for row in rows for name in ("CR ind-avg", "CR ind-worst", "SC")]
    met = [(float(ours), float(printed)) for ours, printed in pairs if printed != "none"]
    assert len(rows) == 16 and len(met) == 22
    assert all(ours == pytest.approx(printed, abs=0.005) for ours, printed in met)
    assert rows[0]["trained against"] == "L∞, L2, L1" and rows[0]["network"] == "WRN-28-10"
    hardest = sorted(made.sheets["by-attack"].rows, key=lambda row: float(row[1]))[:2]
    assert {name for name, _ in hardest} == {"StAdv", "Elastic"}  # as section 5.1 says
    assert set(made.figures) == {"average", "worst", "by-attack"}


def top(rows: list[dict[str, str]], number: str) -> list[str]:
    """The three defenses of the highest number, the best first."""
    return [row["defense"] for row in sorted(rows, key=lambda row: -float(row[number]))[:3]]


def test_other_ratios_rank_as_the_paper_says(tmp_path: Path) -> None:
    """MultiRobustBench, appendix E: exp and max are higher than ind-avg and ind-worst; exp keeps the order of the three
    best, max reverses it. Appendix D: which defenses take extra data, and what each has seen."""
    study = read_study("multirobustbench", "small")
    table = study.outputs["field"].make(Finished.open(study, tmp_path), tmp_path).sheets[""]
    rows = [dict(zip(table.columns, map(str, row), strict=True)) for row in table.rows]
    for row in rows:
        assert float(row["CR exp"]) >= float(row["CR ind-avg"]) and float(row["CR max"]) >= float(row["CR ind-worst"])
    assert top(rows, "CR exp") == top(rows, "CR ind-avg")
    assert top(rows, "CR max") == top(rows, "CR ind-worst")[::-1]
    by_name = {row["defense"]: row for row in rows}
    assert by_name["Madaan2021Learning_MNG-AC-RST"]["extra data"] == "yes"
    assert by_name["Madry2017Towards_Linf"]["extra data"] == "no"
    # Of 180 entries and the clean one: those of linf to 8/255 in steps of .005 are six.
    assert float(by_name["Madry2017Towards_Linf"]["seen"]) == pytest.approx(100 * 7 / 181, abs=0.05)
    assert float(by_name["Jin2020Manifold"]["seen"]) == pytest.approx(100 / 181, abs=0.05)
