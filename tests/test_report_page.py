"""The report page: its numbers, its words, and what it refuses."""

import base64
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_size, text_as_typed
from robustatlas.data import load_dataset
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic
from robustatlas.metrics.comparison import difference_intervals
from robustatlas.metrics.competitiveness import competitiveness_ratio
from robustatlas.metrics.intervals import accuracy_interval
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.metrics.stability import stability_constant
from robustatlas.metrics.uar import mean_uar
from robustatlas.outcomes import AccuracyTable
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.report import words
from robustatlas.report.facts import facts_of, fitting_reference, shared_of_runs
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.gallery import examples, picture
from robustatlas.report.multiples import Tick, fitting_ticks
from robustatlas.report.numbers.of_several import numbers_of_several
from robustatlas.report.numbers.shared import shared_if_any
from robustatlas.report.numbers.standings import standings_of
from robustatlas.report.page import build_report
from robustatlas.report.step_curves import REACH
from robustatlas.report.words import summary, trust_together, verdict
from robustatlas.results.result import Result, load_result
from run_files import record_run, write

SMALL = Reference(
    name="small",
    source="made up",
    accuracies=AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}, "l2": {0.5: 70.0}}),
    ranked=("linf", "l2"),
)


def result(attacks: tuple[str, ...] = ("linf", "l2"), samples: int = 60, seed: int = 0, **more: Any) -> Result:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 10, samples)
    correct = generator.random(samples) < 0.8
    grids = {"linf": [0.01, 0.02, 0.04], "l2": [0.5], "fog": [1.0, 2.0]}
    strengths = {attack: grids[attack] for attack in attacks}
    sizes = {}
    for attack, grid in strengths.items():
        drawn = generator.exponential(grid[-1], samples)
        sizes[attack] = np.where(correct, np.where(drawn > 1.5 * grid[-1], np.inf, drawn), 0.0)
    predictions = np.where(correct, labels, (labels + 1) % 10)
    return Result.from_arrays(labels, predictions, sizes, strengths, **{"model": "mine", "data": "cifar10"} | more)


def with_warnings(run: Result, *warnings: str) -> Result:
    return Result.from_run(record_run(None, run, warnings=warnings))


def test_accuracies_and_their_intervals() -> None:
    run = result()
    facts = facts_of(run)
    assert facts.clean.value == pytest.approx(run.clean_accuracy)
    for attack in facts.attacks:
        assert attack.accuracy is not None
        for cell, percent in zip(attack.accuracy, run.outcome(attack.attack).accuracies(), strict=True):
            expected = accuracy_interval(percent, facts.samples)
            assert (cell.value, cell.low, cell.high) == pytest.approx((expected.value, expected.low, expected.high))
        assert attack.average is not None
        assert attack.average.low <= attack.average.value <= attack.average.high
        sizes = run.minimal_size(attack.attack)
        assert (attack.clean_errors, attack.never) == (int((sizes == 0).sum()), int(np.isinf(sizes).sum()))
    assert facts.reference is None


def test_against_a_reference_on_the_strengths_that_both_have() -> None:
    run = result()
    facts = facts_of(run, "mine", SMALL, {"linf": 0.01, "fog": 1.0})
    shared = run.accuracies().restrict(strengths={"linf": [0.01, 0.02]})
    against = facts.reference
    assert against is not None and against.complete and against.training is not None
    for kind in ("ind-avg", "ind-worst", "exp", "max"):
        assert against.numbers[f"CR {kind}"].value == pytest.approx(competitiveness_ratio(shared, SMALL, kind=kind))
    assert against.numbers["mUAR"].value == pytest.approx(mean_uar(shared, SMALL))
    assert against.training.stability[0.0] == stability_constant(shared, SMALL, {"linf": 0.01})
    assert {attack: len(grid) for attack, grid in against.held.shared.items()} == {"linf": 2, "l2": 1}


