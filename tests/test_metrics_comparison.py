"""Intervals, bootstrap and tests of models against closed forms, other implementations and simulation."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from robustatlas import metrics
from robustatlas.common.errors import UserError
from robustatlas.metrics import AccuracyStatistics, AccuracyTable, OutcomeTable
from robustatlas.results.result import Result

STRENGTHS = {"p": [1.0, 2.0, 3.0], "q": [0.5, 1.0]}
REFERENCE = AccuracyTable(95, {"p": {1: 90, 2: 80, 3: 70}, "q": {0.5: 85, 1: 60}})


def model(name: str, seed: int, samples: int = 300, scale: float = 1.0) -> OutcomeTable:
    generator = np.random.default_rng(seed)
    wrong = generator.uniform(size=samples) < 0.1
    sizes = {
        attack: np.where(wrong, 0.0, generator.exponential(scale * grid[-1], samples))
        for attack, grid in STRENGTHS.items()
    }
    return OutcomeTable.from_sizes(name, np.arange(samples) % 10, sizes, STRENGTHS)


@given(st.integers(1, 200), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_as_scipy_has_it(total, data, confidence):
    successes = data.draw(st.integers(0, total))
    low, high = metrics.proportion_bounds(successes, total, confidence)
    expected = stats.binomtest(successes, total).proportion_ci(confidence, method="exact")
    assert (float(low), float(high)) == (pytest.approx(100 * expected.low), pytest.approx(100 * expected.high))


def test_accuracy_interval():
    interval = metrics.accuracy_interval(67.76, samples=10_000)
    assert (interval.low < 67.76 < interval.high) and interval.high - interval.low == pytest.approx(1.85, abs=0.02)
    assert interval.excludes(69) and not interval.excludes(67)
    with pytest.raises(UserError, match="not a whole number of 7 samples"):
        metrics.accuracy_interval(50.0, samples=7)


def test_bootstrap_statistics_have_the_value_of_the_metrics():
    outcomes = model("a", 0)
    table, statistics = outcomes.accuracies(), AccuracyStatistics(outcomes)
    for kind in ("ind-avg", "ind-worst", "exp", "max"):
        value = metrics.competitiveness_ratio(table, REFERENCE, kind)
        assert statistics.competitiveness(REFERENCE, kind).value == pytest.approx(value)
    single = metrics.competitiveness_ratio(table, REFERENCE, attacks=["q"])
    assert statistics.competitiveness(REFERENCE, attacks=["q"]).value == pytest.approx(single)
    assert statistics.uar(REFERENCE).value == pytest.approx(metrics.mean_uar(table, REFERENCE))
    assert statistics.average().value == pytest.approx(metrics.average_accuracy(table))
    assert statistics.accuracy("p", 1).value == pytest.approx(table.at("p", 2.0))
    assert statistics.accuracy("clean", 0).value == pytest.approx(table.clean)


def test_replicates_are_metrics_of_resampled_samples():
    """The weighted means are what the metric gives on the samples drawn again with replacement."""
    outcomes = model("a", 0, samples=40)
    statistic = AccuracyStatistics(outcomes).competitiveness(REFERENCE)
    (replicates,) = metrics.bootstrap_replicates([statistic], replicates=5, seed=3)
    drawn = np.random.default_rng(3).integers(40, size=(5, 40))
    for value, positions in zip(replicates, drawn, strict=True):
        entries = {
            attack: dict(zip(STRENGTHS[attack], 100 * correct[positions].mean(axis=0), strict=True))
            for attack, correct in ((attack, outcomes.correct(attack)) for attack in STRENGTHS)
        }
        again = AccuracyTable(100 * outcomes.clean[positions].mean(), entries)
        assert value == pytest.approx(metrics.competitiveness_ratio(again, REFERENCE))


def test_the_interval_of_a_mean_is_scipys():
    values = np.random.default_rng(0).normal(size=2000)
    interval = metrics.confidence_intervals({"mean": metrics.mean_statistic(values)}, replicates=500, seed=4)["mean"]
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=500, method="percentile", batch=50, random_state=np.random.default_rng(4)
    ).confidence_interval
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_bootstrap_does_not_depend_on_what_else_is_asked():
    statistics = AccuracyStatistics(model("a", 0))
    alone = metrics.confidence_intervals({"CR": statistics.competitiveness(REFERENCE)}, replicates=300)
    both = metrics.confidence_intervals(
        {"average": statistics.average(), "CR": statistics.competitiveness(REFERENCE)}, replicates=300
    )
    assert alone["CR"] == both["CR"]


def test_pairing_narrows_the_interval_of_a_difference():
    a = model("a", 0)
    worse = OutcomeTable.from_sizes("b", a.labels, {k: 0.9 * a.minimal_size(k) for k in STRENGTHS}, STRENGTHS)
    ours, theirs = ({"CR": AccuracyStatistics(m).competitiveness(REFERENCE)} for m in (a, worse))
    paired = metrics.difference_intervals(ours, theirs)["CR"]
    apart = metrics.confidence_intervals(ours)["CR"]
    assert paired.low > 0
    assert paired.high - paired.low < 0.5 * (apart.high - apart.low)
    assert metrics.difference_intervals({}, {}) == {}


@pytest.mark.parametrize("only_first, only_second", [(0, 0), (3, 3), (10, 2), (1, 9), (40, 60)])
def test_mcnemar_as_the_binomial_test(only_first, only_second):
    first = np.array([True] * only_first + [False] * only_second + [True, False])
    second = np.array([False] * only_first + [True] * only_second + [True, False])
    test = metrics.mcnemar(first, second)
    expected = stats.binomtest(only_first, only_first + only_second).pvalue if only_first + only_second else 1.0
    assert (test.only_first.tolist(), test.only_second.tolist()) == ([only_first], [only_second])
    assert test.p_values[0] == pytest.approx(expected)


def test_mcnemar_over_strengths_is_corrected_over_all_of_them():
    a, b = model("a", 0), model("b", 1, scale=0.5)
    corrected = metrics.mcnemar_at_strengths(a, b)
    plain = [metrics.mcnemar(a.correct(attack), b.correct(attack)).p_values for attack in STRENGTHS]
    np.testing.assert_allclose(
        np.concatenate([test.p_values for test in corrected.values()]), metrics.holm(np.concatenate(plain))
    )
    assert corrected["p"].p_values[-1] < 0.01


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.3]))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, level):
    rejected = set()
    for step, index in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[index] * (len(p_values) - step) > level:
            break
        rejected.add(int(index))
    assert set(np.flatnonzero(metrics.holm(p_values) <= level).tolist()) == rejected


def test_rank_tests():
    generator = np.random.default_rng(0)
    a, b = generator.uniform(size=80), generator.uniform(size=80) - 0.2
    test = metrics.rank_sum_test(a, b)
    assert test.p_value == pytest.approx(stats.ranksums(a, b).pvalue, rel=0.05)
    assert test.effect == pytest.approx(np.mean(np.sign(a[:, None] - b[None, :])))
    signed = metrics.signed_rank_test(a, b)
    assert signed.p_value == pytest.approx(stats.wilcoxon(a, b).pvalue, rel=1e-6)
    assert signed.effect == pytest.approx(np.mean(np.sign(a - b)))
    assert metrics.signed_rank_test(a, a) == metrics.RankTest(1.0, 0.0)


def test_attack_correlation():
    scores = np.random.default_rng(0).normal(size=(12, 4))
    np.testing.assert_allclose(metrics.attack_correlation(scores), np.corrcoef(scores.T), atol=1e-12)
    np.testing.assert_allclose(
        metrics.attack_correlation(scores, "spearman"), stats.spearmanr(scores).statistic, atol=1e-12
    )
    assert np.isnan(metrics.attack_correlation([[1, 2], [1, 3], [1, 4]])[0, 1])


def test_shared_samples():
    a, b = model("a", 0), model("b", 1)
    some = b.select(np.array([7, 3, 250]))
    left, right = metrics.shared_samples([a, some])
    assert left.index.tolist() == right.index.tolist() == [3, 7, 250]
    np.testing.assert_array_equal(left.minimal_size("p"), a.minimal_size("p")[[3, 7, 250]])
    np.testing.assert_array_equal(right.minimal_size("p"), b.minimal_size("p")[[3, 7, 250]])
    with pytest.raises(UserError, match="share no samples"):
        metrics.shared_samples([a.select(np.array([1])), b.select(np.array([2]))])
    with pytest.raises(UserError, match="different labels"):
        metrics.shared_samples(
            [a, OutcomeTable.from_sizes("c", a.labels + 1, {k: a.minimal_size(k) for k in STRENGTHS}, STRENGTHS)]
        )


@given(arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([0.0, 1.0, 1.5, 3.0, 9.0, math.inf])))
def test_sizes_give_the_share_of_survivors(sizes):
    table = OutcomeTable.from_sizes("a", np.zeros(len(sizes), int), {"p": sizes}, STRENGTHS).accuracies()
    expected = [100 * np.mean([size > strength for size in sizes]) for strength in STRENGTHS["p"]]
    np.testing.assert_allclose(table.values("p"), expected)
    assert table.clean == pytest.approx(100 * np.mean(sizes > 0))


def test_restriction_to_strengths():
    a = model("a", 0)
    some = a.restrict({"p": [2.0, np.float32(3.0)]})
    assert some.attacks == ("p",)
    np.testing.assert_array_equal(some.correct("p"), a.correct("p")[:, 1:])
    with pytest.raises(UserError, match="p was not evaluated at strength 4"):
        a.restrict({"p": [4.0]})
    with pytest.raises(UserError, match=r"'z'.* p, q"):
        a.restrict({"z": [1.0]})


def test_outcomes_of_a_run():
    result = Result.from_arrays(
        labels=[0, 1, 1],
        clean_prediction=[0, 1, 0],
        minimal_size={"linf": [0.15, np.inf, 0.0]},
        strengths={"linf": [0.1, 0.2]},
        model="net",
    )
    assert result.name == "net"
    assert AccuracyStatistics(result).table == result.accuracies()
    separate = Result.from_arrays(
        labels=[0, 1],
        clean_prediction=[0, 1],
        minimal_size={"fog": [0.1, 0.1]},
        strengths={"fog": [0.1, 0.2]},
        fooled={"fog": [[1, 0], [0, 1]]},
        monotone=False,
    )
    assert separate.correct("fog").tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.mcnemar([True], [True, False]), "not judged on the same samples"),
        (lambda: metrics.mcnemar([1, 0], [0, 1]), "Booleans"),
        (lambda: metrics.mcnemar_at_strengths(model("a", 0), model("b", 0, samples=9)), "same samples in the same"),
        (lambda: metrics.holm([2.0]), "p-values between 0 and 1"),
        (lambda: metrics.signed_rank_test([1.0], [1.0, 2.0]), "paired test needs the same samples"),
        (lambda: metrics.rank_sum_test([math.inf], [1.0]), "cap infinite sizes"),
        (lambda: metrics.attack_correlation([[1, 2], [3, 4]]), "at least 3 models"),
        (lambda: metrics.attack_correlation(np.eye(3), "kendall"), "no correlation 'kendall'"),
        (lambda: metrics.confidence_intervals({"a": metrics.mean_statistic(np.ones(3))}, replicates=0), "at least 1"),
        (
            lambda: metrics.difference_intervals(
                {"a": metrics.mean_statistic(np.ones(3))}, {"a": metrics.mean_statistic(np.ones(4))}
            ),
            r"these have \[3, 4\] samples",
        ),
        (lambda: metrics.difference_intervals({"a": metrics.mean_statistic(np.ones(3))}, {}), "statistics differ: a"),
        (lambda: metrics.proportion_bounds(3, 2), "between 0 and the 2 trials"),
        (lambda: metrics.proportion_bounds(math.nan, 2), "between 0 and the 2 trials"),
        (lambda: metrics.accuracy_interval(math.nan, 10), "accuracy is nan"),
        (lambda: metrics.accuracy_interval(120, 10), "accuracy is 120"),
        (lambda: metrics.accuracy_interval(0.75, 10), "not a whole number of 10 samples"),
        (lambda: metrics.percentile_interval(1.0, np.array([])), "no replicates"),
        (lambda: metrics.percentile_interval(1.0, np.ones(3), confidence=95), "confidence is 95"),
        (lambda: metrics.confidence_intervals({"a": metrics.mean_statistic(np.ones(0))}), "no samples to draw"),
        (lambda: metrics.mean_statistic(np.array([1.0, math.nan])), "1 that are not finite"),
        (lambda: metrics.mean_statistic(np.ones((3, 2))), "One finite number for each sample"),
        (lambda: metrics.mcnemar(np.zeros(0, bool), np.zeros(0, bool)), "no samples to test"),
        (lambda: AccuracyStatistics(model("a", 0)).average([]), "set of attacks is empty"),
        (lambda: AccuracyStatistics(model("a", 0)).average(["z"]), "not evaluated with z; it has p, q"),
        (lambda: AccuracyStatistics(model("a", 0)).accuracy("p", 3), "none at position 3"),
        (lambda: model("a", 0).minimal_size("z"), "not evaluated with 'z'; it has p, q"),
        (
            lambda: metrics.mcnemar_at_strengths(model("a", 0), model("b", 0).restrict({"p": [1.0, 2.0]})),
            "Only one of a and b was evaluated with q",
        ),
        (
            lambda: metrics.mcnemar_at_strengths(
                model("a", 0), model("b", 0).restrict({"p": [1.0, 2.0], "q": [0.5, 1.0]})
            ),
            "same strengths of p",
        ),
        (lambda: metrics.shared_samples([]), "No model is given"),
        (lambda: metrics.common_strengths([]), "No model is given"),
        (lambda: OutcomeTable.from_sizes("a", [1], {}, {}), "set of attacks of a is empty"),
        (lambda: OutcomeTable.from_sizes("a", [1], {"p": [1.0]}, {}), "no strengths of p"),
        (lambda: OutcomeTable.from_sizes("a", [1], {"p": [1.0]}, {"p": []}), "p has no strengths"),
        (lambda: OutcomeTable.from_sizes("a", [1], {"p": [1.0]}, {"p": [2.0, 1.0]}), "increasing order"),
        (lambda: OutcomeTable.from_sizes("a", [1], {"p": [1.0]}, {"p": [1.0, 1.0]}), "given twice"),
        (lambda: OutcomeTable.from_sizes("a", [1], {"p": [math.nan]}, STRENGTHS), "are NaN"),
        (
            lambda: OutcomeTable.from_sizes("a", [1, 2], {"p": [1.0]}, STRENGTHS),
            "2 labels and 1 minimal sizes under p",
        ),
        (
            lambda: OutcomeTable.from_sizes("a", [1, 2], {"p": [0, 1], "q": [1, 1]}, STRENGTHS),
            "Sample 0 of a is misc",
        ),
        (lambda: OutcomeTable.from_sizes("a", [], {"p": []}, STRENGTHS), "one number for each sample"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(UserError, match=message):
        call()


def test_six_images_to_none_are_no_lead_among_three_models() -> None:
    """Resampling never draws a difference of the other sign; McNemar's p is .031, and times three pairs .094."""
    right = {"a": np.arange(400) < 380, "b": np.arange(400) < 374}
    for statistic in (metrics.share_statistic, lambda found: metrics.mean_statistic(100.0 * found)):
        first, second = ({"clean": statistic(found)} for found in right.values())
        assert metrics.chance_of_difference(first["clean"], second["clean"]) == pytest.approx(2 * 0.5**6)
        assert metrics.difference_intervals(first, second)["clean"].excludes(0)
        assert not metrics.difference_intervals(first, second, 1 - 0.05 / 3)["clean"].excludes(0)


