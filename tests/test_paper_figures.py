"""Figures of the papers, and the change of slope that one of them shows."""

import numpy as np
import pytest

from robustatlas.common.errors import UserError
from robustatlas.metrics import (
    RobustnessCurve,
    adversarial_hypervolume,
    change_of_slope,
    convergence_rate,
    hypervolume_at_levels,
)
from robustatlas.metrics.figures import (
    plot_convergence,
    plot_curves,
    plot_frontier,
    plot_frontiers,
    plot_panels,
    plot_scores,
    plot_trained_strengths,
)


def test_the_change_of_slope_is_found_where_it_is() -> None:
    """A fifth of the samples break evenly up to .3, the rest evenly from there to .5."""
    generator = np.random.default_rng(0)
    sizes = np.concatenate([generator.uniform(0, 0.3, 200), generator.uniform(0.3, 0.5, 800)])
    found = change_of_slope(RobustnessCurve(sizes), up_to=0.5)
    assert found.low <= 0.3 <= found.high
    assert found.high - found.low < 0.05
    assert found.significant
    assert found.before == pytest.approx(20 / 0.3, rel=0.2)
    assert found.after == pytest.approx(80 / 0.2, rel=0.1)


def test_a_straight_curve_has_no_change_of_slope() -> None:
    sizes = np.random.default_rng(1).uniform(0, 1, 200)
    assert not change_of_slope(RobustnessCurve(sizes), up_to=1.0).significant
    with pytest.raises(UserError, match=r"does not rise up to 0\.5"):
        change_of_slope(RobustnessCurve([1.0, 2.0]), up_to=0.5)
    with pytest.raises(UserError, match="positive finite size"):
        change_of_slope(RobustnessCurve([1.0, 2.0]), up_to=0.0)


def test_the_hypervolume_converges_to_its_integral() -> None:
    """Of margins that fall linearly from 1 the right sums are 1/2 - 1/(2 N), so that the error is 1/(2 N)."""
    margins = [[1 - (k + 1) / 12 for k in range(12)]]
    by_levels = hypervolume_at_levels(margins, [1.0])
    rate = convergence_rate({**by_levels, 10**9: 0.5})
    assert (rate.factor, rate.slope) == pytest.approx((0.5, -1.0))
    axes = plot_convergence(by_levels)
    assert list(axes.lines[0].get_xdata()) == [1, 2, 3, 4, 6]
    assert list(axes.lines[0].get_ydata()) == pytest.approx([1 / (2 * n) - 1 / 24 for n in (1, 2, 3, 4, 6)])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    with pytest.raises(UserError, match="two numbers of levels"):
        convergence_rate({1: 0.5})


def test_the_area_under_a_frontier_is_the_hypervolume() -> None:
    volume = adversarial_hypervolume([[0.8, 0.4, 0.0, -0.3]], [0.9])
    axes = plot_frontier(volume.frontier[0], volume.clean[0], 0.1, unit="largest change of a pixel value")
    area = sum(bar.get_width() * bar.get_height() for bar in axes.patches) / 0.1
    assert area == pytest.approx(volume.mean)
    assert axes.lines[0].get_ydata().tolist() == [0.9, 0.8, 0.4, 0.0, 0.0]
    with pytest.raises(UserError, match="row of numbers"):
        plot_frontier([[0.5]], 0.9, 0.1)


def test_frontiers_of_several_models_stand_in_one_figure_with_their_hypervolumes() -> None:
    volume = adversarial_hypervolume([[0.8, 0.4, 0.0, -0.3]], [0.9])
    axes = plot_frontiers({"a": [volume.clean[0], *volume.frontier[0]], "b": [0.5, 0.5, 0.5, 0.5, 0.5]}, 0.1)
    assert [line.get_label() for line in axes.lines] == ["a, 0.300", "b, 0.500"]
    assert axes.lines[0].get_xdata().tolist() == pytest.approx([0, 0.025, 0.05, 0.075, 0.1])
    for wrong in ({}, {"a": [0.9]}, {"a": [[0.9, 0.8]]}):
        with pytest.raises(UserError, match="at least one model"):
            plot_frontiers(wrong, 0.1)


def test_heat_maps_leave_what_is_missing_empty() -> None:
    axes = plot_scores({"a": {"linf": 90.0}, "b": {"linf": 20.0, "l2": 60.0}})
    assert [(text.get_text(), text.get_position()) for text in axes.texts] == [
        ("90", (0, 0)),
        ("20", (0, 1)),
        ("60", (1, 1)),
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["L∞", "L2"]
    with pytest.raises(UserError, match="no scores"):
        plot_scores({"a": {}})


def test_matrices_over_trained_strengths_have_a_column_for_each_attacked_one() -> None:
    axes = plot_trained_strengths({"trained at 0.1": {0.1: 80.0}, "trained at 0.2": {0.2: 60.0, 0.1: 75.0}}, "linf")
    assert [(text.get_text(), text.get_position()) for text in axes.texts] == [
        ("80", (0, 0)),
        ("75", (0, 1)),
        ("60", (1, 1)),
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.2"]
    with pytest.raises(UserError, match="no accuracies"):
        plot_trained_strengths({"a": {}}, "linf")


def test_thresholds_are_marked_where_the_axis_has_them() -> None:
    axes = plot_curves(RobustnessCurve([0.1, 0.3]), up_to=0.4, confidence=None, thresholds=(0.2, 0.5))
    assert [line.get_xdata() for line in axes.lines if line.get_linestyle() == "--"] == [[0.2, 0.2]]


@pytest.mark.parametrize(("attack", "written", "at"), [("linf", "8/255", 8 / 255), ("l2", "0.5", 0.5)])
def test_the_strength_of_papers_is_marked_where_the_axis_has_it(attack: str, written: str, at: float) -> None:
    curve = RobustnessCurve([0.01 * at, at, 2 * at], attack=attack)
    axes = plot_curves(curve, up_to=3 * at)
    (mark,) = axes.texts
    assert mark.get_text() == written and mark.xy[0] == at
    assert axes.collections[-1].get_segments()[0].tolist() == [[at, 0.0], [at, 1.0]]
    assert not plot_curves(curve, up_to=at / 2).texts
    panels = plot_panels({attack: {"a": curve}, "fog": {"a": RobustnessCurve([1.0], attack="fog")}})
    assert [len(one.texts) for one in panels.axes] == [1, 0]
