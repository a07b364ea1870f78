"""What was measured of the claims of papers follows from the tables that ship."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "reproductions"))

import claims  # noqa: E402
import on_board  # noqa: E402
import on_digits  # noqa: E402
import run  # noqa: E402

from robustatlas.models.defenses import BitDepthReduction  # noqa: E402


def test_claims_about_the_board_follow_from_its_tables() -> None:
    measured = [claim for claim in claims.read(run.RESULTS) if claim.on.startswith("board")]
    assert len(measured) >= 10
    assert sorted(map(str, on_board.claims())) == sorted(map(str, measured))


def test_verdicts() -> None:
    interval = claims.over_seeds([3.0, 3.5, 4.0])
    assert claims.verdict(interval) == "holds"
    assert claims.verdict(claims.over_seeds([-3.0, -3.5, -4.0])) == "does not hold"
    assert claims.verdict(claims.over_seeds([-1.0, 0.0, 2.0])) == "not decided"
    assert interval.low == pytest.approx(3.5 - 4.302653 * 0.5 / 3**0.5, abs=1e-5)


def test_claims_on_digits_can_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trainings of an epoch, on few images: the numbers mean nothing, and are the same the second time."""
    monkeypatch.setattr(on_digits, "TRANSFORMATIONS", {"bit depth 2": BitDepthReduction(2)})
    scale = on_digits.Scale(epochs=1, steps=1, samples=4, strengths=2, levels=2, effort="low")
    first = on_digits.claims(tmp_path, scale, seeds=(0, 1))
    assert {claim.paper for claim in first} == {"MSD", "Robustness curves", "Adversarial hypervolume"}
    assert on_digits.claims(tmp_path, scale, seeds=(0, 1)) == first
