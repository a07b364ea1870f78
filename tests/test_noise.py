"""Random streams belong to samples: not to batches, order or device."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from robustatlas.common.noise import Noise

DRAWS = ["uniform", "symmetric", "normal", "exponential", "sign"]


def noise_of(count: int, seed: int = 0, purpose: str = "test") -> Noise:
    return Noise.for_samples(seed, torch.arange(count), purpose)


@pytest.mark.parametrize("draw", DRAWS)
def test_rows_depend_on_the_sample_alone(draw: str) -> None:
    whole = getattr(noise_of(20), draw)(3, 4)
    order = torch.tensor([17, 2, 5])
    assert torch.equal(getattr(Noise.for_samples(0, order, "test"), draw)(3, 4), whole[order])
    assert torch.equal(getattr(noise_of(20).take(order), draw)(3, 4), whole[order])


def test_a_longer_draw_begins_with_a_shorter_one() -> None:
    assert torch.equal(noise_of(3).uniform(10)[:, :4], noise_of(3).uniform(4))


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        ("uniform", stats.uniform()),
        ("symmetric", stats.uniform(-1, 2)),
        ("normal", stats.norm()),
        ("exponential", stats.expon()),
    ],
)
def test_distributions(draw: str, distribution: stats.rv_continuous) -> None:
    values = getattr(noise_of(40), draw)(500, dtype=torch.float64).numpy()
    assert stats.kstest(values.ravel(), distribution.cdf).pvalue > 1e-3
    # Across samples, too: the first number of each stream.
    first = getattr(noise_of(5000), draw)(1, dtype=torch.float64).numpy()
    assert stats.kstest(first.ravel(), distribution.cdf).pvalue > 1e-3


def test_ranges() -> None:
    noise = noise_of(1000)
    assert noise.uniform(50).min() >= 0 and noise.uniform(50).max() < 1
    assert set(noise.sign(50).unique().tolist()) == {-1.0, 1.0}
    assert noise.normal(50).isfinite().all() and noise.exponential(50).isfinite().all()
    whole = noise.integers(7, 50)
    assert whole.min() == 0 and whole.max() == 6
    assert np.all(np.abs(whole.flatten().bincount().numpy() / whole.numel() - 1 / 7) < 0.005)
    bounds = torch.arange(1, 1001)
    assert bool((noise.integers(bounds) < bounds).all())


def test_streams_differ_between_seeds_purposes_and_children() -> None:
    base = noise_of(4)
    others = [noise_of(4, seed=1), noise_of(4, purpose="other"), base.child(0), base.child(1), base.child(0).child(0)]
    drawn = torch.stack([n.normal(1000, dtype=torch.float64) for n in [base, *others]]).flatten(1)
    correlation = np.corrcoef(drawn.numpy())
    assert np.abs(correlation - np.eye(len(drawn))).max() < 0.08


def test_children_by_number_and_by_tensor_agree() -> None:
    base = noise_of(3)
    assert torch.equal(base.child(torch.tensor([5, 5, 5])).keys, base.child(5).keys)


@given(seed=st.integers(0, 2**31), index=st.integers(0, 2**40))
def test_reproducible(seed: int, index: int) -> None:
    first, second = (Noise.for_samples(seed, torch.tensor([index]), "p").uniform(3) for _ in range(2))
    assert torch.equal(first, second)


def test_numbers_are_those_of_splitmix64() -> None:
    """The first output of SplitMix64 seeded with 1234567 is 6457827717110365317 (its published test vector)."""
    bits = Noise(torch.tensor([1234567]))._bits((2,))
    assert [value % 2**64 for value in bits[0].tolist()] == [6457827717110365317, 3203168211198807973]


@pytest.mark.parametrize("number", [0, 1, -1, -6, 5000, 2**40, -(2**62), 2**63 - 2])
def test_a_child_of_a_number_is_that_of_a_tensor(number: int) -> None:
    noise = Noise.for_samples(3, torch.arange(5), "test")
    assert noise.child(number).keys.equal(noise.child(torch.full((5,), number)).keys)
