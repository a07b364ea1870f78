"""The report page in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import HOSTILE, complete_result, serious_problems, synthetic_result
from robustatlas.references import Reference
from robustatlas.report.page import build_report

Visit = Callable[..., Any]


@pytest.fixture(scope="session")
def full_page(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    run = complete_result(reference, reference.ranked, HOSTILE)
    trained_on = {HOSTILE: {"linf": 8 / 255}}
    return build_report([run], tmp_path_factory.mktemp("report") / "report.html", reference, trained_on)


@pytest.fixture(scope="session")
def comparison_page(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    runs = [
        synthetic_result(reference, attacks, name) for attacks, name in ((("linf", "l2"), "one"), (("linf",), HOSTILE))
    ]
    return build_report(runs, tmp_path_factory.mktemp("report") / "report.html")


def test_every_section_is_drawn(full_page: Path, visit: Visit) -> None:
    page = visit(full_page)
    titles = page.eval_on_selector_all("h2", "all => all.map(h => h.textContent)")
    assert titles == [
        "Robustness curves",
        "Accuracy by attack and strength",
        "Compared with models trained against each attack",
        "Margin frontier",
        "How small the adversarial examples are",
        "Cost",
        "Adversarial examples",
        "Settings",
    ]
    assert page.locator(".plot .main-svg").count() >= 9 * 3 + 2
    axes = page.evaluate(
        "[...document.querySelectorAll('.plot')].map(p => [p.layout.xaxis.title?.text, p.layout.yaxis.title?.text])"
    )
    assert all(x for x, _ in axes)
    assert all(y for _, y in axes[:9])
    assert page.locator(".gallery img").count() == 9 * 8
    assert page.locator(".heat .cell").count() == 180


def test_names_and_warnings_are_text(full_page: Path, visit: Visit) -> None:
    page = visit(full_page)
    assert page.inner_text("h1") == f"How robust is {HOSTILE}?"
    assert HOSTILE in page.inner_text(".warnings")


def test_a_comparison_of_some_attacks(comparison_page: Path, visit: Visit) -> None:
    page = visit(comparison_page)
    assert page.locator(".key li").all_inner_texts() == ["one", HOSTILE]
    assert page.evaluate("[...document.querySelectorAll('[data-figures=curves] .plot')].map(p => p.data.length)") == [
        6,
        3,
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_accessible_and_no_wider_than_the_screen(full_page: Path, visit: Visit, width: int, scheme: str) -> None:
    page = visit(full_page, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert serious_problems(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_a_comparison_is_accessible_too(comparison_page: Path, visit: Visit, width: int, scheme: str) -> None:
    page = visit(comparison_page, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert serious_problems(page) == []


def test_tables_on_a_telephone(comparison_page: Path, visit: Visit) -> None:
    page = visit(comparison_page, width=390)
    tables = page.evaluate(
        "[...document.querySelectorAll('.stick')].map(table => {"
        " table.parentElement.scrollLeft = 80;"
        " const first = table.querySelector('tbody th:not([colspan])');"
        " return [first.getBoundingClientRect().left - table.parentElement.getBoundingClientRect().left,"
        " first.offsetWidth, Math.max(...[...table.querySelectorAll('tbody td')].map(cell => cell.offsetHeight))]; })"
    )
    assert len(tables) >= 4
    for left, width, height in tables:
        assert left == pytest.approx(1, abs=1)
        assert width < 160
        assert height < 120


def test_theme_and_figures_change_together(comparison_page: Path, visit: Visit) -> None:
    page = visit(comparison_page, scheme="light")
    line = "document.querySelector('.plot').data[2].line.color"
    before = page.evaluate(line)
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(line) != before


def test_it_prints(full_page: Path, visit: Visit) -> None:
    page = visit(full_page)
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible()
    assert len(page.pdf(format="A4")) > 50_000


def test_paper_is_light_and_holds_everything(comparison_page: Path, visit: Visit) -> None:
    page = visit(comparison_page, width=688, scheme="dark")
    line = "document.querySelector('.plot').data[2].line.color"
    on_screen = page.evaluate(line)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(line) != on_screen
    assert page.evaluate("[...document.querySelectorAll('.plot')].every(p => p.layout.width === 300)")
    assert page.evaluate("document.documentElement.scrollWidth") == 688
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(line) == on_screen
