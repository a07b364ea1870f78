"""Both pages at every width: nothing wider than its box, no cell under what it holds, rows of bounded height."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import complete_result, synthetic_result, without_plots
from robustatlas.metrics.references import Reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report
from robustatlas.results.result import Result

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


def check(page: Any, drawer: bool = False) -> None:
    """At every width, on a board with its drawer open as well."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(FITTING)
        assert page.evaluate(PROBLEMS) == [], width
        if drawer:
            _check_menu(page, width)
            page.click("#choose")
            page.wait_for_function(FITTING)
            assert page.evaluate(PROBLEMS) == [], f"{width}, attacks being chosen"
            page.click("#drawer-close")


def _check_menu(page: Any, width: int) -> None:
    """The menu of columns lies on the screen."""
    page.evaluate("for (const each of document.querySelectorAll('.fold, .menu')) each.open = true")
    box = page.locator(".menu-body").bounding_box()
    assert box["x"] >= 0, width
    assert box["x"] + box["width"] <= width, width
    page.evaluate("document.querySelector('.menu').open = false")


def test_a_board_at_every_width(visit: Visit, tmp_path: Path, reference: Reference) -> None:
    runs = [complete_result(reference, reference.ranked, "our-model"), *odd(reference)]
    page = visit(build_leaderboard(runs, tmp_path, reference))
    page.wait_for_function("document.querySelector('#plot-overview .main-svg') !== null")
    page.locator("#board .more").first.click()
    check(page, drawer=True)


def test_a_board_of_sixty_at_every_width(visit: Visit, tmp_path: Path, reference: Reference) -> None:
    """Its table: the plots show no more than five of them."""
    runs = [synthetic_result(reference, reference.ranked, f"run-{n:02d}-WideResNet", samples=50) for n in range(60)]
    page = visit(without_plots(build_leaderboard(runs, tmp_path, reference)))
    page.wait_for_function("document.querySelectorAll('#board > tbody > tr:not(.detail)').length === 81")
    page.locator("#board .more").first.click()
    check(page, drawer=True)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_reports_at_every_width(kind: str, visit: Visit, tmp_path: Path, reference: Reference) -> None:
    runs = odd(reference) if kind == "several" else [complete_result(reference, reference.ranked, LONG[1])]
    page = visit(build_report(runs, tmp_path / "report.html", reference))
    page.wait_for_function("document.querySelectorAll('.card .main-svg').length >= 9")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    check(page)
