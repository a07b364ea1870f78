"""The report page in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import HOSTILE, synthetic_result
from robustatlas.metrics.references import Reference
from robustatlas.report.page import build_report

Visit = Callable[..., Any]


def ready(page: Any, cards: int) -> Any:
    """The page, once its library is unpacked and every card has its first figure."""
    page.wait_for_function(f"document.querySelectorAll('.card .main-svg').length >= {cards}")
    return page


def test_every_section_is_drawn(full_page: Path, look: Visit) -> None:
    page = ready(look(full_page), 9)
    titles = page.eval_on_selector_all("section h2", "all => all.map(h => h.textContent)")
    assert titles == [
        "Accuracy over strength",
        "At the breaking point",
        "Attack by attack",
        "Every accuracy",
        "Compared with models trained against each attack",
        "Beside the field",
        "In words",
        "Tables",
        "Settings",
    ]
    targets = page.eval_on_selector_all(".contents a", "all => all.map(a => document.querySelector(a.hash) !== null)")
    assert len(targets) == 7 and all(targets)
    assert page.locator(".multiple .chart").count() == 9
    assert page.locator(".strip img").count() == 9
    assert page.locator(".heat .cell").count() == 180
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height < 5 * 900, height
    assert full_page.stat().st_size < 1_300_000


def test_figures_of_an_attack_are_tabs_of_one_card(full_page: Path, look: Visit) -> None:
    page = ready(look(full_page), 9)
    card = page.locator(".card").first
    assert card.locator("[role=tab]").all_inner_texts() == ["Curve", "Sizes", "Margin", "Examples"]
    card.locator("[role=tab]").first.focus()
    for titles in (["images"], ["margin left (0 to 1), upper bound"]):
        page.keyboard.press("ArrowRight")
        shown = "[...document.querySelectorAll('.card:first-child .plot:not([hidden])')]"
        assert page.evaluate(f"{shown}.map(p => p.layout.yaxis.title.text)") == titles
    page.keyboard.press("ArrowRight")
    assert card.locator(".gallery img").count() == 8
    with page.expect_download() as waiting:
        page.locator(".card").nth(1).locator("text=SVG").click()
    assert waiting.value.suggested_filename.endswith(".svg")
    card.locator("[role=tab]").first.click()


def test_names_and_warnings_are_text(full_page: Path, look: Visit) -> None:
    page = look(full_page)
    assert page.inner_text("h1").replace("\n", "") == f"How robust is {HOSTILE}?"
    assert HOSTILE in page.inner_text(".warnings")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_is_the_answer(full_page: Path, look: Visit, width: int, height: int) -> None:
    """Headline number with its interval, rank, and where it breaks: in the viewport, without a scroll."""
    page = look(full_page, width=width, height=height)
    assert re.search(r"[\d.]+% \([\d.]+ to [\d.]+\) of 200 images", page.inner_text(".headline"))
    findings = page.locator(".findings li")
    assert [findings.nth(i).locator("h2").inner_text() for i in range(3)] == [
        "Where it breaks",
        "Rank",
        "Without any attack",  # as one attack alone decides the worst case
    ]
    assert re.search(r"about \d+(st|nd|rd|th) to \d+(st|nd|rd|th) of 21", findings.nth(1).inner_text())
    answers = [page.locator(".headline"), *(findings.nth(i) for i in range(3))]
    if width == 1440:
        answers += [page.locator(".robustness-card"), page.locator(".multiple").first]
    for element in answers:
        box = element.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= height


@pytest.fixture(scope="module")
def five_page(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    runs = [
        synthetic_result(reference, reference.ranked, f"model-{k}", data="cifar10", scale=scale)
        for k, scale in enumerate((0.1, 0.2, 0.3, 0.4, 1.0), 1)
    ]
    return build_report(runs, tmp_path_factory.mktemp("report") / "report.html", reference)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_of_several_models(five_page: Path, look: Visit, width: int, height: int) -> None:
    """Rank, average and union with their intervals, and where it breaks, beside each name; the leader is marked."""
    page = look(five_page, width=width, height=height)
    rows = page.locator(".runs tbody tr")
    assert rows.count() == 5
    for row in range(5 if width > 390 else 4):
        texts = rows.nth(row).locator("> *").all_inner_texts()
        assert re.search(r"about \d+(st|nd|rd|th) (to \d+(st|nd|rd|th) )?of 21", " ".join(texts[1].split()))
        for text in texts[2:4]:
            assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", " ".join(text.split()))
        assert re.match(r"(L∞|L2|L1) [\d.]+", texts[4])
        for cell in (0, 1, 2, 4):
            box = rows.nth(row).locator("> *").nth(cell).bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width + 1
            assert box["y"] + box["height"] <= height
    assert page.locator(".leader .tag").all_inner_texts() == ["most robust"]
    assert "model-5" in page.inner_text(".leader")
    if width == 1440:
        assert page.locator(".multiple").first.bounding_box()["y"] < height
    assert page.locator(".tag-of").count() == 0  # names of more than three would cover each other
    names = [f"model-{k}" for k in range(1, 6)]  # as typed
    assert page.locator(".runs tbody th b:not(.badge)").all_inner_texts() == names
    assert [text.strip() for text in page.locator(".overview .legend > span").all_inner_texts()] == names


def test_legends_and_lines_have_the_style_of_the_model(five_page: Path, look: Visit) -> None:
    page = ready(look(five_page), 9)
    styles = page.evaluate(
        "document.querySelector('.card .plot').data.filter(t => t.customdata).map(t => [t.line.dash, t.marker.symbol])"
    )
    assert len({tuple(style) for style in styles}) == 5
    assert page.locator(".legend").first.locator(".swatch .dot").count() == 5


def test_a_cell_answers_a_tap(full_page: Path, look: Visit) -> None:
    page = look(full_page, width=390)
    page.locator(".heat .cell").first.click()
    assert re.match(r"L∞, strength 0.005: [\d.]+% \(", page.inner_text(".said"))


def test_a_comparison_of_some_attacks(comparison_page: Path, look: Visit) -> None:
    page = ready(look(comparison_page), 2)
    assert page.locator(".runs b").all_inner_texts()[0] == "one"
    assert "Rank" not in page.inner_text(".runs thead")
    for legend in page.locator(".legend").all():
        assert legend.locator("> span").all_inner_texts() == ["one", HOSTILE]
    assert page.locator(".heat").first.is_visible() and not page.locator(".heat").nth(1).is_visible()
    assert page.evaluate("[...document.querySelectorAll('.card .plot:not([hidden])')].map(p => p.data.length)") == [
        6,
        3,
    ]


def test_tables_on_a_telephone(comparison_page: Path, visit: Visit) -> None:
    page = visit(comparison_page, width=390)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    tables = page.evaluate(
        "[...document.querySelectorAll('.stick:not(.heat)')].map(table => {"
        " table.parentElement.scrollLeft = 80;"
        " const first = table.querySelector('tbody th:not([colspan])');"
        " return [first.getBoundingClientRect().left - table.parentElement.getBoundingClientRect().left,"
        " first.offsetWidth, Math.max(...[...table.querySelectorAll('tbody td')].map(cell => cell.offsetHeight))]; })"
    )
    assert len(tables) >= 3
    for left, width, height in tables:
        assert left == pytest.approx(1, abs=1)
        assert width < 160
        assert height < 120


def test_theme_and_figures_change_together(comparison_page: Path, visit: Visit) -> None:
    page = ready(visit(comparison_page, scheme="light"), 2)
    line = "document.querySelector('.plot').data[2].line.color"
    before = page.evaluate(line)
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(line) != before


def test_paper_is_light_and_holds_everything(comparison_page: Path, look: Visit) -> None:
    page = ready(look(comparison_page, width=688, scheme="dark"), 2)
    line = "document.querySelector('.plot').data[2].line.color"
    on_screen = page.evaluate(line)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(line) != on_screen
    assert page.evaluate(
        "[...document.querySelectorAll('.plot')].filter(p => p.layout).every(p => p.layout.width === 300)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 688
    assert page.locator(".heat").nth(1).is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(line) == on_screen


def test_curves_show_accuracy_and_error_on_demand(full_page: Path, look: Visit) -> None:
    page = ready(look(full_page), 9)
    shown = (
        "() => { const plot = document.querySelector('.card .plot:not([hidden])');"
        " const [high, low, line] = plot.data.map(trace => trace.y);"
        " const inside = line.every((y, i) => low[i] <= y && y <= high[i]);"
        " return [plot.layout.yaxis.title.text, line[0], line.at(-1), inside]; }"
    )
    title, first, last, inside = page.evaluate(shown)
    assert title == "robust accuracy (%)" and first > last and inside
    page.click("#as-error")
    title, *ends, inside = page.evaluate(shown)
    assert title == "robust error (%)" and ends == [100 - first, 100 - last] and inside
    page.click("#as-error")
