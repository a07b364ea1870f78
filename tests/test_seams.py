"""One rule, seen from every side: table, curve, SQL, bootstrap, facts and the page's JSON agree to the last bit."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import run_files
from robustatlas.metrics import AccuracyStatistics, RobustnessCurve, confidence_intervals, union_accuracy
from robustatlas.outcomes import query
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.page import build_report
from robustatlas.results.result import Result, load_result

ROUNDING = (1 - 1e-7, 1.0, 1 + 1.2e-7, 1 + 9e-6)
"""Factors by which a size that was found at a strength may differ from it."""


@st.composite
def results(draw: st.DrawFn) -> Result:
    """Clean errors, samples that never break, sizes a rounding away from a strength; sets nested and not nested."""
    samples = draw(st.integers(1, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    grids = {"linf": [8 / 255 * k / 4 for k in range(1, draw(st.integers(2, 6)))], "l2": [0.168, 0.3, 1.1]}
    monotone = draw(st.booleans())
    wrong = generator.uniform(size=samples) < 0.25
    labels = generator.integers(0, 3, samples)
    sizes, fooled = {}, {}
    for attack, grid in grids.items():
        at_a_strength = generator.choice(grid, samples) * generator.choice(ROUNDING, samples)
        anywhere = generator.uniform(0, 1.3 * grid[-1], samples)
        found = np.where(generator.uniform(size=samples) < 0.6, at_a_strength, anywhere)
        size = np.where(generator.uniform(size=samples) < 0.2, np.inf, found)
        judged = generator.uniform(size=(samples, len(grid))) < 0.5
        if not monotone:
            first = np.where(judged.any(1), np.array(grid)[judged.argmax(1)], np.inf)
            size = first * generator.choice(ROUNDING, samples)
            fooled[attack] = np.where(wrong[:, None], draw(st.booleans()), judged).astype(np.int8)
        sizes[attack] = np.where(wrong, 0.0, size)
    more: dict[str, Any] = {} if monotone else {"fooled": fooled}
    return Result.from_arrays(
        labels,
        np.where(wrong, labels + 1, labels),
        sizes,
        grids,
        monotone=monotone,
        model="net",
        data="made up",
        **more,
    )


def _counted(run: Path, asked: dict[str, list[float]]) -> dict[str, dict[tuple[str, float], tuple[int, int]]]:
    """By SQL, from the lists and from the macro (at the strengths ``asked``): how many samples are broken, of how
    many, for each attack and strength."""
    lists = "(SELECT attack, unnest(strengths) AS strength, unnest(broken) AS broken FROM outcomes)"
    ways = [f"SELECT 'lists' AS way, attack, strength, sum(broken::INT), count(*) FROM {lists} GROUP BY ALL"]
    ways += [
        f"SELECT 'macro', attack, {strength!r}, sum(broken::INT), count(*) FROM broken({strength!r}) "
        f"WHERE attack = '{attack}' GROUP BY ALL"
        for attack, strengths in asked.items()
        for strength in strengths
    ]
    counted: dict[str, dict[tuple[str, float], tuple[int, int]]] = {"lists": {}, "macro": {}}
    for way, attack, strength, broken, samples in query(" UNION ALL ".join(ways), run).rows:
        counted[way][attack, float(strength)] = (int(broken), samples)
    return counted


def check_seams(result: Result, folder: Path) -> None:
    """Every view of a result gives the same numbers, at every strength of every attack."""
    table, written = result.accuracies(), run_files.write(folder / "run", result)
    statistics = AccuracyStatistics(result)
    wanted = {(a, k): statistics.accuracy(a, k) for a in result.attacks for k in range(len(result.strengths(a)))}
    points = confidence_intervals({str(key): statistic for key, statistic in wanted.items()}, replicates=3)
    facts = run_as_json(facts_of(result))
    page = build_report([result], folder / "report.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="report-data">')[1].split("</script>")[0])
    assert load_result(written).accuracies() == table
    ends = (result.attacks[0], result.attacks[-1])
    typed = {a: result.strengths(a).tolist() for a in result.attacks}
    counted = _counted(written, {attack: typed[attack] for attack in ends})
    assert counted["macro"] == {entry: found for entry, found in counted["lists"].items() if entry[0] in ends}
    assert facts["clean accuracy"]["value"] == table.clean == 100 * result.clean.sum() / result.samples
    for position, attack in enumerate(result.attacks):
        outcome = result.outcome(attack)
        curve = RobustnessCurve.from_outcome(outcome)
        line = data["cards"][position]["curve"]["lines"][0]
        for k, (strength, distance) in enumerate(zip(typed[attack], outcome.strengths.tolist(), strict=True)):
            accuracy = table.at(attack, strength)
            broken = int(outcome.broken([distance]).sum())
            assert accuracy == 100 * (result.samples - broken) / result.samples
            assert float(curve.robust_accuracy(strength)) == accuracy
            assert float(curve.at(strength)) == 100 * broken / result.samples
            assert counted["lists"][attack, strength] == (broken, result.samples)
            assert points[str((attack, k))].value == wanted[attack, k].value == accuracy
            assert facts["attacks"][attack]["accuracy"][k]["value"] == accuracy
            drawn = int(np.isclose(line["sizes"], distance, rtol=1e-6, atol=0).nonzero()[0][-1])
            assert line["error"][drawn] == pytest.approx(100 * broken / result.samples, abs=5e-4), "rounded on the page"
            standing = result.clean & result.correct(attack)[:, k]
            assert result.survivors({attack: strength}).tolist() == standing.tolist()
    if all(outcome.monotone for outcome in result.outcomes.values()):
        first = {attack: float(result.strengths(attack)[0]) for attack in result.attacks}
        sizes = {attack: result.minimal_size(attack) for attack in result.attacks}
        assert union_accuracy(sizes, first) == 100 * result.survivors(first).sum() / result.samples


@given(results())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_view_gives_the_same_numbers(result: Result) -> None:
    with TemporaryDirectory() as folder:
        check_seams(result, Path(folder))


def test_a_size_above_its_strength_by_rounding_is_broken_there_everywhere(tmp_path: Path) -> None:
    """The case that once gave 23 % in the table and 30 % on the curve."""
    grid = [0.1, 0.2]
    size = np.array([0.2 * (1 + 1.2e-7), np.float32(0.1), 0.2 * (1 + 1e-4), np.inf])
    result = Result.from_arrays([0] * 4, [0] * 4, {"linf": size}, {"linf": grid})
    check_seams(result, tmp_path)
    assert result.accuracies().values("linf").tolist() == [75.0, 50.0]


@pytest.mark.parametrize("confidence", [0.95])
def test_one_interval_for_each_number(confidence: float, tmp_path: Path) -> None:
    """A single proportion has its exact interval wherever it stands; a mean over one strength is one."""
    from robustatlas.metrics import accuracy_interval
    from robustatlas.report.numbers.of_several import numbers_of_several
    from robustatlas.report.numbers.shared import shared_of_runs
    from robustatlas.report.numbers.standings import standings_of

    generator = np.random.default_rng(0)
    sizes = [generator.exponential(0.2, 60) for _ in range(2)]
    runs = [Result.from_arrays([0] * 60, [0] * 60, {"linf": s}, {"linf": [0.1]}, model=str(s[0])) for s in sizes]
    table = standings_of(numbers_of_several(shared_of_runs(runs, ["a", "b"])))
    for position, run in enumerate(runs):
        facts = facts_of(run)
        attack = facts.attacks[0]
        assert attack.accuracy is not None
        exact = accuracy_interval(run.accuracies().at("linf", 0.1), 60, confidence)
        assert attack.average is not None and facts.average is not None
        same = (attack.accuracy[0], attack.average, facts.average, table.attacks[0].values[position])
        assert {number.interval for number in same} == {exact}
        clean = accuracy_interval(run.clean_accuracy, 60, confidence)
        assert table.clean.values[position].interval == facts.clean.interval == clean
