"""Numbers of every search, kept: who moves them raises a version, and who raises one writes them anew.

python tests/test_search_goldens.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustatlas as ra
from helpers_core import brief, with_plan
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import scale_effort

KEPT = Path(__file__).parent / "golden_searches.json"
NAMES = ("linf", "l1", "l0", "elastic", "brightness", "fmn-l2", "ua-glitch")
CASES = [f"{name} by {search}" for name in NAMES for search in attack_named(name).searches]


def numbers(case: str) -> dict[str, Any]:
    """Key, sizes and passes of six digits, in double precision."""
    name, search = case.split(" by ")
    data = ra.load_dataset("digits").take(6)
    net = ra.load_model("builtin:digits-linf").net.double()  # type: ignore[union-attr]
    chosen = scale_effort(attack_named(name), "high")
    plan = chosen.plan(search)
    attack = brief(with_plan(chosen, search, *plan.runs, rules=plan.rules), most={"steps": 6})
    result = ra.evaluate(net, (data.images.double(), data.labels), attack, search=search, progress=False)  # type: ignore[arg-type]
    (record,), outcome = result.records.values(), result.outcome(name)
    margins = np.nan_to_num(outcome.margins.astype(float), nan=9.0)
    return {
        "key": record.model_copy(update={"gradient": None}).fingerprint,  # what a network gives is another matter
        "sizes": [round(float(size), 7) for size in outcome.minimal_size],
        "margins": [round(float(margin), 5) for margin in margins.mean(1)],
        "passes": [int(count) for count in outcome.forward + outcome.backward],
    }


@pytest.mark.parametrize("case", CASES)
def test_numbers_move_only_with_a_version(case: str) -> None:
    kept, now = json.loads(KEPT.read_text(encoding="utf-8"))[case], numbers(case)
    assert now["key"] == kept["key"], "what runs is something else: write the numbers anew, as said above"
    for what in ("sizes", "margins", "passes"):
        moved = f"{what} moved, and no version did: raise that of the optimizer, rule, set or search that changed"
        np.testing.assert_allclose(now[what], kept[what], rtol=1e-4, atol=1e-6, err_msg=moved)


if __name__ == "__main__":
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(numbers(case))}" for case in CASES)
    KEPT.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
