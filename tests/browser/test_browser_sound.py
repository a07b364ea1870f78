"""What holds for every page: sound documents, in sight in ten seconds, cheap to rank again, whole on paper."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import complete_result, serious_problems, without_plots
from robustatlas.metrics.references import Reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report

Visit = Callable[..., Any]
WITHOUT = """(all, [property, value]) =>
    all.filter(node => node.checkVisibility() && getComputedStyle(node)[property] !== value)
       .map(node => node.outerHTML)"""
FAULTS, LEGIBLE = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("faults.js", "legible.js"))


NARROW = (390, "dark", ("color-contrast", "target-size"))
"""A telephone in the dark, where what differs is asked again: colours and sizes."""


@pytest.fixture(scope="module", params=["full_page", "comparison_page", "site", "own_board"])
def each_page(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def drawn(page: Any) -> Any:
    page.wait_for_function("document.querySelector('.card .main-svg, .plots .main-svg') !== null")
    return page


def test_documents_are_sound_and_accessible(each_page: Path, look: Visit) -> None:
    for width, scheme, rules in ((1440, "light", ()), NARROW):
        page = drawn(look(each_page, width=width, scheme=scheme))
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(FAULTS) == [], width
        assert page.evaluate(LEGIBLE) == [], width
        assert serious_problems(page, *rules) == [], width


@pytest.mark.parametrize("name", ["own_board", "comparison_page"])
def test_a_page_is_loaded_with_its_plots(name: str, request: pytest.FixtureRequest, visit: Visit) -> None:
    """Whoever photographs or prints it once it is loaded has them all, without a scroll."""
    page = visit(request.getfixturevalue(name), width=390)
    assert page.locator(".plot:visible").count() > 0
    assert page.locator(".plot:visible:not(.js-plotly-plot)").count() == 0


RIGHT = "found => Math.max(...found.map(each => each.getBoundingClientRect().right))"


def test_a_telephone_shows_the_number_that_ranks(own_board: Path, visit: Visit) -> None:
    """Beside the name, without a scroll, and above it the controls in one line that opens."""
    page = visit(own_board, width=390)
    assert not page.is_visible("#search")
    assert page.eval_on_selector_all("#board td.cr", RIGHT) <= page.eval_on_selector_all("#scroller", RIGHT)
    page.click(".fold > summary")
    assert page.is_visible("#search")
    page.click(".fold > summary")


def test_the_choice_of_attacks_is_accessible(published_table: Path, look: Visit) -> None:
    page = look(published_table)
    page.click("#choose")
    for width, scheme, rules in ((1440, "light", ()), NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert serious_problems(page, *rules) == [], width
    page.click("#drawer-close")


def test_a_report_of_five_models_under_nine_attacks_is_light(tmp_path: Path, reference: Reference) -> None:
    runs = [complete_result(reference, reference.ranked, f"model-{number}") for number in range(5)]
    assert len(reference.ranked) == 9
    assert build_report(runs, tmp_path / "report.html", reference).stat().st_size < 1_800_000


def test_a_board_without_a_reference(own_board: Path, look: Visit) -> None:
    page = look(own_board)
    page.wait_for_function("document.querySelectorAll('.plots .js-plotly-plot').length === 2")
    heads = page.eval_on_selector_all("#board thead th[data-key]", "all => all.map(th => th.dataset.key)")
    assert heads == ["rank", "defense", "robust-linf", "robust-l2", "union", "cr", "clean", "samples"]
    said = page.inner_text("#own")
    assert re.search(r"[\d.]+% \([\d.]+ to [\d.]+\) .* over 2 attacks and their 40 strengths.*1st to 2nd of 2 ", said)
    assert "2 defenses" in page.inner_text("#status")
    shown = page.inner_text("main")
    assert "robustatlas reference" in shown
    assert not re.search(r"\bCR\b|\bSC\b|\bUAR\b|official", shown)
    means = page.evaluate("document.getElementById('plot-single').data.map(trace => trace.x)")
    assert all(0 < mean < 100 for row in means for mean in row)


def test_without_scripts_the_ranking_is_a_table(published_table: Path, look: Visit, chromium: Any) -> None:
    ranked = look(published_table).evaluate(
        "[...document.querySelectorAll('#board > tbody > tr:not(.detail)')]"
        ".map(tr => [tr.querySelector('th').dataset.name, tr.querySelector('td[data-key=cr]').innerText.trim()])"
    )
    page = chromium.new_page(java_script_enabled=False)
    page.goto(published_table.as_uri())
    rows = [row.split("\t") for row in page.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in rows[:3]] == ["1", "2", "3"] and rows[-1][2] == "incomplete"
    assert [[name, cr] for _, name, cr, _ in rows[:-1]] == [[name, cr.split()[0]] for name, cr in ranked[:-1]]
    assert not page.locator(".controls").is_visible()
    page.close()


def test_ranking_again_lays_out_once_and_not_row_by_row(published_table: Path, visit: Visit) -> None:
    page = visit(published_table)
    page.evaluate("document.getElementById('choose').click()")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def layouts() -> float:
        page.evaluate("document.body.offsetHeight")
        return {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}["LayoutCount"]

    before = layouts()
    page.evaluate("document.querySelector('.attack input[value=l1]').click()")
    assert layouts() - before < 8 < page.locator("#board tbody tr").count()
    devtools.detach()


ROWS = "document.querySelectorAll('#board > tbody > tr').length"
WHERE = "document.getElementById('scroller').scrollTop"


def test_of_a_long_board_only_rows_near_the_screen_are_in_the_document(
    tmp_path: Path, visit: Visit, reference: Reference
) -> None:
    """The keyboard reaches all others, readers of screens hear how many there are, and paper has every one."""
    many = tuple(replace(d, name=f"{d.name}-{copy}") for copy in range(20) for d in reference.defenses)
    page = visit(without_plots(build_leaderboard([], tmp_path, replace(reference, defenses=many))))
    table = page.locator("#board")
    assert table.get_attribute("aria-rowcount") == f"{len(many) + 1}"
    page.wait_for_function(f"{ROWS} > 40")
    assert page.evaluate(ROWS) < 130
    last = table.locator("th.name").last.get_attribute("data-name")
    assert table.get_by_role("row", name=last).get_attribute("aria-rowindex") == f"{len(many) + 1}"
    assert table.get_by_role("row", name=last).get_by_role("cell").count() == 10
    details = page.get_by_role("button", name=f"Details of {last}", exact=True)
    details.focus()
    assert 0 <= details.bounding_box()["y"] <= 900
    page.wait_for_function("document.querySelectorAll('[aria-rowindex=\"400\"]').length === 1")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    spoken = page.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')")
    assert int(spoken) == len(many)
    before = page.evaluate(WHERE)
    page.evaluate("document.querySelector('input[name=board]:not(:checked)').click()")
    assert page.evaluate(WHERE) == pytest.approx(before, abs=100)
    page.fill("#search", many[-1].name)
    page.wait_for_function(f"{ROWS} === 1")
    page.fill("#search", "")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(ROWS) == len(many)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(ROWS) < 130


def test_paper_keeps_headings_with_what_follows(each_page: Path, look: Visit) -> None:
    page = drawn(look(each_page, width=390, scheme="dark"))
    page.emulate_media(media="print")
    assert page.eval_on_selector_all("main h1, main h2, main h3", WITHOUT, ["breakAfter", "avoid"]) == []
    assert page.eval_on_selector_all("figure, main tr:not(.detail)", WITHOUT, ["breakInside", "avoid"]) == []
