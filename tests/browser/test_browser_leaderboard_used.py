"""What one does on the leaderboard in a real browser: choosing, sorting, keys, and going back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser.browser_helpers import (
    HOSTILE,
    address,
    number,
    rows,
    wait_for_plots,
)
from robustatlas.metrics.competitiveness import competitiveness_ratio
from robustatlas.metrics.references import Reference

Visit = Callable[..., Any]


def test_toggling_attacks_and_strengths_ranks_again(table: Path, visit: Visit, reference: Reference) -> None:
    page = visit(table)
    first = list(rows(page))
    page.click("#choose")
    page.click("text=Norms only")
    page.uncheck(".attack input[value=l1]")
    page.select_option('select[aria-label="L∞: strengths to"]', label="0.03")
    assert "attacks=linf:1-6,l2" in address(page)
    strengths = {"linf": reference.accuracies.strengths("linf")[:6].tolist()}
    cells = reference.accuracies.restrict(["linf", "l2"], strengths)
    expected = {}
    for defense in reference.defenses:
        if not defense.missing_attacks(("linf", "l2")):
            given = defense.accuracies.restrict(["linf", "l2"], strengths)
            expected[defense.name] = f"{competitiveness_ratio(given, cells):.2f}"
    shown = {name: cells[1].split()[0] for name, cells in rows(page).items()}
    assert {name: shown[name] for name in expected} == expected
    assert shown[HOSTILE] != "incomplete,"
    page.click("#official")
    assert list(rows(page)) == first
    assert "#" not in address(page)


def test_state_survives_reload_and_is_shared_by_the_address(table: Path, visit: Visit) -> None:
    page = visit(table)
    page.check("input[value=worst]")
    page.fill("#search", "resnet-18")
    page.select_option("#extra", "no")
    page.click("th[data-key=clean] button")
    page.check('input[aria-label="Compare Jin2020Manifold"]')
    before, shared = rows(page), address(page)
    page.reload()
    assert rows(page) == before
    assert page.input_value("#search") == "resnet-18"
    assert page.is_checked("input[value=worst]")
    assert page.get_attribute("th[data-key=clean]", "aria-sort") == "descending"
    other = visit(table, "#" + shared.split("#")[1])
    assert rows(other) == before
    assert "Jin2020Manifold" in other.inner_text("#chips")


def test_a_board_beside_its_drawer_says_that_it_scrolls(table: Path, visit: Visit) -> None:
    page = visit(table, width=1100)
    page.click("#choose")
    page.wait_for_selector(".scroll-hint")
    scroller, drawer = (page.locator(name).bounding_box() for name in ("#scroller", "#drawer"))
    assert scroller["width"] > 500 and scroller["x"] + scroller["width"] <= drawer["x"]
    assert abs(scroller["y"] - drawer["y"]) < 1
    page.keyboard.press("Escape")
    assert not page.locator("#drawer").is_visible()
    page.focus("#search")
    page.click("#choose")
    page.focus("#search")
    page.keyboard.press("Escape")
    assert not page.locator("#drawer").is_visible()


def test_sort_filter_search(table: Path, look: Visit) -> None:
    page = look(table, "#columns=sc")
    page.click("th[data-key=sc] button")

    def constants() -> list[float]:
        _, *others = rows(page).values()
        return [number(cells[3]) for cells in others if cells[3] != "–"]

    rising = constants()
    assert rising == sorted(rising)
    page.click("th[data-key=sc] button")
    assert constants() == rising[::-1]
    page.select_option("#trained", "lpips")
    assert set(rows(page)) == {"Dai2023MultiRobustBench_LPIPS", "Dai2022Formulating_LPIPS", "LaidLaw2021Perceptual"}
    page.select_option("#trained", "")
    page.select_option("#extra", "yes")
    assert list(rows(page)) == ["Madaan2021Learning_MNG-AC-RST"]
    page.fill("#search", "no such thing")
    assert "No defense matches" in page.inner_text("#board tbody")


def test_back_and_colours(published_table: Path, visit: Visit) -> None:
    page = visit(published_table)
    page.check("input[value=worst]")
    page.click("th[data-key=clean] button")
    page.go_back()
    assert page.get_attribute("th[data-key=clean]", "aria-sort") is None and page.is_checked("input[value=worst]")
    page.go_back()
    assert page.is_checked("input[value=average]")
    colours = (
        "Object.fromEntries([...document.querySelectorAll('.chip')].map(c =>"
        " [c.innerText, c.querySelector('path').className.baseVal]))"
    )
    before = page.evaluate(colours)
    page.check("input[value=worst]")
    assert page.evaluate(colours) == before
    page.check("input[value=average]")
    page.locator(".chip button").first.click()
    after = page.evaluate(colours)
    assert len(after) == len(before) - 1 and after.items() <= before.items()
    page.check('input[aria-label="Compare Jin2020Manifold"]')
    assert {*page.evaluate(colours).values()} == {*before.values()}
    assert after.items() <= page.evaluate(colours).items()


def test_columns_are_chosen(published_table: Path, visit: Visit) -> None:
    page = visit(published_table)
    page.click(".menu summary")
    page.uncheck("#columns input[value=uar]")
    page.check("#columns input[value=attack-elastic]")
    heads = page.eval_on_selector_all("#board thead th[data-key]", "all => all.map(th => th.dataset.key)")
    assert "attack-elastic" in heads and "uar" not in heads
    page.reload()
    assert page.locator("th[data-key=attack-elastic]").count() == 1
    page.keyboard.press("Escape")


def test_keyboard(published_table: Path, visit: Visit) -> None:
    page = visit(published_table)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.focus("input[value=average]")
    page.keyboard.press("ArrowRight")
    assert page.is_checked("input[value=worst]")
    page.focus("th[data-key=clean] button")
    page.keyboard.press("Enter")
    assert page.get_attribute("th[data-key=clean]", "aria-sort") == "descending"
    assert page.evaluate("document.activeElement.textContent") == "Clean, %"
    page.focus("#choose")
    page.keyboard.press("Enter")
    page.wait_for_selector(".attack input[value=l1]")
    page.focus(".attack input[value=l1]")
    page.keyboard.press("Space")
    assert "l1" not in address(page).split("attacks=")[1].split(",")
    assert page.evaluate("document.activeElement.value") == "l1"
    page.keyboard.press("Escape")
    assert not page.locator("#drawer").is_visible()
    assert page.evaluate("document.activeElement.id") == "choose"
    page.focus("#board td.pick input >> nth=6")
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.type") == "checkbox"
    page.focus("[data-export=markdown]")
    page.keyboard.press("Enter")
    assert page.locator("#export").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#export").is_visible()


def test_theme_can_be_chosen_and_stays(published_table: Path, visit: Visit) -> None:
    page = visit(published_table, scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_the_board_comes_before_the_plots(published_site: Path, visit: Visit) -> None:
    page = visit(published_site)
    wait_for_plots(page)
    order = page.evaluate(
        "({paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,"
        " plotly: performance.getEntriesByType('resource').find(r => r.name.endsWith('plotly.min.js'))?.startTime})"
    )
    assert order["paint"] < (order["plotly"] or float("inf"))
    moved = page.evaluate(
        "new Promise(done => { let sum = 0; new PerformanceObserver(list => { for (const shift of list.getEntries())"
        " sum += shift.value; }).observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(sum), 100); })"
    )
    assert moved < 0.1  # of 0.65 where the page was shown before its table
    assert sum(file.stat().st_size for file in published_site.parent.iterdir()) < 2_000_000