def test_an_interval_excludes_zero_exactly_where_its_p_value_is_below_the_level() -> None:
    """Of shares and means, of few and many images, near the border of significance and at three levels."""
    generator = np.random.default_rng(5)
    decided = []
    for samples, gap in [(12, 4), (40, 6), (200, 9), (200, 16), (400, 6), (900, 30)]:
        right = generator.random((2, samples)) < 0.8
        right[0, :gap], right[1, :gap] = True, False
        for statistic in (metrics.share_statistic, lambda found: metrics.mean_statistic(100.0 * found, 100.0)):
            first, second = ({"": statistic(found)} for found in right)
            for level in (0.05, 0.05 / 3, 0.05 / 45):
                found = metrics.difference_intervals(first, second, 1 - level)[""]
                assert found.excludes(0) == (found.p_value < level)
                assert found.p_value >= metrics.chance_of_difference(first[""], second[""])
                decided.append(found.excludes(0))
    assert any(decided) and not all(decided)


def test_swaps_agree_with_the_binomial_test_where_many_are_drawn() -> None:
    right = [np.arange(100) < 60, (np.arange(100) < 44) | (np.arange(100) >= 95)]  # 16 to 5
    exact = float(metrics.mcnemar(*right).p_values[0])
    drawn = metrics.chance_of_difference(*(metrics.mean_statistic(1.0 * found) for found in right))
    assert drawn == pytest.approx(exact, abs=0.01)


