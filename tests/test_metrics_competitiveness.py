"""Competitiveness ratio, stability constant, UAR and averages against published digits, toys and properties."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustatlas import metrics
from robustatlas.common.errors import UserError
from robustatlas.metrics import AccuracyTable
from robustatlas.metrics.references import load_reference

GOLDENS = Path(__file__).parent / "goldens" / "metrics"
REFERENCE = load_reference("multirobustbench-cifar10")

TOY_REFERENCE = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
TOY = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})


@pytest.mark.parametrize(
    ("defense", "clean", "ratio", "stability", "seen"),
    [
        ("Madaan2021Learning_MNG-AC-RST", 88.87, 67.76, 1901.25, 8.84),
        ("Rebuffi2021Fixing_L2", 91.79, 65.44, 457.71, 2.76),
        ("Madaan2021Learning_MNG-AC", 81.45, 63.54, 1494.00, 8.84),
    ],
)
def test_figure_2_average_board(defense, clean, ratio, stability, seen):
    entry = REFERENCE.defense(defense)
    assert round(entry.accuracies.clean, 2) == clean
    assert round(metrics.competitiveness_ratio(entry.accuracies, REFERENCE), 2) == ratio
    assert round(metrics.stability_constant(entry.accuracies, REFERENCE, entry.trained_on).value, 2) == stability
    assert round(metrics.percent_seen(entry.accuracies, REFERENCE, entry.trained_on), 2) == seen


@pytest.mark.parametrize(
    ("defense", "clean", "ratio", "stability", "seen"),
    [
        ("Dai2022Formulating_LPIPS", 72.47, 3.30, 4947.00, 11.60),
        ("LaidLaw2021Perceptual", 71.58, 3.04, 5823.00, 11.60),
        ("Jin2020Manifold", 72.14, 2.47, 1.75, 0.55),
    ],
)
def test_figure_3_worst_case_board(defense, clean, ratio, stability, seen):
    entry = REFERENCE.defense(defense)
    assert round(entry.accuracies.clean, 2) == clean
    assert round(metrics.competitiveness_ratio(entry.accuracies, REFERENCE, kind="ind-worst"), 2) == ratio
    assert round(metrics.stability_constant(entry.accuracies, REFERENCE, entry.trained_on).value, 2) == stability
    assert round(metrics.percent_seen(entry.accuracies, REFERENCE, entry.trained_on), 2) == seen


@pytest.mark.parametrize(
    ("defense", "stability"),
    [
        ("Dai2022Formulating_Linf", 1801.00),
        ("Rebuffi2021Fixing_Linf", 2056.50),
        ("Zhang2019Theoretically_Linf", 2164.00),
        ("Madry2017Towards_Linf", 2309.50),
        ("Rebuffi2021Fixing_L2", 457.71),
        ("Dai2022Formulating_L2", 904.71),
        ("Zhang2019Theoretically_L2", 940.29),
        ("Madry2017Towards_L2", 1110.00),
        ("Madaan2021Learning_MNG-AC", 1494.00),
        ("Maini2020Adversarial", 1803.00),
        ("Madaan2021Learning_MNG-AC-RST", 1901.25),
        ("Tramer2019Adversarial_MAX", 2145.00),
        ("Tramer2019Adversarial_AVG", 2502.00),
        ("Dai2023MultiRobustBench_Linf", 2359.50),
    ],
)
def test_table_1_stability_constants(defense, stability):
    entry = REFERENCE.defense(defense)
    assert round(metrics.stability_constant(entry.accuracies, REFERENCE, entry.trained_on).value, 2) == stability


def test_best_single_attack_ratios():
    complete = [d for d in REFERENCE.defenses if not d.missing_attacks(REFERENCE.ranked)]
    paper = [d for d in complete if not d.name.startswith("Dai2023")]

    def best(attack):
        scores = {d.name: metrics.competitiveness_ratio(d.accuracies, REFERENCE, attacks=[attack]) for d in paper}
        name = max(scores, key=scores.__getitem__)
        return name, round(scores[name], 2)

    assert best("elastic") == ("Rebuffi2021Fixing_Linf", 38.48)
    assert best("stadv") == ("LaidLaw2021Perceptual", 50.35)


def test_todays_average_board():
    """The site's later entries, and the training strength that it enters wrongly."""
    entry = REFERENCE.defense("Dai2023MultiRobustBench_LPIPS")
    assert round(metrics.competitiveness_ratio(entry.accuracies, REFERENCE), 2) == 69.14
    entry = REFERENCE.defense("Dai2023MultiRobustBench_L1-L2-Linf")
    assert round(metrics.competitiveness_ratio(entry.accuracies, REFERENCE), 2) == 68.75
    entry = REFERENCE.defense("Dai2023MultiRobustBench_Linf")
    assert round(metrics.percent_seen(entry.accuracies, REFERENCE, entry.trained_on), 2) == 3.87
    split = metrics.competitiveness_in_out(entry.accuracies, REFERENCE, entry.trained_on)
    assert round(split.inside, 2) == 110.09


