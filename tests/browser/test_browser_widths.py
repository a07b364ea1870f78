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


def odd(reference: Reference) -> list[Result]:
    """A run of one image, and two with names of 300 characters."""
    long = [synthetic_result(reference, reference.ranked, name, samples=20) for name in LONG]
    return [synthetic_result(reference, reference.ranked, "m", samples=1), *long]


FITTING = """[...document.querySelectorAll('.plot')].filter(plot => plot.layout && plot.clientWidth).every(plot =>
    [plot.layout.width, plot.querySelector('.main-svg').clientWidth].every(width => width === plot.clientWidth))"""


def check(page: Any) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(FITTING)
        assert page.evaluate(PROBLEMS) == [], width


@pytest.mark.parametrize("kind", ["usual", "sixty"])
def test_boards_at_every_width(kind: str, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    names = [f"run-{n:02d}-WideResNet" for n in range(60)]
    sixty = [synthetic_result(reference, reference.ranked, name, samples=50) for name in names]
    usual = [complete_result(reference, reference.ranked, "our-model"), *odd(reference)]
    page = visit(build_leaderboard(sixty if kind == "sixty" else usual, tmp_path, reference))
    page.wait_for_function("document.querySelector('#plot-overview .main-svg') !== null")
    page.locator("#board .more").first.click()
    check(page)
    page.click("#choose")
    check(page)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_reports_at_every_width(kind: str, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    runs = odd(reference) if kind == "several" else [complete_result(reference, reference.ranked, LONG[1])]
    page = visit(build_report(runs, tmp_path / "report.html", reference))
    page.wait_for_function("document.querySelectorAll('.card .main-svg').length >= 9")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    check(page)
