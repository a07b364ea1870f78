"""Both pages at every width: nothing wider than its box, no cell under what it holds, rows of bounded height."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.browser_helpers import complete_result, synthetic_result

from robustatlas.references import Reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report
from robustatlas.result import Result

Visit = Callable[..., Any]
WIDTHS = (390, 641, 768, 1024, 1200, 1440)
LONG = ("x" * 300, "Some-Long_Name" * 21)

PROBLEMS = Path(__file__).with_name("widths.js").read_text(encoding="utf-8")


def runs(kind: str, reference: Reference) -> list[Result]:
    if kind == "normal":
        return [complete_result(reference, reference.ranked, "our-model")]
    if kind == "one image":
        return [synthetic_result(reference, reference.ranked, "m", samples=1)]
    if kind == "long names":
        return [synthetic_result(reference, reference.ranked, name, samples=20) for name in LONG]
    return [synthetic_result(reference, reference.ranked, f"run-{n:02d}-WideResNet", samples=50) for n in range(60)]


def check(page: Any) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(400)
        assert page.evaluate(PROBLEMS) == [], width


@pytest.mark.parametrize("kind", ["normal", "one image", "long names", "sixty"])
def test_boards_at_every_width(kind: str, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    page = visit(build_leaderboard(runs(kind, reference), tmp_path, reference))
    page.wait_for_function("document.querySelector('#plot-overview .main-svg') !== null")
    page.locator("#board .more").first.click()
    check(page)
    page.click("#choose")
    check(page)


@pytest.mark.parametrize("kind", ["normal", "one image", "long names"])
def test_reports_at_every_width(kind: str, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    page = visit(build_report(runs(kind, reference), tmp_path / "report.html", reference))
    page.wait_for_function("document.querySelectorAll('.card .main-svg').length >= 9")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    check(page)
