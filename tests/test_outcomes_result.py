from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import outcomes_examples as examples
from robustatlas.common.errors import UserError
from robustatlas.results.result import Result

GRID = np.array([0.1, 0.2, 0.3])


def made_up(sizes: list[float], **options: object) -> Result:
    predictions = [9 if size == 0 else 0 for size in sizes]
    return Result.from_arrays(
        labels=[0] * len(sizes),
        clean_prediction=predictions,
        minimal_size={"linf": sizes},
        strengths={"linf": GRID},
        **options,  # type: ignore[arg-type]
    )


def test_accuracies_by_hand() -> None:
    result = made_up([0.0, 0.05, 0.1, 0.25, np.inf])
    table = result.accuracies()
    assert table.clean == 80.0
    assert dict(table.entries["linf"]) == {0.1: 40.0, 0.2: 40.0, 0.3: 20.0}


def test_a_size_equal_to_a_strength_is_within_it() -> None:
    np.testing.assert_array_equal(made_up([0.1, 0.2, 0.3]).minimal_strength("linf"), GRID)


def test_an_outcome_holds_sizes_as_they_are_recorded() -> None:
    outcome = made_up([0.05, 0.25]).outcome("linf")
    with pytest.raises(UserError, match="by rounding"):
        replace(outcome, minimal_size=np.array([0.05, 0.2 * (1 + 1e-7)]))


def test_parts_of_an_outcome_are_parts_of_each_of_its_arrays() -> None:
    whole = replace(made_up([0.05, 0.15, 0.25]).outcome("linf"), queries=np.arange(9).reshape(3, 3))
    part = whole.select(np.array([2, 0])).restrict([0.1, 0.3])
    np.testing.assert_array_equal(part.queries, [[6, 8], [0, 2]])
    np.testing.assert_array_equal(part.minimal_size, [0.25, 0.05])
    assert part.margins.shape == part.fooled.shape == (2, 2)
    with pytest.raises(UserError, match="queries of 'linf' must have shape"):
        replace(whole, queries=np.arange(6).reshape(2, 3))


def test_a_size_above_a_strength_by_rounding_is_that_strength_everywhere() -> None:
    result = made_up((GRID * (1 + 1e-7)).tolist())
    np.testing.assert_array_equal(result.minimal_size("linf"), GRID)
    np.testing.assert_array_equal(result.minimal_strength("linf"), GRID)
    np.testing.assert_array_equal(result.curve("linf").robust_accuracy(GRID), result.accuracies().values("linf"))
    assert made_up([0.1 * (1 + 1e-4)]).minimal_strength("linf")[0] == 0.2


def test_strengths_judged_on_their_own_say_nothing_of_others() -> None:
    fooled = np.array([[0, 1, 0], [1, 0, 1], [1, 1, 1]], np.int8)
    table = made_up([0.2, 0.1, 0.0], fooled={"linf": fooled}, monotone=False)
    outcome = table.outcome("linf")
    np.testing.assert_array_equal(outcome.broken([0.0, 0.1, 0.2 * (1 + 1e-7), 0.3]).sum(0), [1, 2, 2, 2])
    np.testing.assert_array_equal(table.survivors({"linf": 0.2}), [False, True, False])
    for other in (0.05, 0.15, 9.0):
        with pytest.raises(UserError, match=rf"0\.1, 0\.2, 0\.3; {other:g} "):
            outcome.broken([0.1, other])


def test_half_are_broken_where_half_are_at_one_strength() -> None:
    fooled = np.diag(np.ones(4, np.int8))[:, :3]  # each sample at another strength, the last at none
    table = made_up([0.1, 0.2, 0.3, np.inf], fooled={"linf": fooled}, monotone=False)
    assert table.outcome("linf").median_size == float(table.curve("linf").quantile(0.5)) == np.inf
    table = made_up([0.1, 0.2, 0.3, np.inf], fooled={"linf": np.maximum(fooled, [0, 0, 1])}, monotone=False)
    assert table.outcome("linf").median_size == float(table.curve("linf").quantile(0.5)) == 0.3


def test_strengths_judged_on_their_own() -> None:
    fooled = np.array([[0, 1, 0], [1, 1, 1], [-1, -1, -1]], np.int8)
    outcome = made_up([0.15, 0.05, 0.0], fooled={"linf": fooled}, monotone=False).outcome("linf")
    np.testing.assert_allclose(outcome.accuracies(), [100 / 3, 0, 100 / 3])


def test_strengths_judged_on_their_own_need_every_strength() -> None:
    fooled = np.array([[0, -1, 0]], np.int8)
    with pytest.raises(UserError, match="search 'every'"):
        made_up([0.15], fooled={"linf": fooled}, monotone=False).outcome("linf").accuracies()


def test_unknown_attack_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'l7'; it has linf"):
        made_up([0.1]).outcome("l7")


def test_strengths_must_increase() -> None:
    with pytest.raises(UserError, match="not in increasing order"):
        Result.from_arrays([0], [0], {"linf": [0.1]}, {"linf": [0.2, 0.1]})


def test_adversarial_examples_that_were_not_kept() -> None:
    with pytest.raises(UserError, match="keep_adversarial=True"):
        made_up([0.1]).adversarial("linf")


@given(arrays.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 0.5) | st.just(np.inf)))
def test_robust_accuracy_never_rises_and_agrees_with_the_sizes(sizes: np.ndarray) -> None:
    accuracies = made_up(sizes.tolist()).outcome("linf").accuracies()
    assert (np.diff(accuracies) <= 0).all()
    np.testing.assert_allclose(accuracies, [100 * np.mean(sizes > strength * (1 + 1e-5)) for strength in GRID])


def test_passes_and_seconds() -> None:
    result = examples.fill(examples.begin(None)).table()
    outcome = result.outcome("l2")
    assert result.passes("l2") == (outcome.forward.mean(), outcome.backward.mean())
    assert outcome.seconds == pytest.approx(0.5 * 7)


def test_curve() -> None:
    curve = made_up([0.0, 0.05, 0.25, np.inf]).curve("linf")
    assert curve.at(0.1) == 50.0
    assert curve.attack == "linf"


def test_optimality_counts_own_examples_and_takes_the_samples_by_their_index() -> None:
    known = made_up([0.3, 0.1, 0.4], index=[7, 3, 5])
    ours = made_up([0.3, 0.2], index=[5, 3])
    # The envelope breaks at 0.1 and 0.3: up to 0.3 its mean error is (0.2 / 0.3) / 2, ours (0.1 / 0.3) / 2.
    assert ours.optimality(known) == {"linf": pytest.approx(0.5)}
    assert known.optimality(known) == {"linf": 1.0}
    with pytest.raises(UserError, match="does not hold the samples"):
        known.optimality(ours)