FIGURE_6A = [
    [88, 42, 15, 14, 49, 20, 55, 37],
    [80, 88, 79, 67, 48, 18, 53, 38],
    [62, 71, 89, 56, 43, 18, 47, 31],
    [65, 70, 54, 92, 40, 19, 52, 31],
    [23, 25, 11, 1, 91, 25, 41, 40],
    [1, 3, 8, 0, 28, 91, 54, 43],
    [11, 18, 12, 0, 39, 31, 89, 47],
    [13, 15, 9, 1, 39, 37, 60, 93],
]
"""Kang et al. 2019: UAR on ImageNet-100 of defenses trained against Linf, L2, L1, JPEG, Elastic, Fog, Gabor, Snow."""


def test_correlations_of_figure_6b_from_the_cells_of_figure_6a():
    """'Highly correlated' are the Lp attacks, unexpectedly also JPEG and L1, Fog and Gabor."""
    scores, seen = np.array(FIGURE_6A, float), np.eye(8, dtype=bool)
    found = metrics.attack_correlation(scores, seen=seen)
    for one, other in ((0, 1), (0, 2), (1, 2), (3, 2)):
        assert found[one, other] > 0.89
    assert found[5, 6] > max(found[6, [0, 1, 2, 3, 4, 7]])
    kept = [row for row in range(8) if row not in (2, 4)]  # six defenses for each pair
    assert found[2, 4] == pytest.approx(np.corrcoef(scores[kept][:, [2, 4]].T)[0, 1])


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_the_rank_sum_test_is_exact_with_ties(first: list[int], second: list[int]) -> None:
    """Against every way to choose which values are the first model's."""
    ranks = stats.rankdata([*first, *second])
    sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(len(ranks)), len(first))])
    observed = ranks[: len(first)].sum()
    expected = min(1.0, 2 * min(np.mean(sums <= observed), np.mean(sums >= observed)))
    assert metrics.rank_sum_test(first, second).p_value == pytest.approx(expected)


def test_the_rank_sum_test_has_the_p_value_of_scipys_permutations() -> None:
    first, second = [3.0, 3.0, 5.0], [1.0, 3.0, 2.0, 2.0]
    by_scipy = stats.permutation_test((first, second), lambda x, y: stats.mannwhitneyu(x, y).statistic)
    assert metrics.rank_sum_test(first, second).p_value == pytest.approx(by_scipy.pvalue)
    assert metrics.rank_sum_test([1, 1, 1], [2, 2, 2]).p_value == pytest.approx(
        0.1
    )  # the least possible of three and three