def test_mean_uar_of_the_board():
    """Not published; recomputed independently for the three leaders of the average board."""
    names = ["Madaan2021Learning_MNG-AC-RST", "Rebuffi2021Fixing_L2", "Madaan2021Learning_MNG-AC"]
    values = [round(metrics.mean_uar(REFERENCE.defense(name).accuracies, REFERENCE), 2) for name in names]
    assert values == [75.96, 74.86, 70.15]


def test_near_ties_decide_the_plain_stability_constant():
    entry = REFERENCE.defense("Madry2017Towards_Linf")
    plain = metrics.stability_constant(entry.accuracies, REFERENCE, entry.trained_on)
    assert plain.pair == ("linf@0.01", "jpeg-linf@0.15")
    assert plain.difficulty_change == pytest.approx(0.02)
    assert plain.value == pytest.approx(plain.accuracy_change / plain.difficulty_change)
    floored = [
        metrics.stability_constant(d.accuracies, REFERENCE, d.trained_on, floor=1.0).value
        for d in REFERENCE.defenses
        if d.name != "Jin2020Manifold" and not d.missing_attacks(REFERENCE.ranked)
    ]
    assert min(floored) > 32 and max(floored) < 58


def test_incomplete_defense_is_an_error_that_names_what_is_missing():
    entry = REFERENCE.defense("Croce2022Adversarial_Linf")
    with pytest.raises(UserError, match="missing: linf, l2, l1, lpips"):
        metrics.competitiveness_ratio(entry.accuracies, REFERENCE)
    evaluated = ["stadv", "recolor", "jpeg-linf", "jpeg-l1", "elastic"]
    assert round(metrics.competitiveness_ratio(entry.accuracies, REFERENCE, attacks=evaluated), 2) == 52.17


def test_toy():
    close = pytest.approx
    ratio = metrics.competitiveness_ratio
    assert ratio(TOY, TOY_REFERENCE, "ind-avg") == close(67.588608, abs=5e-7)
    assert ratio(TOY, TOY_REFERENCE, "ind-worst") == close(35.443038, abs=5e-7)
    assert ratio(TOY, TOY_REFERENCE, "exp") == close(69.521411, abs=5e-7)
    assert ratio(TOY, TOY_REFERENCE, "max") == close(46.666667, abs=5e-7)
    assert ratio(TOY, TOY_REFERENCE, attacks=["p"]) == close(71.666667, abs=5e-7)
    assert ratio(TOY, TOY_REFERENCE, attacks=["q"]) == close(70.981013, abs=5e-7)
    split = metrics.competitiveness_in_out(TOY, TOY_REFERENCE, {"p": 1.5})
    assert (split.inside, split.outside) == (close(82.5), close(57.647679, abs=5e-7))
    assert metrics.percent_seen(TOY, TOY_REFERENCE, {"p": 1.5}) == 40
    stability = metrics.stability_constant(TOY, TOY_REFERENCE, {"p": 1.5})
    assert (stability.value, stability.pair) == (close(32), ("p@1", "q@2"))
    assert metrics.unforeseen_attack_robustness(TOY, TOY_REFERENCE, "p") == close(64.285714, abs=5e-7)
    assert metrics.unforeseen_attack_robustness(TOY, TOY_REFERENCE, "q") == close(62.874251, abs=5e-7)
    assert metrics.mean_uar(TOY, TOY_REFERENCE) == close(63.579983, abs=5e-7)


