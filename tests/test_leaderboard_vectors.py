"""The shared vectors of the board's metrics, in Python; tests/browser runs the same file in the browser."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustatlas.metrics.competitiveness import (
    competitiveness_in_out,
    competitiveness_ratio,
    percent_seen,
    weighted_ratios,
)
from robustatlas.metrics.references import load_reference
from robustatlas.metrics.references.matching import match_entries, training_mask
from robustatlas.metrics.stability import Pairs, stability_constant
from robustatlas.metrics.uar import mean_uar, unforeseen_attack_robustness
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts.ranks import rank_ranges, ranks

VECTORS = json.loads((Path(__file__).parent / "goldens" / "leaderboard_vectors.json").read_text())
PUBLISHED = VECTORS["published"]


def computed(case: dict[str, Any], key: str) -> Any:
    accuracies = AccuracyTable.from_dict(case["accuracies"])
    reference = AccuracyTable.from_dict(case["reference"])
    trained_on = case["trained_on"]
    if key == "single":
        return {a: competitiveness_ratio(accuracies, reference, attacks=[a]) for a in reference.attacks}
    if key in ("inside", "outside"):
        return getattr(competitiveness_in_out(accuracies, reference, trained_on), key)
    if key == "seen":
        return percent_seen(accuracies, reference, trained_on)
    if key == "sc":
        return stability_constant(accuracies, reference, trained_on, alpha=case["alpha"]).value
    if key == "uar":
        return {a: unforeseen_attack_robustness(accuracies, reference, a) for a in reference.attacks}
    if key == "mean_uar":
        return mean_uar(accuracies, reference)
    return competitiveness_ratio(accuracies, reference, kind=key, weights=case.get("weights"))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_cases(case: dict[str, Any]) -> None:
    for key, expected in case["expected"].items():
        assert computed(case, key) == pytest.approx(expected, abs=1e-6), key


@pytest.mark.parametrize("case", VECTORS["ranks"])
def test_ranks(case: dict[str, Any]) -> None:
    assert ranks(case["cr"], case["sc"]) == case["expected"]


@pytest.mark.parametrize("case", VECTORS["ranges"])
def test_ranges_of_ranks(case: dict[str, Any]) -> None:
    expected = [span and tuple(span) for span in case["expected"]]
    assert rank_ranges([span and tuple(span) for span in case["spans"]]) == expected


@pytest.mark.parametrize("case", VECTORS["bounds"])
def test_bounds_of_ratios(case: dict[str, Any]) -> None:
    for kind, ends in case["expected"].items():
        found = [
            float(weighted_ratios(np.array(case[end]), np.array(case["reference"]), kind)) for end in ("low", "high")
        ]
        assert found == pytest.approx(ends, abs=1e-6), kind


@pytest.mark.parametrize("case", VECTORS["steadiness"], ids=lambda case: f"floor {case['floor']}")
def test_bounds_of_stability_constants(case: dict[str, Any]) -> None:
    reference = AccuracyTable.from_dict(case["reference"])
    low, high = (match_entries(AccuracyTable.from_dict(case[end]), reference) for end in ("low", "high"))
    seen = training_mask(low, case["trained_on"], reference)
    pairs = Pairs.select(-low.reference, seen, case["alpha"], case["floor"])
    assert pairs.slope_bounds(low.accuracy, high.accuracy) == pytest.approx(case["expected"], abs=1e-9)


def test_numbers_are_rounded_alike() -> None:
    assert [f"{value:.{digits}f}" for value, digits, _ in VECTORS["decimals"]] == [
        one[2] for one in VECTORS["decimals"]
    ]
    assert [float(f"{value:.{digits}g}") for value, digits, _ in VECTORS["digits"]] == [
        one[2] for one in VECTORS["digits"]
    ]


@pytest.mark.parametrize(("board", "kind"), [("average", "ind-avg"), ("worst", "ind-worst")])
def test_published_rows(board: str, kind: Any) -> None:
    reference = load_reference(PUBLISHED["reference"])
    for row in PUBLISHED[board]:
        defense = reference.defense(row["defense"])
        accuracies, trained_on = defense.accuracies, defense.trained_on
        assert round(accuracies.clean, 2) == row["clean"]
        assert round(competitiveness_ratio(accuracies, reference, kind=kind), 2) == row["cr"]
        assert round(stability_constant(accuracies, reference, trained_on).value, 2) == row["sc"]
        assert round(percent_seen(accuracies, reference, trained_on), 2) == row["seen"]


def test_published_stability_and_single_ratios() -> None:
    reference = load_reference(PUBLISHED["reference"])
    for name, expected in PUBLISHED["stability"].items():
        defense = reference.defense(name)
        assert round(stability_constant(defense.accuracies, reference, defense.trained_on).value, 2) == expected
    for row in PUBLISHED["single"]:
        defense = reference.defense(row["defense"])
        assert round(competitiveness_ratio(defense.accuracies, reference, attacks=[row["attack"]]), 2) == row["cr"]
