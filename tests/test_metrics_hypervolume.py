"""Adversarial hypervolume against closed forms, another library and its properties."""

import math

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robustatlas.common.errors import UserError
from robustatlas.metrics import adversarial_hypervolume, hypervolume_at_levels, normalised_cross_entropy

GOLDEN = [[0.8, 0.5, 0.2, -0.1], [0.6, 0.3, 0.4, 0.1], [-0.2, -0.3, -0.4, -0.5]]


def test_golden():
    volume = adversarial_hypervolume(GOLDEN, clean_margin=[0.9, 0.7, -0.1], strengths=[0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(volume.per_sample, [0.375, 0.325, 0], atol=1e-12)
    assert volume.mean == pytest.approx(0.233333, abs=5e-7)
    assert volume.std == pytest.approx(0.166249, abs=5e-7)
    assert volume.corrected == pytest.approx(100 / 3)
    np.testing.assert_allclose(volume.frontier[1], [0.6, 0.3, 0.3, 0.1])
    assert volume.levels == 4


def test_clean_errors_stay_errors_whatever_the_attack_finds():
    volume = adversarial_hypervolume([[0.5, 0.4]], clean_margin=[-0.1])
    assert volume.mean == 0
    assert adversarial_hypervolume([[math.nan, math.nan]], clean_margin=[-0.1]).mean == 0


@pytest.mark.parametrize(("levels", "expected"), [(5, 0.1468849774), (10, 0.1778410620), (20, 0.1976087016)])
def test_linear_logistic_closed_form(levels, expected):
    """Logit margin 2, dual norm 4, epsilon 1: F(z) = max(0, tanh(1 - 2z)), whose integral is ln(cosh 1) / 2."""
    margins = np.tanh(1 - 2 * np.arange(1, levels + 1) / levels)[None]
    volume = adversarial_hypervolume(margins, clean_margin=[math.tanh(1)])
    assert volume.mean == pytest.approx(expected, abs=5e-11)
    integral = math.log(math.cosh(1)) / 2
    assert volume.mean <= integral <= volume.mean + volume.error_bound


def test_unsearched_levels_after_the_first_adversarial_example_count_as_zero():
    stopped = adversarial_hypervolume([[0.5, -0.1, math.nan, math.nan]])
    assert stopped.mean == adversarial_hypervolume([[0.5, -0.1, -0.2, -0.3]]).mean == 0.125
    with pytest.raises(UserError, match="sample 0 at level 2 is NaN"):
        adversarial_hypervolume([[0.5, math.nan, -0.1]])


margins = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.sampled_from([2, 4, 6, 12])),
    elements=st.floats(-1, 1, allow_subnormal=False),
)


@given(margins)
def test_is_the_hypervolume_of_the_boxes(found):
    """The union of the boxes [0, i/L] x [0, F_i], computed by a library for multi-objective optimisation."""
    volume = adversarial_hypervolume(found)
    levels = found.shape[1]
    for frontier, value in zip(volume.frontier, volume.per_sample, strict=True):
        points = np.column_stack([np.arange(1, levels + 1) / levels, frontier])
        assert moocore.hypervolume(points, ref=[0, 0], maximise=True) == pytest.approx(value, abs=1e-12)


@given(margins)
def test_bounds(found):
    volume = adversarial_hypervolume(found)
    robust = (volume.frontier > 0).mean()
    assert 0 <= volume.mean <= robust + 1e-12
    assert (np.diff(volume.frontier, axis=1) <= 0).all()
    assert volume.std == pytest.approx(np.std(volume.per_sample))


@given(margins)
def test_more_levels_never_lower_it(found):
    by_levels = hypervolume_at_levels(found)
    levels = found.shape[1]
    assert by_levels[levels] == pytest.approx(adversarial_hypervolume(found).mean)
    for few in by_levels:
        for many in by_levels:
            if many % few == 0:
                assert by_levels[few] <= by_levels[many] + 1e-12


def test_normalised_cross_entropy():
    np.testing.assert_allclose(normalised_cross_entropy([1, 0.1, 0.01, 0], classes=10), [1, 0, -1, -1], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adversarial_hypervolume([[2.0, 1.0]]), "apply softmax"),
        (lambda: adversarial_hypervolume([[0.5]], clean_margin=[3.0]), "the clean margins reach 3"),
        (lambda: adversarial_hypervolume([0.5, 0.4]), "shape"),
        (lambda: adversarial_hypervolume([[0.5]], clean_margin=[0.5, 0.4]), "each of the 1 samples"),
        (lambda: adversarial_hypervolume([[0.5]], clean_margin=[math.nan]), "not NaN"),
        (lambda: adversarial_hypervolume([[0.5, 0.4]], strengths=[0.1, 0.4]), "the strengths are 0.1, 0.4"),
        (lambda: adversarial_hypervolume([[0.5, 0.4]], strengths=[0.4]), "2 equal steps"),
        (lambda: normalised_cross_entropy([2.0], 10), "Probabilities in"),
        (lambda: normalised_cross_entropy([0.5], 1), "at least 2 classes"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(UserError, match=message):
        call()