def test_ties_up_to_float_noise_are_skipped():
    tied = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 80.00000000000003}})
    stability = metrics.stability_constant(TOY, tied, {"p": 1.5})
    assert (stability.value, stability.pair) == (pytest.approx(2), ("clean", "q@1"))


def test_no_admissible_pair_and_nothing_unseen():
    lone = AccuracyTable(90, {"p": {1: 50}})
    assert metrics.stability_constant(lone, lone, {}).pair is None
    assert math.isnan(metrics.competitiveness_in_out(lone, lone, {"p": 1}).outside)


def test_uar_of_figure_14():
    """88 UARs from accuracies printed in whole percent lie within the rounding of the six accuracies."""
    reference = load_reference("uar-cifar10")
    rows = json.loads((GOLDENS / "uar_figure14.json").read_text())["rows"]
    for row in rows:
        strengths = reference.accuracies.strengths(row["attack"]).tolist()
        table = AccuracyTable(math.nan, {row["attack"]: dict(zip(strengths, row["accuracies"], strict=True))})
        uar = metrics.unforeseen_attack_robustness(table, reference, row["attack"])
        bound = 100 * 0.5 * 6 / reference.accuracies.values(row["attack"]).sum()
        assert abs(uar - row["uar"]) <= bound, row
    assert len(rows) == 88


def test_uar_example_by_hand():
    reference = load_reference("uar-cifar10")
    strengths = reference.accuracies.strengths("l2").tolist()
    table = AccuracyTable(math.nan, {"l2": dict(zip(strengths, [86, 85, 80, 57, 8, 0], strict=True))})
    assert round(metrics.unforeseen_attack_robustness(table, reference, "l2"), 2) == 80.93


def test_ratio_against_a_reference_without_clean_accuracy_is_refused():
    reference = load_reference("uar-cifar10")
    with pytest.raises(UserError, match="reference has no clean accuracy"):
        metrics.competitiveness_ratio(AccuracyTable(90, reference.accuracies.entries), reference, attacks=["linf"])


@pytest.mark.parametrize(
    ("table", "attacks", "message"),
    [
        (AccuracyTable(81, {"p": {1: 60}, "q": {1: 77, 2: 28}}), None, "missing: p@2"),
        (AccuracyTable(81, {"p": {1: 60, 2: 30, 3: 20}, "q": {1: 77, 2: 28}}), None, "extra: p@3"),
        (AccuracyTable(81, {"p": {1: 60, 2: 30}}), None, "missing: q"),
        (AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}, "z": {1: 3}}), None, "no accuracies for z"),
        (TOY, [], "set of attacks is empty"),
        (TOY, ["p", "p"], "p is given more than once"),
        (TOY, ["x"], "missing: x"),
        (AccuracyTable(0.81, {"p": {1: 0.6, 2: 0.3}, "q": {1: 0.7, 2: 0.2}}), None, "look like fractions"),
    ],
)
def test_refusals(table, attacks, message):
    with pytest.raises(UserError, match=message):
        metrics.competitiveness_ratio(table, TOY_REFERENCE, attacks=attacks)


def test_more_refusals():
    with pytest.raises(UserError, match="no competitiveness ratio 'mean'"):
        metrics.competitiveness_ratio(TOY, TOY_REFERENCE, kind="mean")
    zero = AccuracyTable(90, {"p": {1: 80, 2: 0}, "q": {1: 88, 2: 79}})
    for kind in ("ind-avg", "ind-worst", "max"):
        with pytest.raises(UserError, match="reference accuracy at p@2 is 0"):
            metrics.competitiveness_ratio(TOY, zero, kind=kind)
    with pytest.raises(UserError, match="trained on 'P'"):
        metrics.percent_seen(TOY, TOY_REFERENCE, {"P": 1})
    with pytest.raises(UserError, match="training strength of p is -1"):
        metrics.percent_seen(TOY, TOY_REFERENCE, {"p": -1})
    with pytest.raises(UserError, match="floor is 4"):
        metrics.stability_constant(TOY, TOY_REFERENCE, {}, floor=4)


percent = st.floats(0, 100)
positive = st.floats(2, 100)


