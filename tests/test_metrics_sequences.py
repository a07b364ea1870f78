"""Intervals that hold at every look, against their sources' other forms and by simulation."""

import numpy as np
import pytest
from scipy.stats import betabinom, binom

import robustatlas as ra
from robustatlas.metrics import ConfidenceSequence, mean_sequence, share_sequence

SHARES = [0.0, 0.05, 0.5, 0.9, 0.97]


def misses(known: ConfidenceSequence, truth: float) -> bool:
    """Whether any of the looks leaves the truth out."""
    return bool(((known.low > 100 * truth + 1e-9) | (known.high < 100 * truth - 1e-9)).any())


def drawn(share: float, population: int, generator: np.random.Generator) -> np.ndarray:
    hits = np.arange(population) < round(share * population)
    return generator.permutation(hits)


@pytest.mark.parametrize("population", [20, 200])
def test_shares_are_covered_at_all_looks_together(population: int) -> None:
    """Exactly, of every share: the probability that a random order comes to a look that leaves it out."""
    low = np.zeros((population + 1, population + 1))  # after t draws with s hits
    high = np.full((population + 1, population + 1), 100.0)
    t, shares = np.arange(1, population + 1), np.arange(population + 1)
    for first in range(population):
        late = t > first  # after so many misses hits alone are drawn, or the other way round
        low[t[late], t[late] - first] = share_sequence(late, population).low[late]
        high[t[late], first] = share_sequence(~late, population).high[late]
    ways = np.zeros((population + 1, population + 1))  # to s hits, of each share, where no look has left it out
    ways[:, 0] = 1
    for draw in t:
        hit = np.clip((shares[:, None] - shares) / (population - draw + 1), 0, 1)
        ways, hits = ways * (1 - hit), ways * hit
        ways[:, 1:] += hits[:, :-1]
        truth = 100 / population * shares[:, None]
        ways *= (low[draw] <= truth + 1e-9) & (truth - 1e-9 <= high[draw])
    missed = 1 - ways.sum(1)
    assert 0.01 < missed.max() <= 0.05


@pytest.mark.parametrize("share", SHARES)
def test_means_are_covered_at_all_looks_together(share: float) -> None:
    runs, population = 100, 120
    generator = np.random.default_rng(round(1000 * share))
    missed = 0
    for _ in range(runs):
        values = (drawn(share, population, generator) + drawn(share / 2, population, generator).astype(float)) / 2
        missed += misses(mean_sequence(values, population, steps=2), values.mean())
    assert missed <= binom.ppf(0.999, runs, 0.05)


def test_a_share_is_what_the_ratio_of_prior_and_posterior_leaves() -> None:
    """The same sets by their other form: BetaBin(n; N, 1, 1) / BetaBin(n - s; N - t, 1 + s, 1 + t - s) < 1 / alpha."""
    population = 200
    hits = drawn(0.3, population, np.random.default_rng(3))
    low, high, n = [], [], np.arange(population + 1)
    for t in range(1, population + 1):
        s = int(hits[:t].sum())
        reachable = (n >= s) & (n <= population - t + s)
        posterior = np.where(reachable, betabinom.pmf(n - s, population - t, 1 + s, 1 + t - s), 0)
        left = n[betabinom.pmf(n, population, 1, 1) < 20 * posterior * (1 + 1e-9)]
        low.append(left[0])
        high.append(left[-1])
    known = share_sequence(hits, population)
    np.testing.assert_allclose(known.low, np.maximum.accumulate(low) / 2)
    np.testing.assert_allclose(known.high, np.minimum.accumulate(high) / 2)


def test_everything_is_known_at_the_end_and_nothing_is_forgotten() -> None:
    hits = drawn(0.4, 300, np.random.default_rng(0))
    for known in (share_sequence(hits, 300), mean_sequence(hits.astype(float), 300)):
        assert known.low[-1] == pytest.approx(40) and known.high[-1] == pytest.approx(40)
        assert (np.diff(known.half_width) <= 1e-9).all()
        assert (known.low <= known.high + 1e-9).all()


def test_samples_until_a_width() -> None:
    """Of 10,000: what the definition needs at one half without the help of earlier looks is 4,782 for +-2."""
    hits = drawn(0.5, 10_000, np.random.default_rng(1))
    known = share_sequence(hits, 10_000)
    needed = int(np.argmax(known.half_width <= 2)) + 1
    assert 3000 < needed <= 4900


@pytest.mark.parametrize(
    ("hits", "population", "said"),
    [([], 5, "between 1 and 5"), ([True] * 6, 5, "between 1 and 5"), ([0.5], 5, "booleans")],
)
def test_what_is_no_draw_gets_a_sentence(hits: list[bool], population: int, said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        share_sequence(hits, population)


def test_values_outside_of_the_unit_interval_get_a_sentence() -> None:
    with pytest.raises(ra.UserError, match=r"values in \[0, 1\]"):
        mean_sequence([1.5], 5)
    with pytest.raises(ra.UserError, match="confidence"):
        mean_sequence([0.5], 5, confidence=1)