def test_some_attacks_make_an_incomplete_comparison() -> None:
    facts = facts_of(result(("l2", "fog")), "mine", SMALL)
    assert facts.reference is not None
    held = facts.reference.held
    assert (held.points, held.ranked_points, facts.reference.complete) == (1, 3, False)
    assert facts.reference.training is None
    assert facts.attacks[1].against == {}
    assert facts_of(result(("fog",)), "mine", SMALL).reference is None


def test_a_reference_without_clean_accuracy_gives_uar_only() -> None:
    bare = dataclasses.replace(SMALL, accuracies=AccuracyTable(float("nan"), SMALL.accuracies.entries))
    facts = facts_of(result(), "mine", bare, {"linf": 0.01})
    assert facts.reference is not None
    assert list(facts.reference.numbers) == ["mUAR"] and facts.reference.training is None
    assert "mUAR" in dict(summary(facts))["Compared with specialists?"]


def test_a_worst_case_of_zero_still_has_an_interval() -> None:
    sizes = {"linf": np.full(50, 0.005)}
    run = Result.from_arrays(np.zeros(50, int), np.zeros(50, int), sizes, {"linf": [0.01, 0.02]})
    facts = facts_of(run, "weak", SMALL)
    assert facts.reference is not None
    worst = facts.reference.numbers["CR ind-worst"]
    assert (worst.value, worst.low) == (0.0, 0.0)
    assert worst.high == pytest.approx(accuracy_interval(0.0, 50).high / 0.8, rel=1e-6)


def test_attacks_that_were_not_searched_everywhere_have_no_accuracies() -> None:
    run = result(("linf",), monotone=False, fooled={"linf": np.full((60, 3), -1)})
    facts = facts_of(run, "mine", SMALL)
    assert facts.attacks[0].accuracy is None
    assert facts.average is None and facts.reference is None


def test_margin_frontier() -> None:
    margins = {"linf": [[0.8, 0.4, 0.2], [0.5, -0.1, np.nan]]}
    run = Result.from_arrays(
        [0, 1], [0, 1], {"linf": [np.inf, 0.02]}, {"linf": [0.01, 0.02, 0.03]}, [0.9, 0.7], margins
    )
    frontier = facts_of(run).attacks[0].frontier
    assert frontier is not None
    assert frontier.sizes.tolist() == [0.0, 0.01, 0.02, 0.03]
    assert frontier.mean == pytest.approx([0.8, 0.65, 0.2, 0.1])
    assert frontier.volume.value == pytest.approx((1.4 / 3 + 0.5 / 3) / 2)
    assert facts_of(result()).attacks[0].frontier is None


def test_summary_says_what_the_numbers_say() -> None:
    run = result(samples=200)
    unfinished = dataclasses.replace(with_warnings(run, "one", "two"), missing={"linf": 3})
    answers = dict(summary(facts_of(unfinished, "mine", SMALL)))
    assert f"Of 200 images, {run.clean_accuracy:.1f}%" in answers["How robust?"]
    assert "best against" in answers["Against what?"]
    assert "2 warnings" in answers["What to trust?"] and "not finished" in answers["What to trust?"]
    single = dict(summary(facts_of(result(("l2",)))))
    assert "only attack" in single["Against what?"]
    assert "no warning" in single["What to trust?"]