@st.composite
def pairs(draw, attacks=("p", "q", "r"), strengths=(1.0, 2.0)):
    def table(values):
        return AccuracyTable(draw(positive), {a: {s: draw(values) for s in strengths} for a in attacks})

    return table(percent), table(positive)


@given(pairs(), st.permutations(["p", "q", "r"]), st.sampled_from(["ind-avg", "ind-worst", "exp", "max"]))
def test_ratio_does_not_depend_on_names_or_order(tables, order, kind):
    model, reference = tables
    names = dict(zip(model.attacks, order, strict=True))

    def renamed(table):
        return AccuracyTable(table.clean, {names[attack]: row for attack, row in table.entries.items()})

    before = metrics.competitiveness_ratio(model, reference, kind)
    assert metrics.competitiveness_ratio(renamed(model), renamed(reference), kind) == pytest.approx(before)
    assert metrics.competitiveness_ratio(model, reference, kind, attacks=order) == pytest.approx(before)


@given(pairs(), st.floats(0, 1), st.sampled_from(["ind-avg", "ind-worst", "exp", "max"]))
def test_ratio_is_monotone_in_accuracy(tables, share, kind):
    model, reference = tables

    def better(value):
        return value + share * (100 - value)

    improved = AccuracyTable(
        better(model.clean), {a: {s: better(v) for s, v in row.items()} for a, row in model.entries.items()}
    )
    before = metrics.competitiveness_ratio(model, reference, kind)
    assert metrics.competitiveness_ratio(improved, reference, kind) >= before - 1e-9


@given(pairs())
def test_uar_is_the_exp_ratio_without_the_clean_point(tables):
    model, reference = tables
    with_clean = metrics.competitiveness_ratio(model, reference, "exp", attacks=["p"]) / 100
    ours, theirs = model.values("p").sum(), reference.values("p").sum()
    uar = metrics.unforeseen_attack_robustness(model, reference, "p") / 100
    assert with_clean * (theirs + reference.clean) - model.clean == pytest.approx(uar * theirs, abs=1e-6)
    assert uar == pytest.approx(ours / theirs)


@given(pairs(), st.sampled_from([0.0, 0.5, 1.0]))
def test_stability_constant_is_the_largest_slope(tables, floor):
    model, reference = tables
    entries = [("clean", 0.0), *((a, s) for a in model.attacks for s in (1.0, 2.0))]

    def at(table, entry):
        return table.clean if entry[0] == "clean" else table.at(*entry)

    slopes = [0.0]
    for p1 in [("clean", 0.0), ("p", 1.0)]:
        for p2 in entries:
            difficulty = abs(at(reference, p1) - at(reference, p2))
            if 1e-6 < difficulty <= 3 and difficulty >= floor:
                slopes.append(abs(at(model, p1) - at(model, p2)) / difficulty)
    result = metrics.stability_constant(model, reference, {"p": 1.0}, floor=floor)
    assert result.value == pytest.approx(max(slopes))


def test_union_accuracy_is_the_per_sample_worst_case():
    generator = np.random.default_rng(0)
    grid = np.array([0.0, 1, 2, 3, np.inf])
    found = {attack: generator.choice(grid, 500) for attack in "abc"}
    at = {"a": 2.0, "b": 1.0, "c": 3.0}
    expected = 100 * np.mean([all(found[a][i] > at[a] for a in at) for i in range(500)])
    assert metrics.union_accuracy(found, at) == pytest.approx(expected)
    marginals = [metrics.union_accuracy(found, {a: at[a]}) for a in at]
    assert max(0, 100 - sum(100 - m for m in marginals)) <= expected <= min(marginals)
    with pytest.raises(UserError, match="no minimal strengths of 'd'"):
        metrics.union_accuracy(found, {"d": 1})
    with pytest.raises(UserError, match="different numbers of samples"):
        metrics.union_accuracy({"a": [1.0], "b": [1.0, 2.0]}, {"a": 1, "b": 1})
    with pytest.raises(UserError, match="empty"):
        metrics.union_accuracy(found, {})
    with pytest.raises(UserError, match="is nan"):
        metrics.union_accuracy(found, {"a": math.nan})
    with pytest.raises(UserError, match="a number >= 0"):
        metrics.union_accuracy(found, {"a": "much"})
    with pytest.raises(UserError, match="not all numbers"):
        metrics.union_accuracy({"a": ["x"]}, {"a": 1})
    with pytest.raises(UserError, match="are NaN"):
        metrics.union_accuracy({"a": [math.nan]}, {"a": 1})


