"""What an audit of some samples says of all: exact tails, coverage by simulation."""

import numpy as np
import pytest
from scipy.stats import hypergeom

import robustatlas as ra
from robustatlas.metrics import audited


def audit_of(fall: np.ndarray, robust: np.ndarray, at: np.ndarray) -> ra.metrics.Audited:
    return audited(robust, at, (robust & ~fall)[at], np.arange(1, robust.shape[1] + 1) / 10)


@pytest.mark.parametrize(("n", "share"), [(50, 7.11), (16, 20.59)])
def test_where_nothing_fell_some_may_still(n: int, share: float) -> None:
    robust = np.ones((100_000, 1), np.bool_)
    audit = audit_of(np.zeros_like(robust), robust, np.arange(n))
    assert audit.estimate == 100 and audit.high == 100
    assert 100 - audit.low[0] == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("left", "tried", "fallen"), [(40, 12, 3), (40, 12, 12), (25, 24, 1), (60, 30, 29)])
def test_bounds_are_the_inverted_tails(left: int, tried: int, fallen: int) -> None:
    """The bound is the last number K of all that fall for which so few (or so many) of those tried are not rare."""
    robust = np.arange(100)[:, None] < left
    still = np.arange(tried)[:, None] >= fallen
    audit = audited(robust, np.arange(tried), still, [0.1])
    numbers = np.arange(left + 1)
    few, many = hypergeom.cdf(fallen, left, numbers, tried), hypergeom.sf(fallen - 1, left, numbers, tried)
    assert left - audit.low[0] == pytest.approx(numbers[few > 0.025].max())
    assert left - audit.high[0] == pytest.approx(numbers[many > 0.025].min())


@pytest.mark.parametrize("falls", [0.0, 0.01, 0.2, 0.9])
def test_intervals_cover_also_where_few_fall(falls: float) -> None:
    generator = np.random.default_rng(round(100 * falls))
    runs, missed, missed_mean = 1000, 0, 0
    grid = np.linspace(0.9, 0.2, 5)
    for _ in range(runs):
        order = generator.random(300)
        robust = order[:, None] < grid
        fall = robust & (generator.random(300) < falls)[:, None]
        audit = audit_of(fall, robust, generator.permutation(300)[:50])
        truth = 100 * (robust & ~fall).mean(0)
        missed += int(not audit.low[2] - 1e-9 <= truth[2] <= audit.high[2] + 1e-9)
        missed_mean += int(not audit.mean[1] - 1e-9 <= truth.mean() <= audit.mean[2] + 1e-9)
    assert missed <= 0.05 * runs + 3 * (0.05 * 0.95 * runs) ** 0.5
    assert missed_mean <= 0.05 * runs + 3 * (0.05 * 0.95 * runs) ** 0.5


def test_an_audit_of_all_leaves_no_doubt() -> None:
    robust = np.arange(30)[:, None] < np.array([20, 10])
    fall = robust & (np.arange(30) % 3 == 0)[:, None]
    audit = audit_of(fall, robust, np.arange(30))
    np.testing.assert_allclose(audit.low, audit.high)
    np.testing.assert_allclose(audit.estimate, 100 * (robust & ~fall).mean(0))


def test_no_robust_sample_audited_leaves_all_open() -> None:
    audit = audit_of(np.zeros((10, 1), np.bool_), np.arange(10)[:, None] < 4, np.array([8, 9]))
    assert (audit.estimate[0], audit.low[0], audit.high[0]) == (40, 0, 40)


def test_what_does_not_fit_gets_a_sentence() -> None:
    robust = np.ones((4, 2), np.bool_)
    with pytest.raises(ra.UserError, match="n positions and S strengths"):
        audited(robust, [0], robust[:2], [0.1, 0.2])
    with pytest.raises(ra.UserError, match="robust that was broken"):
        audited(~robust, [0], robust[:1], [0.1, 0.2])
