"""What holds for every page: sound documents, in sight in ten seconds, cheap to rank again, whole on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import complete_result, serious_problems
from robustatlas.references import Reference
from robustatlas.report.page import build_report

Visit = Callable[..., Any]
PAGES = ("full_page", "comparison_page", "site", "own_board")
WITHOUT = """(all, [property, value]) =>
    all.filter(node => node.checkVisibility() && getComputedStyle(node)[property] !== value)
       .map(node => node.outerHTML)"""
FAULTS = Path(__file__).with_name("faults.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_documents_are_sound(name: str, look: Visit, request: pytest.FixtureRequest) -> None:
    page = look(request.getfixturevalue(name))
    page.wait_for_function("document.querySelector('.plot .main-svg') !== null")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(FAULTS) == [], width


def test_a_report_of_five_models_under_nine_attacks_is_light(tmp_path: Path, reference: Reference) -> None:
    runs = [complete_result(reference, reference.ranked, f"model-{number}") for number in range(5)]
    assert len(reference.ranked) == 9
    assert build_report(runs, tmp_path / "report.html", reference).stat().st_size < 3_000_000


def test_a_board_without_a_reference(own_board: Path, look: Visit) -> None:
    page = look(own_board)
    page.wait_for_function("document.querySelectorAll('.plots .js-plotly-plot').length === 2")
    heads = page.eval_on_selector_all("#board thead th[data-key]", "all => all.map(th => th.dataset.key)")
    assert heads == ["rank", "defense", "cr", "clean", "robust-linf", "robust-l2", "samples", "union"]
    said = page.inner_text("#own")
    assert re.match(
        r"Your model (one|two): 1st of 2 \(intervals allow 1 to 2\)\. Robust [\d.]+% \([\d.]+ to [\d.]+\) on \d+ ", said
    )
    assert re.search(r"Half of the images are wrong from .+ on\. Lowest under .+: [\d.]+% correct\.", said)
    assert page.inner_text("#status").startswith("Ranking by the average of the accuracies: 2 defenses ranked. ")
    shown = page.inner_text("main")
    assert "robustatlas reference" in shown
    assert not re.search(r"\bCR\b|\bSC\b|\bUAR\b|official", shown)
    means = page.evaluate("document.getElementById('plot-single').data.map(trace => trace.x)")
    assert all(0 < mean < 100 for row in means for mean in row)
    assert serious_problems(page) == []


def test_ranking_again_lays_out_once_and_not_row_by_row(published_site: Path, visit: Visit) -> None:
    page = visit(published_site)
    page.wait_for_function("document.querySelector('#plot-overview .main-svg') !== null")
    page.evaluate("globalThis.Plotly = undefined; document.getElementById('choose').click()")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def layouts() -> float:
        page.evaluate("document.body.offsetHeight")
        return {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}["LayoutCount"]

    before = layouts()
    page.evaluate("document.querySelector('.attack input[value=l1]').click()")
    assert layouts() - before < 8 < page.locator("#board tbody tr").count()
    devtools.detach()


@pytest.mark.parametrize("name", PAGES)
def test_paper_keeps_headings_with_what_follows(name: str, visit: Visit, request: pytest.FixtureRequest) -> None:
    page = visit(request.getfixturevalue(name))
    page.wait_for_function("document.querySelector('.plot .main-svg') !== null")
    page.emulate_media(media="print")
    assert page.eval_on_selector_all("main h1, main h2, main h3", WITHOUT, ["breakAfter", "avoid"]) == []
    assert page.eval_on_selector_all("figure, main tr:not(.detail)", WITHOUT, ["breakInside", "avoid"]) == []
