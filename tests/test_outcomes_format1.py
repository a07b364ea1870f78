"""Runs of format 1 are named as such, and 'merge' converts them without losing a number."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import outcomes_examples as examples
from robustatlas.errors import UserError
from robustatlas.outcomes import merge
from robustatlas.outcomes.tables import write_parquet
from robustatlas.result import load_result


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A run as the first release wrote it."""
    root = tmp_path / "old"
    attack = {
        "strengths": examples.STRENGTHS,
        "unit": "pixels",
        "monotone": True,
        "parameters": {"threat": {"kind": "L"}},
    }
    settings = {
        "model": {"name": "net", "sha256": "abcdef"}, "data": {"name": "digits"}, "samples": {"count": 7},
        "attacks": {"linf": attack}, "search": "descent", "procedure": "default", "seed": 4,
    }  # fmt: skip
    context = {"created": "2026-01-02", "command": "robustatlas evaluate", "warnings": ["careful"], "threads": 2}
    root.mkdir()
    manifest = {"format_version": 1, "settings": settings, "context": context, "shard_size": 3}
    (root / "run.json").write_text(json.dumps(manifest))
    for number, positions in enumerate(examples.PARTS):
        columns = examples.outcomes(positions)
        del columns["rejected"]
        strength = np.append(examples.STRENGTHS, np.inf)[np.searchsorted(examples.STRENGTHS, columns["minimal_size"])]
        write_parquet(
            root / "outcomes" / "linf" / f"shard-{number:05d}.parquet", columns | {"minimal_strength": strength}
        )
        write_parquet(root / "samples" / f"shard-{number:05d}.parquet", examples.samples(positions))
    return root


def test_it_is_named_with_what_to_do(old: Path) -> None:
    with pytest.raises(UserError, match=r"format 1.*'robustatlas merge .*old -o NEW' converts it"):
        load_result(old)


def test_converted_it_says_the_same(old: Path, tmp_path: Path) -> None:
    for _ in range(2):
        merge([old], tmp_path / "new")
    result = load_result(tmp_path / "new")
    whole = examples.fill(examples.begin(None, ("linf",)), names=("linf",)).table()
    np.testing.assert_array_equal(result.minimal_size("linf"), whole.minimal_size("linf"))
    np.testing.assert_array_equal(result.outcome("linf").margins, whole.outcome("linf").margins)
    assert result.accuracies().cells == whole.accuracies().cells
    assert result.warnings == ("careful",)
    assert result.outcome("linf").origins == ("descent, seed 4",)
    assert result.outcome("linf").unit == "pixels"


def test_a_damaged_one_is_named(old: Path, tmp_path: Path) -> None:
    (old / "run.json").write_text('{"format_version": 1}')
    with pytest.raises(UserError, match="not a valid manifest of format 1"):
        merge([old], tmp_path / "new")
