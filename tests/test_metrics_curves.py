"""Robustness curves: closed forms of linear models, Theorems 1 and 2, coverage of the bands, optimality."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from robustatlas.common.errors import UserError
from robustatlas.metrics import RobustnessCurve, envelope, local_optimality

sizes = arrays(
    np.float64, st.integers(1, 30), elements=st.one_of(st.sampled_from([0.0, 0.5, math.inf]), st.floats(0, 10))
)

POINTS = np.array([(1, 0), (0, 1), (2, 1), (-1, 0), (0, 0), (1, 2)], dtype=float)
LABELS = np.array([1, -1, 1, -1, 1, 1])
WEIGHT, OFFSET = np.array([3.0, -4.0]), 1.0
DUAL = {"l1": np.inf, "l2": 2, "linf": 1}


def linear_curve(norm: str) -> RobustnessCurve:
    margin = LABELS * (POINTS @ WEIGHT + OFFSET)
    return RobustnessCurve(np.maximum(margin, 0) / np.linalg.norm(WEIGHT, DUAL[norm]))


def test_linear_closed_form():
    l1, linf = linear_curve("l1"), linear_curve("linf")
    np.testing.assert_allclose(l1.at([0, 0.3, 0.5, 0.75, 1]), np.multiply(100, [1 / 6, 1 / 3, 1 / 2, 5 / 6, 1]))
    np.testing.assert_allclose(linf.at([0.3, 0.5, 0.75]), np.multiply(100, [1 / 2, 5 / 6, 1]))
    np.testing.assert_allclose(
        np.sort(linf.minimal_sizes), [0, 0.142857, 0.285714, 0.428571, 0.428571, 0.571429], atol=5e-7
    )


@pytest.mark.parametrize(("norm", "scale"), [("l1", 0.8), ("linf", 1.4)])
def test_theorem_2_norms_only_rescale_the_curve_of_a_linear_model(norm, scale):
    grid = np.linspace(0, 1.2, 2000) + 1e-9
    np.testing.assert_array_equal(linear_curve(norm).at(grid), linear_curve("l2").at(scale * grid))


def theorem_1(first: list[float], second: list[float]) -> tuple[RobustnessCurve, RobustnessCurve]:
    """Curves with the smaller error in turns: the second at `first`, the first at `second` (corrected construction).

    Masses are in units of 1 / (4n + 1): the first jumps by 1 between 0 and t_1, by 2 between t'_i and t_(i+1); the
    second by 2 between t_i and t'_i. What mass is left lies beyond all points.
    """
    n = len(first)
    total = 4 * n + 1
    beyond = second[-1] + 1
    one = [first[0] / 2] + [(second[i] + first[i + 1]) / 2 for i in range(n - 1) for _ in range(2)]
    two = [(first[i] + second[i]) / 2 for i in range(n) for _ in range(2)]
    return (
        RobustnessCurve(one + [beyond] * (total - len(one))),
        RobustnessCurve(two + [beyond] * (total - len(two))),
    )


def test_theorem_1_golden():
    one, two = theorem_1([0.1, 0.3], [0.2, 0.4])
    at = [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_allclose(one.at(at), 100 * np.array([1, 1, 3, 3]) / 9)
    np.testing.assert_allclose(two.at(at), 100 * np.array([0, 2, 2, 4]) / 9)
    found = one.crossings(two)
    assert [(c.better_before, c.better_after) for c in found] == [(1, 0), (0, 1), (1, 0)]
    np.testing.assert_allclose([c.start for c in found], [0.15, 0.25, 0.35])


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=12, unique=True))
def test_theorem_1_curves_cross_between_any_interleaved_points(points):
    points = sorted(points)[: len(points) // 2 * 2]
    first, second = [p / 100 for p in points[::2]], [p / 100 for p in points[1::2]]
    one, two = theorem_1(first, second)
    assert (one.at(first) > two.at(first)).all() and (one.at(second) < two.at(second)).all()
    found = one.crossings(two)
    assert len(found) == 2 * len(first) - 1
    for crossing, (before, after) in zip(found, pairwise(points), strict=True):
        assert before / 100 <= crossing.start <= crossing.end <= after / 100
    backwards = two.crossings(one)
    assert [(c.start, c.better_before) for c in backwards] == [(c.start, 1 - c.better_before) for c in found]


def test_example_1_crosses_in_l2_but_not_in_linf():
    a_linf, b_linf = RobustnessCurve([1, 3]), RobustnessCurve([0.9, 0.95])
    assert a_linf.crossings(b_linf) == []
    (crossing,) = RobustnessCurve([1, 3]).crossings(RobustnessCurve([1.2728, 1.3435]))
    assert (crossing.start, crossing.end) == (1.2728, 1.3435)
    assert (crossing.better_before, crossing.better_after) == (1, 0)


def test_crossing_needs_more_than_chance_to_be_significant():
    def pair(copies):
        return RobustnessCurve([1.0, 3.0] * copies), RobustnessCurve([1.5, 2.0] * copies)

    for copies, significant in ((5, False), (500, True)):
        one, two = pair(copies)
        (crossing,) = one.crossings(two)
        assert crossing.significant is significant
        assert (crossing.gap_before, crossing.gap_after) == (50, 50)


def test_equal_sizes_up_to_rounding_do_not_cross():
    a = RobustnessCurve([0.1 + 0.2, 1.0])
    b = RobustnessCurve([0.3, 1.0 + 1e-12])
    assert a.crossings(b) == []
    assert RobustnessCurve([math.inf]).crossings(RobustnessCurve([math.inf])) == []


@given(sizes)
def test_curve_is_a_right_continuous_distribution_function(minimal):
    curve = RobustnessCurve(minimal)
    grid = np.concatenate([[0.0], curve.jumps, curve.jumps + 1e-3])
    np.testing.assert_allclose(curve.at(grid), [100 * (minimal <= size).mean() for size in grid])
    np.testing.assert_allclose(curve.at(grid) + curve.robust_accuracy(grid), 100)
    assert (np.diff(curve.at(np.sort(grid))) >= 0).all()
    assert curve.at(0.0) == 100 * np.sum(minimal == 0) / len(minimal)
    assert curve.at(np.inf) == 100 * np.sum(np.isfinite(minimal)) / len(minimal)


@given(sizes, st.floats(0, 1))
def test_quantile_is_the_smallest_size_that_reaches_the_share(minimal, share):
    curve = RobustnessCurve(minimal)
    size = float(curve.quantile(share))
    if math.isinf(size):
        assert np.mean(np.isfinite(minimal)) < share + 1e-9
    else:
        assert curve.at(size) >= 100 * share - 1e-7
        assert size == 0 or curve.at(np.nextafter(size, 0)) < 100 * share + 1e-7


@given(sizes, st.floats(0.1, 5))
def test_area_is_the_integral_of_the_steps(minimal, up_to):
    curve = RobustnessCurve(minimal)
    edges = np.unique(np.concatenate([[0.0, up_to], curve.jumps[curve.jumps < up_to]]))
    assert curve.area(up_to) == pytest.approx(np.sum(curve.at(edges[:-1]) * np.diff(edges)) / up_to, abs=1e-7)


@given(sizes, st.sampled_from(["simultaneous", "pointwise"]))
def test_band_contains_the_curve(minimal, kind):
    curve = RobustnessCurve(minimal)
    band = curve.band(0.9, kind)
    grid = np.concatenate([[0.0], curve.jumps, curve.jumps + 0.1])
    low, high = band.at(grid)
    assert (low <= curve.at(grid) + 1e-10).all() and (curve.at(grid) <= high + 1e-10).all()
    assert (low >= 0).all() and (high <= 100).all()


@pytest.mark.parametrize(("kind", "simultaneous"), [("simultaneous", True), ("pointwise", False)])
def test_bands_cover_as_often_as_they_promise(kind, simultaneous):
    """2,000 draws of 60 samples: minimal sizes are |normal|, and a tenth is misclassified clean."""
    generator = np.random.default_rng(0)
    grid = np.linspace(0.0, 3.0, 400)
    truth = 100 * (0.1 + 0.9 * (2 * stats.norm.cdf(grid) - 1))
    covered = []
    for _ in range(2000):
        minimal = np.abs(generator.normal(size=60)) * (generator.uniform(size=60) > 0.1)
        low, high = RobustnessCurve(minimal).band(0.9, kind).at(grid)
        covered.append((low <= truth) & (truth <= high))
    coverage = np.all(covered, axis=1).mean() if simultaneous else np.mean(covered, axis=0).min()
    standard_error = math.sqrt(0.1 * 0.9 / 2000)
    assert coverage >= 0.9 - 4 * standard_error


def test_simultaneous_band_is_the_exact_one_of_kolmogorov_for_many_samples():
    half_width = RobustnessCurve(np.linspace(1, 2, 4000)).band(0.95).high[0]
    assert half_width == pytest.approx(100 * stats.kstwo.ppf(0.95, 4000), rel=0.01)


def test_optimality_of_an_attack():
    strong, weak = RobustnessCurve([0.0, 0.1, 0.2, 0.4]), RobustnessCurve([0.0, 0.2, 0.2, math.inf])
    best = envelope([strong, weak])
    np.testing.assert_array_equal(best.minimal_sizes, strong.minimal_sizes)
    assert local_optimality(strong, best) == pytest.approx(1)
    grid = np.linspace(0, 0.4, 400_001)[:-1]
    none, robust, reached = 75.0, strong.robust_accuracy(grid).mean(), weak.robust_accuracy(grid).mean()
    assert local_optimality(weak, best) == pytest.approx((none - reached) / (none - robust), abs=1e-4)
    never = RobustnessCurve([0.0, math.inf, math.inf, math.inf])
    assert local_optimality(never, best) == pytest.approx(0)
    assert local_optimality(never, never) == 1.0
    at_once = RobustnessCurve([0.0, 0.3, 0.3, np.inf])
    assert local_optimality(at_once, at_once) == 1.0
    assert local_optimality(RobustnessCurve([0.0, 0.3, 0.5, np.inf]), at_once) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RobustnessCurve([math.nan], "linf"), "1 of the minimal strengths or sizes of linf are NaN"),
        (lambda: RobustnessCurve([-0.1]), "expected >= 0"),
        (lambda: RobustnessCurve([]), "one number for each sample"),
        (lambda: RobustnessCurve([1.0]).at(-1), "sizes >= 0"),
        (lambda: RobustnessCurve([1.0]).at(math.nan), "sizes >= 0"),
        (lambda: RobustnessCurve([1.0]).band().at(-1), "sizes >= 0"),
        (lambda: RobustnessCurve([1.0]).band().at(math.nan), "sizes >= 0"),
        (lambda: RobustnessCurve(["a"]), "not all numbers"),
        (lambda: RobustnessCurve([1.0]).crossings(RobustnessCurve([1.0]), tolerance=-1), "tolerance is -1"),
        (lambda: RobustnessCurve([1.0]).quantile(50), "between 0 and 1"),
        (lambda: RobustnessCurve([1.0]).area(math.inf), "positive finite size"),
        (lambda: RobustnessCurve([1.0]).band(95), "The confidence is 95"),
        (lambda: RobustnessCurve([1.0]).band(kind="wide"), "no band 'wide'"),
        (lambda: envelope([]), "none is given"),
        (lambda: envelope([RobustnessCurve([1.0]), RobustnessCurve([1.0, 2.0])]), "1, 2 samples"),
        (lambda: local_optimality(RobustnessCurve([1.0]), RobustnessCurve([1.0, 2.0])), "give the same samples"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(UserError, match=message):
        call()
