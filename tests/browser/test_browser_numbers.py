"""Reports and boards say what ``show --json`` says, number by number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import complete_result, synthetic_result, with_certificates
from browser.page_numbers import board_differences, differences
from robustatlas.cli.show import load_facts
from robustatlas.metrics.references import Reference
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.numbers.shared import distinct_names
from robustatlas.report.page import build_report
from robustatlas.results.result import Result

Visit = Callable[..., Any]


def runs(reference: Reference, count: int) -> list[Result]:
    """Of different strength, the first with everything a report can show."""
    some = [
        synthetic_result(reference, reference.ranked, f"model-{number}", data="cifar10", scale=0.1 * number)
        for number in range(2, count + 1)
    ]
    return [with_certificates(complete_result(reference, reference.ranked, "model-1")), *some]


@pytest.mark.parametrize("count", [1, 5])
def test_a_report_says_what_its_runs_say(count: int, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    shown = runs(reference, count)
    told = [run_as_json(load_facts(run, reference)) for run in shown]
    assert [run["model"] for run in told] == distinct_names(shown)
    page = visit(build_report(shown, tmp_path / "report.html", reference))
    page.wait_for_function("document.querySelectorAll('.card .main-svg').length >= 9")
    assert differences(page, told) == []
    told[0]["attacks"]["l2"]["accuracy"][3]["value"] += 1.0
    assert len(differences(page, told)) >= 2


@pytest.mark.parametrize("compared", [True, False])
def test_a_board_says_what_its_runs_say(compared: bool, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    shown = runs(reference, 3)
    page = visit(build_leaderboard(shown, tmp_path, reference if compared else None))
    told = [run_as_json(load_facts(run, reference if compared else None)) for run in shown]
    assert board_differences(page, told, compared) == []
    told[0]["clean accuracy"]["value"] += 1.0
    assert len(board_differences(page, told, compared)) == 1