def test_average_accuracy():
    assert metrics.average_accuracy(TOY) == 48.75
    assert metrics.average_accuracy(TOY, clean=True) == pytest.approx(55.2)
    assert metrics.average_accuracy(TOY, ["p"]) == 45
    with pytest.raises(UserError, match="empty"):
        metrics.average_accuracy(TOY, [])
    with pytest.raises(UserError, match="look like fractions"):
        metrics.average_accuracy(AccuracyTable(0.9, {"p": {1: 0.8}}))
    with pytest.raises(UserError, match="no clean accuracy"):
        metrics.average_accuracy(AccuracyTable(math.nan, {"p": {1: 80}}), clean=True)


def test_strengths_that_differ_by_rounding_are_the_same_points():
    """0.168 and 0.16799999999999998 are one strength, in every table and every union."""
    exact, rounding = 0.168, 0.16799999999999998
    model, reference = AccuracyTable(90, {"p": {rounding: 40}}), AccuracyTable(90, {"p": {exact: 80}})
    for ours, theirs in (
        (model, reference),
        (AccuracyTable(90, {"p": {exact: 40}}), AccuracyTable(90, {"p": {rounding: 80}})),
    ):
        assert metrics.competitiveness_ratio(ours, theirs) == pytest.approx(75)
        assert (
            metrics.percent_seen(ours, theirs, {"p": exact})
            == metrics.percent_seen(ours, theirs, {"p": rounding})
            == 100
        )
        assert metrics.unforeseen_attack_robustness(ours, theirs, "p") == 50
    with pytest.raises(UserError, match=r"missing: p@0\.168; extra: p@0\.2\."):
        metrics.competitiveness_ratio(AccuracyTable(90, {"p": {0.2: 40}}), AccuracyTable(90, {"p": {rounding: 80}}))
    assert metrics.union_accuracy({"p": [exact, 0.2]}, {"p": rounding}) == 50
    assert metrics.union_accuracy({"p": [rounding, 0.2]}, {"p": exact}) == 50
    outcomes = metrics.OutcomeTable.from_sizes("a", [0, 0], {"p": [exact, 0.2]}, {"p": [rounding]})
    assert outcomes.accuracies().at("p", exact) == 50


def test_both_missing_and_extra_points_are_named():
    with pytest.raises(UserError, match=r"missing: p@2, q; extra: p@3"):
        metrics.competitiveness_ratio(AccuracyTable(81, {"p": {1: 60, 3: 30}}), TOY_REFERENCE)
    many = AccuracyTable(81, {"p": dict.fromkeys(range(1, 11), 50)})
    with pytest.raises(UserError, match=r"p@2, p@3, .*3 more"):
        metrics.competitiveness_ratio(AccuracyTable(81, {"p": {1: 60}}), many)


@pytest.mark.parametrize("kind", ["ind-avg", "ind-worst", "exp", "max"])
def test_a_choice_of_attacks_is_a_choice_of_weights_0_and_1(kind):
    entry = REFERENCE.defense("Rebuffi2021Fixing_L2").accuracies
    chosen = ["linf", "elastic", "fog"]
    weights = {"clean": 1.0} | {attack: float(attack in chosen) for attack in REFERENCE.accuracies.attacks}
    expected = metrics.competitiveness_ratio(entry, REFERENCE, kind, attacks=chosen)
    assert metrics.competitiveness_ratio(entry, REFERENCE, kind, weights=weights) == expected
    assert metrics.competitiveness_ratio(entry, REFERENCE.weighted(weights), kind) == expected


def test_all_ranked_alike_are_the_published_ratio():
    entry = REFERENCE.defense("Madaan2021Learning_MNG-AC-RST").accuracies
    weights = {"clean": 2.0} | dict.fromkeys(REFERENCE.ranked, 2.0)
    assert round(metrics.competitiveness_ratio(entry, REFERENCE, weights=weights), 2) == 67.76