def test_the_page_is_self_contained_and_escaped(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    run = with_warnings(result(model=hostile, data="<img src=x>"), "<b>bold</b> warning")
    text = build_report([run], tmp_path / "deep" / "report.html", SMALL).read_text()
    ours = text.split('id="report-data"')[0]
    assert "alert(1)</script>" not in text
    assert "<img" not in ours
    assert "&lt;b&gt;bold&lt;/b&gt; warning" in ours
    assert 'src="' not in ours and '<link rel="stylesheet"' not in text
    data = json.loads(text.split('id="report-data">')[1].split("</script>")[0])
    assert data["runs"] == [hostile]


def test_every_number_on_the_page_is_one_of_show(tmp_path: Path) -> None:
    """The sentences, every cell and the card say what ``show --json`` says."""
    run = result(samples=200)
    told = run_as_json(facts_of(run, "mine", SMALL))
    text = build_report([run], tmp_path / "report.html", SMALL).read_text()

    def said(number: dict[str, float]) -> str:
        return f"{number['value']:.1f}% ({number['low']:.1f} to {number['high']:.1f})"

    headline = text.split('<p class="headline">')[1].split("</p>")[0]
    for number in (told["headline"]["accuracy"], told["average accuracy"], told["clean accuracy"]):
        assert said(number) in headline
    assert said(told["worst case"]["accuracy"]) in text
    cells = re.findall(r'aria-label="strength ([\d.]+): ([^"]+)"', text)
    expected = [
        (text_as_typed(size), said(cell))
        for attack in told["attacks"].values()
        for size, cell in zip(attack["strengths"], attack["accuracy"], strict=True)
    ]
    assert cells == expected
    drawn = text.split('class="card-picture"')[1].split("</svg>")[0]
    assert said(told["headline"]["accuracy"]) in drawn and said(told["clean accuracy"]) in drawn
    for name, number in told["reference"]["numbers"].items():
        assert f"{number['value']:.1f} <small>({number['low']:.1f} to {number['high']:.1f})" in text, name


def test_figures_hold_the_curves(tmp_path: Path) -> None:
    run, other = result(), result(("linf",), seed=1, model="other")
    text = build_report([run, other], tmp_path / "report.html").read_text()
    data = json.loads(text.split('id="report-data">')[1].split("</script>")[0])
    line = data["cards"][0]["curve"]["lines"][0]
    unrounded = np.array(line["sizes"]) * 1.0001
    assert line["error"] == pytest.approx(run.curve("linf").at(unrounded), abs=0.01)
    assert data["cards"][1]["curve"]["lines"][1] is None
    histogram = data["cards"][0]["sizes"]["lines"][0]
    assert sum(histogram["counts"]) + sum(histogram[key] for key in ("never", "clean", "beyond")) == 60
    assert data["ratios"] == []


def test_one_image_is_no_certainty() -> None:
    """No number of a run of one image, or of one that is always or never right, has an interval of no width."""
    for samples, smallest in ((1, 0.015), (1, np.inf), (100, 0.005), (100, np.inf)):
        sizes = {attack: np.full(samples, smallest) for attack in ("linf", "l2")}
        grid = {"linf": [0.01, 0.02], "l2": [0.5, 1.0]}
        run = Result.from_arrays(np.zeros(samples, int), np.zeros(samples, int), sizes, grid)
        found = facts_of(run, "mine", SMALL)
        assert found.reference is not None and found.average is not None and found.worst is not None
        numbers = [found.clean, found.average, found.worst, *found.reference.numbers.values()]
        numbers += [cell for attack in found.attacks for cell in (attack.accuracy or ())]
        assert all(number.low < number.high for number in numbers)
        assert all(number.low <= number.value <= number.high for number in numbers)
        assert f"{samples} image" in words.headline(found)


def test_findings_say_where_it_breaks_and_where_it_stands() -> None:
    published = load_reference("multirobustbench-cifar10")
    grid = {attack: published.accuracies.strengths(attack) for attack in published.ranked}
    sizes = {attack: np.linspace(0, 0.5, 80) * strengths[-1] for attack, strengths in grid.items()}
    sizes["linf"] = np.linspace(0, 0.05, 80)
    facts = facts_of(Result.from_arrays(np.zeros(80), np.zeros(80), sizes, grid, data="cifar10"), "mine", published)
    breaks, rank, worst = words.findings(facts, {"linf": 0.25})
    assert breaks[0] == "Where it breaks"
    place = facts.reference and facts.reference.place
    assert place is not None and place.best <= place.rank <= place.worst <= place.of == 21
    assert rank[1] == f"about {words.ordinal(place.rank)} of 21" and "CR ind-avg" in rank[2]
    assert "under StAdv, ReColor and 4 more." in rank[2]
    assert worst[0] == words.WITHOUT  # as linf alone decides the worst case


def test_the_breaking_point_is_given_in_levels_and_in_distances() -> None:
    run = Result.from_arrays(np.zeros(9), np.zeros(9), {"linf": np.linspace(0.02, 0.04, 9)}, {"linf": [0.01, 0.05]})
    about, number, sentence = words.findings(facts_of(run), {"linf": 0.25})[0]
    assert (about, number) == ("Where it breaks", "L∞ 0.03")
    assert "12%" in sentence


def test_crossings_are_told(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    labels = np.zeros(1500, int)
    sizes = {"steady": generator.uniform(0.001, 1, 1500), "steep": generator.uniform(0.4, 0.6, 1500)}
    runs = [
        Result.from_arrays(labels, labels, {"linf": s}, {"linf": [0.5, 1.0]}, model=name) for name, s in sizes.items()
    ]
    text = build_report(runs, tmp_path / "report.html").read_text()
    assert "L∞, by the sizes found: steep is more robust below" in text


def by_sizes(**models: np.ndarray) -> tuple[list[Result], list[str]]:
    labels = np.zeros(len(next(iter(models.values()))), int)
    grid = {"linf": np.linspace(0.1, 1, 10)}
    return [Result.from_arrays(labels, labels, {"linf": s}, grid, model=name) for name, s in models.items()], [*models]


def test_a_lead_needs_more_than_chance() -> None:
    generator = np.random.default_rng(5)
    sizes = generator.uniform(0.05, 1, 400)
    runs, names = by_sizes(weak=0.5 * sizes, strong=sizes, twin=sizes * generator.choice([0.97, 1.03], 400))
    found = standings_of(numbers_of_several(shared_of_runs(runs, names), headline={"linf": 0.5}))
    assert found.together is None
    assert found.attacks[0].ahead == ((1, 0), (2, 0)) and found.attacks[0].leaders == ()
    assert not found.clean.is_told_apart and found.robust_leader is None
    both = "strong is ahead of weak and twin is ahead of weak"
    assert [both in sentence for sentence in verdict(found)] == [True, True, False]
    alone = standings_of(numbers_of_several(shared_of_runs(runs[:2], names[:2])))
    assert "strong is the more robust" in verdict(alone)[0] and alone.robust_leader == 1


def test_a_comparison_takes_what_all_runs_share() -> None:
    first, second = result(samples=60), result(("l2", "fog"), samples=60, model="other")
    found = standings_of(numbers_of_several(shared_of_runs([first, second], ["mine", "other"])))
    assert [contest.attack for contest in found.attacks] == ["l2"]
    expected = first.outcome("l2").accuracies().mean()
    assert found.attacks[0].values[0].value == pytest.approx(expected)
    assert shared_if_any([first, result(("fog",))], ["a", "b"]) is None
    assert shared_if_any([first, result(data="other")], ["a", "b"]) is None
    assert shared_if_any([first], ["a"]) is None


def doubt_of(first: dict[str, SampleStatistic], second: dict[str, SampleStatistic]) -> str:
    """Of a difference, one of three."""
    gap = difference_intervals(first, second, 1 - 0.05 / 3)[""]
    return f"{gap.low:.1f} to {gap.high:.1f}"


def test_several_attacks_are_also_taken_together() -> None:
    labels, grid = np.zeros(300, int), {"linf": [0.2, 0.4], "l2": [0.5, 1.0, 1.5]}
    generator = np.random.default_rng(2)
    sizes = [{attack: generator.exponential(scale, 300) for attack in grid} for scale in (0.3, 0.6, 1.2)]
    runs = [Result.from_arrays(labels, labels, of_run, grid) for of_run in sizes]
    at = {"linf": 0.2, "l2": 1.0}
    found = standings_of(numbers_of_several(shared_of_runs(runs, ["a", "b", "c"]), headline=at))
    assert found.together is not None
    cells = [np.concatenate([run.outcome(a).accuracies() for a in grid]).mean() for run in runs]
    assert [interval.value for interval in found.together.values] == pytest.approx(cells)
    assert [contest.label for contest in found.headlines] == ["L∞ at 0.2", "L2 at 1"]
    assert found.headlines[1].leaders == (2,) and found.robust_leader is None, "at L∞ the gap to b may be chance"
    held = [100 * run.survivors({"linf": 0.2}).mean() for run in runs]
    assert [number.value for number in found.headlines[0].values] == pytest.approx(held)
    doubt = doubt_of(*({"": AccuracyStatistics(run).average()} for run in (runs[2], runs[1])))
    first, second, *_ = verdict(found)
    assert words.percent(found.headlines[1].values[2]) in first and "most robust" not in first
    assert f"{cells[2] - cells[1]:.1f} points more than b ({doubt}" in second


def test_what_holds_for_all_models_is_said_once(tmp_path: Path) -> None:
    runs = [result(), result(model="other")]
    text = build_report(runs, tmp_path / "report.html", SMALL).read_text()
    assert text.count("What to trust?") == 1
    assert text.count("are upper bounds") == 1
    assert "Models against each other" in text
    warned = build_report([with_warnings(runs[0], "odd"), runs[1]], tmp_path / "warned.html").read_text()
    assert warned.count("The sanity checks gave a warning") == 1
    facts = [facts_of(run) for run in runs]
    assert "called ahead" not in trust_together(facts, None)


def test_runs_that_share_nothing_are_not_compared(tmp_path: Path) -> None:
    text = build_report([result(("linf",)), result(("fog",), model="b")], tmp_path / "report.html").read_text()
    assert "cannot be held against each other" in text


def test_equal_settings_are_written_once(tmp_path: Path, evaluated_run: Path) -> None:
    run = load_result(evaluated_run)
    text = build_report([run, dataclasses.replace(run, name="other")], tmp_path / "report.html").read_text()
    assert text.count('<th scope="row">computed with</th>') == 1
    assert text.count(f"numpy {np.__version__}") == 1


def test_numbers_without_noise_and_without_exponents() -> None:
    assert [text_as_typed(x) for x in (0.16799999999999998, 0.031372, 12345.0, 1.0)] == [
        "0.168",
        "0.03137",
        "12345",
        "1",
    ]
    assert [format_size(x, attack="linf") for x in (1234.6, 0.0123456, 255.0)] == ["1235", "0.0123", "255"]


def test_strengths_are_rounded_on_the_page(tmp_path: Path) -> None:
    sizes = {"linf": np.full(20, 0.3)}
    run = Result.from_arrays(np.zeros(20, int), np.zeros(20, int), sizes, {"linf": [0.1 + 0.2, 0.7 * 3]})
    ours = build_report([run], tmp_path / "report.html").read_text().split('id="report-data"')[0]
    assert re.findall(r"<small>([\d.]+)</small></td>", ours) == ["0.3", "2.1"]
    assert "0.30000000000000004" not in ours.split("All settings")[0]
    assert "2 strengths" in ours


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    text = build_report([result(), result(seed=1)], tmp_path / "report.html").read_text()
    assert "How robust are mine (1) and mine (2)?" in text


def test_gallery_goes_from_small_to_large(tmp_path: Path, evaluated_run: Path) -> None:
    run, data = load_result(evaluated_run), load_dataset("digits")
    shown = examples(run)["linf"]
    assert len(shown) > 1 and [example.size for example in shown] == sorted(example.size for example in shown)
    assert all(0 < example.size < np.inf and example.clean == "" for example in shown)
    first, *others = examples(run, data)["linf"]
    assert first.magnified > 0 and {other.magnified for other in others} == {first.magnified}
    assert first.label == str(int(data.labels[first.index])) and first.clean and first.difference
    assert examples(result()) == {}
    assert first.adversarial in build_report([run], tmp_path / "report.html", data=data).read_text()


def test_pictures_are_the_images(tmp_path: Path) -> None:
    image = np.random.default_rng(1).random((3, 5, 6), dtype=np.float32)
    (tmp_path / "image.png").write_bytes(base64.b64decode(picture(image).split(",")[1]))
    assert np.moveaxis(imread(tmp_path / "image.png")[..., :3], -1, 0) == pytest.approx(image, abs=0.002)


def test_bad_input_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="0"):
        build_report([], tmp_path / "report.html")
    with pytest.raises(UserError, match=str(tmp_path)):
        build_report([result()], tmp_path)


def name_of(reference: Reference | None) -> str:
    return reference.name if reference else ""


def on_grid(**more: Any) -> Result:
    return Result.from_arrays([0], [0], {"linf": [0.1]}, {"linf": [0.01, 0.02]}, **{"data": "cifar10"} | more)


def test_usual_reference() -> None:
    assert name_of(fitting_reference([on_grid()])) == "multirobustbench-cifar10"
    assert name_of(fitting_reference([on_grid(data="CIFAR-10 test")])) == "multirobustbench-cifar10"
    assert fitting_reference([on_grid(), on_grid(data="digits")]) is None
    assert fitting_reference([result(("fog",), monotone=False, fooled={"fog": np.full((60, 2), -1)})]) is None


def test_command(tmp_path: Path) -> None:
    run = write(tmp_path / "run", result())
    about = tmp_path / "about.json"
    about.write_text('{"mine": {"trained_on": {"linf": 0.031}}}')
    page = tmp_path / "page.html"
    entered("report", run, "-o", page, "--about", about)
    text = page.read_text()
    assert "training not stated" not in text
    assert load_reference("multirobustbench-cifar10").name in text
    entered("report", run, "-o", page, "--reference", "none")
    assert "multirobustbench" not in page.read_text()


def test_the_overview_draws_the_stored_sizes(tmp_path: Path) -> None:
    """Between the strengths that were asked for as well: half of the images break at a quarter of the only strength."""
    sizes = {"linf": np.repeat([0.05, np.inf], 50)}
    run = Result.from_arrays([0] * 100, [0] * 100, sizes, {"linf": [0.2]}, model="mine", data="arrays")
    text = build_report([run], tmp_path / "r.html").read_text(encoding="utf-8")
    (path,) = re.findall(r'<path class="found" d="M0 0([^"]*)"', text)
    corners = [tuple(map(float, corner.split("V"))) for corner in path.split("H")[1:]]
    strengths = [x * REACH * 0.2 / 100 for x, _ in corners]
    assert strengths == pytest.approx([0.05, 0.2], rel=1e-3) and [y for _, y in corners] == [50, 50]
    (card,) = json.loads(text.split('id="report-data">')[1].split("</script>")[0])["cards"]
    (line,) = card["curve"]["lines"]
    assert (line["sizes"], line["error"]) == ([0, 0.05, 0.2], [0, 50, 50])
    assert card["reach"] > 0.2  # the last step stands inside the axis


def test_ticks_cover_no_other_tick() -> None:
    ticks = [Tick(0, "0"), Tick(0.04, "8/255"), Tick(1, "0.8"), Tick(0.97, "classes")]
    assert [tick.text for tick in fitting_ticks(ticks, 250)] == ["0", "0.8"]


def test_both_sides_of_a_curve_are_drawn_and_said(tmp_path: Path) -> None:
    run = result(("linf",))
    sizes = CertifiedSizes("linf", run.minimal_size("linf") / 2, ("crown",), strengths=(0.01, 0.02, 0.04))
    text = build_report([dataclasses.replace(run, certified_sizes={"linf": sizes})], tmp_path / "r.html").read_text()
    both = facts_of(dataclasses.replace(run, certified_sizes={"linf": sizes})).certified[0].both
    assert both is not None and f"at least {both.at(0.02).least:.1f} %, at most {both.at(0.02).most:.1f} %" in text
    assert 'class="doubt' in text and "L∞ certified, at least" in text
    curve = json.loads(text.split('id="report-data">')[1].split("</script>")[0])["cards"][0]["curve"]["lines"][0]
    assert curve["certified"]["error"][-1] >= curve["error"][-1]
    assert 'class="doubt' not in build_report([run], tmp_path / "r.html").read_text()
