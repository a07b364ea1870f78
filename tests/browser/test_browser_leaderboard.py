"""The leaderboard site in a real browser."""

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser.browser_helpers import (
    HOSTILE,
    IN_THE_DARK,
    complete_result,
    downloaded,
    exported,
    number,
    place,
    rows,
    synthetic_result,
    wait_for_overview,
    wait_for_plots,
    without_plots,
)
from robustatlas.metrics.competitiveness import competitiveness_in_out, competitiveness_ratio, percent_seen
from robustatlas.metrics.references import Reference
from robustatlas.metrics.stability import stability_constant
from robustatlas.metrics.uar import mean_uar
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.results.result import Result

Visit = Callable[..., Any]
VECTORS = json.loads((Path(__file__).parents[1] / "goldens" / "leaderboard_vectors.json").read_text())


def test_vectors(published_table: Path, look: Visit) -> None:
    page = look(published_table)
    for case in VECTORS["cases"]:
        found = page.evaluate(
            (Path(__file__).with_name("vectors.js")).read_text(),
            case,
        )
        for key, expected in case["expected"].items():
            assert found[key] == pytest.approx(expected, abs=1e-6), (case["name"], key)
    for case in VECTORS["ranks"]:
        given = [{"cr": cr, "sc": sc} for cr, sc in zip(case["cr"], case["sc"], strict=True)]
        assert page.evaluate("(rows) => Metrics.ranks(rows)", given) == case["expected"]
    for case in VECTORS["ranges"]:
        assert page.evaluate("(spans) => Metrics.rankRanges(spans)", case["spans"]) == case["expected"]
    for case in VECTORS["bounds"]:
        for kind, ends in case["expected"].items():
            ratio = "([values, reference, kind]) => Metrics.competitivenessRatio(values, reference, kind)"
            found = [page.evaluate(ratio, [case[end], case["reference"], kind]) for end in ("low", "high")]
            assert found == pytest.approx(ends, abs=1e-6)
    for case in VECTORS["steadiness"]:
        found = page.evaluate((Path(__file__).with_name("steadiness.js")).read_text(), case)
        assert found == pytest.approx(case["expected"], abs=1e-9)
    for how, one in (("fixed", "decimals"), ("precise", "digits")):
        for value, digits, expected in VECTORS[one]:
            assert page.evaluate(f"([value, digits]) => Page.{how}(value, digits)", [value, digits]) == expected
    behind = [{"cr": 90, "sc": 1, "masked": ["linf"]}, {"cr": 50, "sc": 2, "masked": []}]
    assert page.evaluate("(rows) => Metrics.ranks(rows)", behind) == [None, 1]


def test_published_boards(published_table: Path, look: Visit) -> None:
    page = look(published_table, "#columns=clean,sc,seen")
    published = VECTORS["published"]
    for board in ("average", "worst"):
        page.check(f"input[value={board}]")
        shown = rows(page)
        for row in published[board]:
            _, cr, clean, sc, seen, *_ = shown[row["defense"]]
            assert [float(cr.split()[0]), *map(float, (clean, seen))] == [row[k] for k in ("cr", "clean", "seen")]
            assert number(sc) == pytest.approx(row["sc"], rel=0.005)
        for name, sc in published["stability"].items():
            assert number(shown[name][3]) == pytest.approx(sc, rel=0.005)
    assert list(shown)[:3] == [row["defense"] for row in published["worst"]]
    assert shown["Croce2022Adversarial_Linf"][:2] == ["–", "incomplete, 80 missing\nRank on its entries"]


def test_incomplete_defenses_can_be_ranked_on_their_entries(published_table: Path, look: Visit) -> None:
    page = look(published_table)
    page.click("text=Rank on its entries")
    shown = rows(page)
    assert place(shown["Croce2022Adversarial_Linf"][0]) == 11
    assert [place(cells[0]) for cells in shown.values()] == list(range(1, 22))


def test_every_number_equals_python(published_table: Path, visit: Visit, reference: Reference) -> None:
    attacks = ["linf", "fog", "corruption-frost"]
    page = visit(published_table, f"#ratios=aggregated&attacks={','.join(attacks)}")
    for name, board in (("exp", "average"), ("max", "worst")):
        page.check(f"input[value={board}]")
        found = exported(page)
        assert found["kind"] == name
        ratios = {}
        for row in found["rows"]:
            defense = reference.defense(row["name"])
            if defense.missing_attacks(tuple(attacks)):
                assert row["cr"] is None and row["rank"] is None
                continue
            given, trained_on = defense.accuracies, defense.trained_on
            ratios[row["name"]] = competitiveness_ratio(given, reference, kind=name, attacks=attacks)
            assert row["cr"] == pytest.approx(ratios[row["name"]], rel=1e-9)
            for floor, key in ((0.0, "sc"), (1.0, "scFloored")):
                constant = stability_constant(given, reference, trained_on, floor=floor, attacks=attacks)
                assert row[key] == pytest.approx(constant.value, rel=1e-9)
            assert row["seen"] == pytest.approx(percent_seen(given, reference, trained_on, attacks))
            assert row["uar"] == pytest.approx(mean_uar(given, reference, attacks))
        shown = [row["name"] for row in found["rows"] if row["rank"]]
        assert [round(ratios[n], 2) for n in shown] == sorted((round(r, 2) for r in ratios.values()), reverse=True)


