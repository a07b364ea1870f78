"""Made-up runs, and the accessibility check, for the tests in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from robustatlas.outcomes import Result
from robustatlas.references import Reference

AXE = Path(__file__).with_name("axe.min.js")
"""axe-core 4.14.1, Mozilla Public License 2.0, https://github.com/dequelabs/axe-core (used by these tests only)."""

HOSTILE = "<script>alert(1)</script>"


def synthetic_result(
    reference: Reference, attacks: tuple[str, ...], name: str, samples: int = 200, **more: Any
) -> Result:
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 10, samples)
    correct = generator.random(samples) < 0.85
    strengths = {attack: reference.accuracies.strengths(attack) for attack in attacks}
    sizes = {
        attack: np.where(correct, generator.exponential(0.35 * grid[-1], samples), 0.0)
        for attack, grid in strengths.items()
    }
    predictions = np.where(correct, labels, (labels + 1) % 10)
    return Result.from_arrays(labels, predictions, sizes, strengths, model=name, **more)


def serious_problems(page: Any) -> list[str]:
    """What axe-core calls serious or critical."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")["violations"]
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:160]} {violation['nodes'][0].get('failureSummary', '')}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
    ]
