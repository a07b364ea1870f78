"""What is shown while the work goes on are the numbers of the table."""

from typing import Any

import numpy as np
import pytest

import robustatlas as ra
from robustatlas.evaluation.progress import LineProgress
from robustatlas.outcomes import AttackRecord
from robustatlas.outcomes.certified import CertificateRecord, CertifiedSizes

GRID = (0.1, 0.2, 0.3)


def line_of(record: Any, columns: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> str:
    shown = LineProgress()
    shown.begin([record], 4)
    shown.finish(record, columns)
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    "sizes", [[0.2 * (1 + 1.2e-7), np.float32(0.2), 0.2 * (1 + 1e-4), np.inf], [0.0, 0.2, 0.2 * (1 - 1e-7), 0.3]]
)
def test_a_size_above_a_strength_by_rounding_is_broken_there_as_in_the_table(
    sizes: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"minimal_size": np.array(sizes, np.float64)}
    table = ra.Result.from_arrays([0] * 4, [0] * 4, {"linf": sizes}, {"linf": GRID}).accuracies()
    said = line_of(AttackRecord(name="linf", strengths=GRID), columns, capsys)
    assert f"{table.at('linf', 0.2):.1f} % robust at 0.2" in said


def test_strengths_judged_by_themselves_are_shown_as_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    fooled = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0], [-1, -1, -1]], np.int8)
    columns = {"minimal_size": np.array([0.1, 0.2, 0.1, 0.0]), "fooled": fooled}
    table = ra.Result.from_arrays(
        [0] * 4, [0, 0, 0, 1], {"fog": columns["minimal_size"]}, {"fog": GRID}, fooled={"fog": fooled}, monotone=False
    )
    said = line_of(AttackRecord(name="fog", strengths=GRID, monotone=False), columns, capsys)
    assert table.accuracies().at("fog", 0.2) == 50.0 and "50.0 % robust at 0.2" in said


def test_what_is_certified_is_shown_as_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = np.array([0.0, 0.2, 0.2 * (1 + 1e-7), np.inf])
    (accuracy,) = CertifiedSizes("linf", sizes, strengths=GRID).accuracies([0.2])
    record = CertificateRecord(name="linf", method="crown", strengths=GRID)
    assert f"{accuracy:.1f} % certified at 0.2" in line_of(record, {"certified_size": sizes}, capsys)