def test_an_attacker_of_one_attack_alone_gives_uar():
    """Appendix E: CR exp of one attack without the clean input is UAR."""
    entry = REFERENCE.defense("Rebuffi2021Fixing_L2").accuracies
    found = metrics.competitiveness_ratio(entry, REFERENCE, "exp", weights={"elastic": 1.0})
    assert found == pytest.approx(metrics.unforeseen_attack_robustness(entry, REFERENCE, "elastic"), abs=1e-12)


def test_ratios_in_and_out_by_weights():
    split = metrics.competitiveness_in_out(TOY, TOY_REFERENCE, {"p": 1.5}, weights={"clean": 1, "p": {1: 3}, "q": 1})
    assert split.inside == pytest.approx(100 * (0.9 + 3 * 0.75) / 4)
    assert split.outside == pytest.approx(50 * (77 / 88 + 28 / 79))
    assert math.isnan(metrics.competitiveness_in_out(TOY, TOY_REFERENCE, {"p": 3}, weights={"q": 1}).inside)


def test_statistics_by_weights_are_the_ratio():
    table = metrics.OutcomeTable.from_sizes("a", [1] * 4, {"p": [0.5, 1.5, 3, 3]}, {"p": [1, 2]})
    weights = {"clean": 1.0, "p": {2.0: 3.0}}
    found = metrics.AccuracyStatistics(table, weights).competitiveness(TOY_REFERENCE.restrict(["p"]))
    expected = metrics.competitiveness_ratio(table.accuracies(), TOY_REFERENCE.restrict(["p"]), weights=weights)
    assert found.value == pytest.approx(expected) == pytest.approx(100 * (100 / 90 + 3 * 50 / 60) / 4)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"r": 1}, "weights name r, which is not there; there are p, q."),
        ({"p": -1}, "The weights of p are -1; a finite number from 0 on is expected."),
        ({"p": {3: 1}}, "weights name p@3, which is not there; p is at 1, 2."),
        ({"p": {1: float("nan")}}, "The weights of p@1 are nan"),
        ({"clean": 0, "p": 0}, "The set of attacks is empty"),
        ({}, "weights are expected as {attack: number}"),
    ],
)
def test_weights_that_cannot_be_meant(weights, message):
    with pytest.raises(UserError, match=re.escape(message)):
        metrics.competitiveness_ratio(TOY, TOY_REFERENCE, weights=weights)


def test_stability_by_the_strength_itself():
    """Definition 3.6: with a single attack the strength function may be epsilon."""
    entry, grid = REFERENCE.defense("Madry2017Towards_Linf"), REFERENCE.accuracies.strengths("linf")
    found = metrics.stability_constant(
        entry.accuracies, REFERENCE, {"linf": 8 / 255}, alpha=0.0051, attacks=["linf"], difficulty="epsilon"
    )
    accuracy = np.append(entry.accuracies.clean, entry.accuracies.values("linf"))
    slopes = np.abs(np.diff(accuracy)) / np.diff(np.append(0.0, grid))
    assert found.value == pytest.approx(slopes[: (grid < 8 / 255).sum() + 1].max())


def test_stability_by_a_difficulty_of_ones_own_is_the_published_one_where_that_is():
    entry = REFERENCE.defense("Rebuffi2021Fixing_L2")
    own = {"clean": 100 - REFERENCE.clean}
    own |= {a: {s: 100 - v for s, v in REFERENCE.accuracies.entries[a].items()} for a in REFERENCE.ranked}
    found = metrics.stability_constant(entry.accuracies, REFERENCE, entry.trained_on, difficulty=own)
    assert round(found.value, 2) == 457.71


def test_strengths_of_several_attacks_are_no_difficulty():
    with pytest.raises(UserError, match="p, q"):
        metrics.stability_constant(TOY, TOY_REFERENCE, {"p": 1.5}, difficulty="epsilon")
    with pytest.raises(UserError, match=re.escape("No difficulty is given of p@2, q@1, q@2")):
        metrics.stability_constant(TOY, TOY_REFERENCE, {"p": 1.5}, difficulty={"clean": 0, "p": {1: 1}})