def test_inside_and_outside_equal_python(published_site: Path, look: Visit, reference: Reference) -> None:
    page = look(published_site, "#compare=Madaan2021Learning_MNG-AC&compare=Jin2020Manifold")
    wait_for_plots(page)
    shown = page.evaluate(
        "document.getElementById('plot-seen').data.filter(t => t.mode === 'markers').map(t => t.x[0])"
    )
    expected = []
    for name in ("Madaan2021Learning_MNG-AC", "Jin2020Manifold"):
        defense = reference.defense(name)
        both = competitiveness_in_out(defense.accuracies, reference, defense.trained_on)
        expected += [both.inside, both.outside]
    assert shown == pytest.approx(expected)


def test_nothing_chosen_draws_nothing(published_site: Path, look: Visit) -> None:
    page = look(published_site, "#compare=")
    wait_for_overview(page)
    assert not page.locator("#plots").is_visible()
    assert page.inner_text("#compare-note") == "Tick up to five defenses in the board."


def test_five_are_compared_and_not_six(published_site: Path, look: Visit) -> None:
    page = look(published_site, "#compare=")
    boxes = page.locator("#board td.pick input")
    for position in range(5):
        boxes.nth(position).check()
    assert boxes.nth(5).is_disabled()
    assert page.locator(".chip").count() == 5
    wait_for_plots(page)
    expected = [9 * 6, 5, 5, 15]
    page.wait_for_function(
        "(expected) => ['strength', 'single', 'reference', 'seen'].every((name, i) =>"
        " document.getElementById('plot-' + name).data.length === expected[i])",
        arg=expected,
    )
    titles = page.evaluate(
        "[...document.querySelectorAll('.plots .plot')].flatMap(plot => Object.entries(plot.layout)"
        ".filter(([k, a]) => k.startsWith('xaxis') && a.showticklabels !== false).map(([, a]) => a.title.text))"
    )
    assert all(titles)
    lanes = "document.getElementById('plot-single').data.map(trace => trace.y[0])"
    assert len(set(page.evaluate(lanes))) == 5
    panels = "document.getElementById('plot-reference').data.map(trace => trace.xaxis)"
    assert len(set(page.evaluate(panels))) == 5
    page.click('button[aria-label="Remove Rebuffi2021Fixing_L2 from the comparison"]')
    assert page.locator(".chip").count() == 4
    assert not boxes.nth(5).is_disabled()


@pytest.mark.parametrize("attacks", ["", "linf", "all"])
def test_plots_end_together(published_site: Path, look: Visit, reference: Reference, attacks: str) -> None:
    everything = ",".join(reference.accuracies.attacks)
    page = look(published_site, attacks and f"#attacks={everything if attacks == 'all' else attacks}")
    wait_for_plots(page)
    boxes = page.evaluate(
        "[...document.querySelectorAll('.plots figure')].slice(1).map(f => { const box = f.getBoundingClientRect();"
        " return [box.left, box.bottom, f.querySelector('.main-svg').clientWidth / f.clientWidth]; })"
    )
    ends = {left: bottom for left, bottom, _ in sorted(boxes)}
    assert max(ends.values()) - min(ends.values()) < 1
    assert len(ends) == (2 if attacks == "all" else 3)
    assert all(0.85 < filled <= 1 for *_, filled in boxes)


@pytest.fixture(scope="module")
def odd_runs(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    """One with margins, one whose name a spreadsheet would compute, and one of few images and no error."""
    grid = {attack: reference.accuracies.strengths(attack) for attack in reference.ranked}
    perfect = {attack: np.full(20, np.inf) for attack in grid}
    runs = [
        complete_result(reference, reference.ranked, "with-margins"),
        synthetic_result(reference, ("linf",), "=1+1"),
        Result.from_arrays(np.zeros(20), np.zeros(20), perfect, grid, model="lucky", data="cifar10"),
    ]
    return without_plots(build_leaderboard(runs, tmp_path_factory.mktemp("odd"), reference))


def test_headers_fit_their_columns(odd_runs: Path, look: Visit) -> None:
    page = look(odd_runs)
    assert page.locator("th[data-key=hypervolume]").count() == 1
    clipped = "[...document.querySelectorAll('#board thead button')].filter(b => b.scrollWidth > b.clientWidth)"
    assert page.evaluate(f"{clipped}.map(b => b.textContent)") == []


def test_a_board_of_own_runs_shows_what_is_known(tmp_path: Path, visit: Visit) -> None:
    strengths = {"linf": [0.3 * step / 10 for step in range(1, 11)]}
    generator = np.random.default_rng(0)
    labels = np.zeros(200, int)
    runs = [
        Result.from_arrays(labels, labels, {"linf": generator.uniform(0, scale, 200)}, strengths, model=name)
        for name, scale in (("weak", 0.2), ("strong", 0.4))
    ]
    tables = {run.name: run.accuracies() for run in runs}
    reference = Reference.from_models("small", "the best of two", tables)
    page = visit(build_leaderboard(runs, tmp_path, reference))
    wait_for_plots(page)
    assert re.findall(r"\d+", page.inner_text("#status")) == ["2", "1", "11"]
    heads = page.eval_on_selector_all("#board thead th[data-key]", "all => all.map(th => th.dataset.key)")
    assert heads == ["rank", "defense", "robust-linf", "cr", "clean", "seen", "uar", "samples"]
    assert not page.locator("#extra").is_visible()
    assert sorted(page.locator(".chip .label").all_inner_texts()) == sorted(rows(page))
    page.click("#choose")
    for text in (page.inner_text("#facts"), page.inner_text("#attacks")):
        assert re.search(r"\d\.\d{5}", text) is None


def test_odd_addresses_do_no_harm(table: Path, site: Path, visit: Visit, look: Visit) -> None:
    odd = ("#attacks=nothing:9-1,linf:0-99&sort=zzz&compare=nobody", "#attacks=none", "#%%%", "#attacks=")
    for fragment in odd:
        assert len(rows(visit(table, fragment))) == 23
    for fragment in odd:
        page = look(site, fragment)
        assert len(rows(page)) == 23
        wait_for_overview(page)
        assert page.locator("#plots").is_visible() == (fragment == "#%%%")


def test_names_from_runs_are_text(site: Path, look: Visit) -> None:
    page = look(site)
    wait_for_plots(page)
    assert HOSTILE in rows(page)
    assert page.locator(f'#chips [aria-label="Remove {HOSTILE} from the comparison"]').count() == 1
    assert "</script><script>alert(4)</script>" in page.inner_text("#facts")
    assert page.locator("img").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 13
    assert page.locator('a[href^="javascript"]').count() == 0


def test_a_figure_in_a_file_stands_alone(site: Path, look: Visit) -> None:
    page = look(site)
    wait_for_plots(page)
    layout = page.evaluate(f"{IN_THE_DARK}(() => Page.onPaper(Page.element('plot-single'), 'Ratios').layout)")
    assert layout["paper_bgcolor"] == "rgb(255, 255, 255)"
    title = layout["title"]["text"]
    assert title.startswith("<b>Ratios</b><br>")
    said = " ".join(re.sub("<[^>]+>", " ", title).split())
    assert re.search(
        r"our-model [━╍]{2}[●■◆▲✖▼] &lt;script&gt;alert\(1\)&lt;/script&gt; .{3} Dai2023MultiRobustBench_LPI", said
    )
    assert "multirobustbench-cifar10" in said
    colour = "() => Page.layout({}).font.color"
    assert layout["font"]["color"] == page.evaluate(colour) != page.evaluate(f"{IN_THE_DARK}({colour})")
    theme = "() => { Page.onPaper(Page.element('plot-single'), ''); return document.documentElement.dataset.theme; }"
    assert page.evaluate(f"{IN_THE_DARK}({theme})") == "dark"


def test_exports(table: Path, look: Visit, reference: Reference) -> None:
    page = look(table)
    found = list(csv.DictReader(downloaded(page, "csv").splitlines()))
    assert len(found) == 23
    assert [row["rank"] for row in found[:3]] == ["1", "2", "3"]
    assert float(found[2]["sc"]) == pytest.approx(1901.25)
    assert all(float(row["cr_low"]) < float(row["cr"]) < float(row["cr_high"]) for row in found if row["cr"])
    assert {row["images"] for row in found} == {"10000", "200"}
    assert {(row["board"], row["reference"]) for row in found} == {("ind-avg", reference.name)}
    assert {row["defense"] for row in found if row["missing_entries"] != "0"} == {"Croce2022Adversarial_Linf", HOSTILE}
    page.click("[data-export=latex]")
    text = page.input_value("#export-text")
    assert re.search(r"Madaan2021Learning\\_MNG-AC-RST & 50\.66 .* & 67\.76 \(66\.", text)
    assert text.startswith("% ") and "multirobustbench-cifar10" in text.splitlines()[0]
    assert text.count(r" \\") == 24
    page.click("#export button >> text=Close")
    page.click("[data-export=markdown]")
    text = page.input_value("#export-text")
    assert re.search(r"\| \d to \d \(3 by number\) \| Madaan2021Learning\\_MNG-AC-RST \| .* \| 67.76 \(66", text)
    assert "multirobustbench-cifar10" in text
    assert r"\<script\>alert(1)\</script\>" in text
    page.click("#export button >> text=Close")


def test_text_in_exports_is_no_formula(odd_runs: Path, look: Visit) -> None:
    table = list(csv.DictReader(downloaded(look(odd_runs), "csv").splitlines()))
    assert "'=1+1" in {row["defense"] for row in table}


def test_few_images_never_stand_above_many_without_a_mark(odd_runs: Path, look: Visit) -> None:
    page = look(odd_runs, "#columns=sc,seen,samples")
    row = page.locator("#board tr.own", has_text="lucky")
    assert place(rows(page)["lucky"][0].removeprefix("about ")) == 1 and rows(page)["lucky"][6] == "20"
    assert "only 20 images" in row.inner_text()
    assert rows(page)["lucky"][3:5] == ["–", "–"]
    assert re.search(r"\d+\.\d to \d+\.\d", rows(page)["lucky"][1])


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_says_where_the_own_model_stands(table: Path, visit: Visit, width: int, height: int) -> None:
    page = visit(table, width=width, height=height)
    said = page.inner_text("#own")
    place = r"about \d+(st|nd|rd|th) to \d+(st|nd|rd|th) of 21 \(\d+(st|nd|rd|th) by the number"
    assert re.search(rf"our-model: .*{place}", said)
    assert re.search(r"CR ind-avg [\d.]+% \([\d.]+ to [\d.]+\) on 200 images", said)
    shown = [page.locator("#own"), *([page.locator("#board tr.pinned")] if width == 1440 else [])]
    for box in (element.bounding_box() for element in shown):
        assert box["y"] + box["height"] <= height
    assert next(iter(rows(page))) == "our-model"
    page.click("#own button")
    assert page.locator("#board .detail").count() == 1
    assert "L∞ ≤ 8/255" in page.inner_text("#board .detail")
    assert page.locator("#board tr.pinned").count() == 1


def test_a_reference_without_clean_accuracy(tmp_path: Path, visit: Visit, reference: Reference) -> None:
    bare = replace(reference, accuracies=AccuracyTable(float("nan"), reference.accuracies.entries))
    page = visit(without_plots(build_leaderboard([], tmp_path, bare)))
    shown = rows(page)["Madaan2021Learning_MNG-AC-RST"]
    assert shown[1].split()[0] == "67.61"


def test_a_masked_row_comes_last_in_every_order(visit: Visit, tmp_path: Path, reference: Reference) -> None:
    """It would be first by every number that rests on the attack that its gradient misleads."""
    scales = {"blind": 1.0, "strong": 0.4, "weak": 0.2}
    made = {name: synthetic_result(reference, ("linf", "hue"), name, scale=scale) for name, scale in scales.items()}
    linf = replace(made["blind"].outcome("linf"), without_gradient=1.0)
    made["blind"] = replace(made["blind"], outcomes={**made["blind"].outcomes, "linf": linf})
    page = visit(without_plots(build_leaderboard(made.values(), tmp_path, None)))
    order = "[...document.querySelectorAll('#board th.name')].map((name) => name.dataset.name)"
    assert page.evaluate(order) == ["strong", "weak", "blind †"]
    assert rows(page)["blind †"][0] == "–" and rows(page)["blind †"][1].endswith("upper bound only")
    assert "2 defenses ranked, 1 masked" in page.inner_text("#status")
    page.click("button[data-sort=cr]")
    assert page.evaluate(order)[-1] == "blind †"
    page.click("button[data-sort=clean]")  # which competes
    assert "masked" not in page.inner_text("#board td.clean >> nth=0")
    table = downloaded(page, "csv")
    assert [line.count("upper bound only") for line in table.splitlines()[1:]].count(1) == 1
    assert {row["name"]: row["masked"] for row in exported(page)["rows"]} == {
        "blind †": "upper bound only", "strong": None, "weak": None,
    }  # fmt: skip
