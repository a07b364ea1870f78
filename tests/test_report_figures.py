"""Figures for notebooks and papers."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.common.styles import model_styles
from robustatlas.metrics import AccuracyTable, RobustnessCurve
from robustatlas.metrics.figures import (
    SEQUENCE,
    plot_accuracy_matrix,
    plot_convergence,
    plot_curves,
    plot_frontier,
    plot_frontiers,
    plot_over_epochs,
    plot_panels,
    plot_scores,
    plot_two_sided,
    save_figure,
)
from robustatlas.metrics.two_sided import TwoSided
from robustatlas.report.training import plot_training

UNIT = "largest change of a pixel value"
A = RobustnessCurve(np.array([0.0, 0.01, 0.02, 0.03, np.inf]), attack="linf", unit=UNIT)
B = RobustnessCurve(np.array([0.0, 0.0, 0.025, 0.05, 0.06]), attack="linf", unit=UNIT)
TABLE = AccuracyTable(90.0, {"linf": {0.01: 70.0, 0.02: 40.0}, "l2": {0.5: 60.0, 1.0: 20.0, 2.0: 5.0}})


@pytest.fixture(autouse=True)
def headless() -> Iterator[None]:
    with plt.rc_context({"backend": "agg"}):
        yield
    plt.close("all")


def test_the_line_is_the_curve() -> None:
    axes = plot_curves({"a": A})
    sizes, accuracies = axes.lines[0].get_data()
    assert accuracies == pytest.approx(A.robust_accuracy(sizes))
    assert axes.lines[0].get_drawstyle() == "steps-post"
    assert axes.get_xlabel() == rf"$\ell_\infty$, {UNIT}"
    assert axes.get_ylabel() == "robust accuracy (%)"
    assert axes.figure.get_size_inches()[0] == pytest.approx(3.3)


def test_the_band_is_the_curves_band() -> None:
    axes = plot_curves([A], confidence=0.9, error=True)
    assert axes.get_ylabel() == "robust error (%)"
    assert axes.lines[0].get_ydata() == pytest.approx(A.at(axes.lines[0].get_xdata()))
    low, high = A.band(0.9, "pointwise").at(0.015)
    vertices = axes.collections[0].get_paths()[0].vertices
    at_size = vertices[np.isclose(vertices[:, 0], 0.01), 1]
    assert low in at_size.round(9) or np.isclose(at_size, low).any()
    assert np.isclose(at_size, high).any()
    fallen = plot_curves([A], confidence=0.9).collections[0].get_paths()[0].vertices
    at_size = fallen[np.isclose(fallen[:, 0], 0.01), 1]
    assert np.isclose(at_size, 100 - low).any() and np.isclose(at_size, 100 - high).any()
    assert not plot_curves([A], confidence=None).collections


def test_legends_stay_off_the_data() -> None:
    axes = plot_curves({"first": A, "second": B})
    axes.figure.canvas.draw()
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1 - 1


def test_lines_differ_without_colour() -> None:
    axes = plot_curves({str(i): A for i in range(4)})
    assert len({line.get_linestyle() + str(line._dash_pattern) for line in axes.lines}) == 4
    assert len({line.get_marker() for line in axes.lines}) == 4
    shown = axes.get_legend().get_lines()
    assert [line.get_marker() for line in shown] == [line.get_marker() for line in axes.lines]


def test_a_model_looks_the_same_in_every_figure() -> None:
    mine, other = RobustnessCurve(A.minimal_sizes, "linf", model="0123"), RobustnessCurve(B.minimal_sizes, model="4567")
    alone = plot_curves(mine).lines[0]
    together = plot_curves({"other": other, "renamed": mine}).lines[1]
    (style,) = model_styles(["0123"])
    for line in (alone, together, plot_two_sided(TwoSided(mine, mine, 0.05)).lines[0]):
        assert (line.get_color(), line.get_marker()) == (style.colour, style.marker)
    same_model = [mine, RobustnessCurve(A.minimal_sizes, "l2", model="0123")]  # told apart by the attack
    attacks = plot_curves(same_model).lines
    assert attacks[0].get_color() != attacks[1].get_color()


def test_the_map_gets_darker_all_the_way() -> None:
    lightness = [np.dot(to_rgb(SEQUENCE(value)), [0.2126, 0.7152, 0.0722]) for value in np.linspace(0, 1, 50)]
    assert (np.diff(lightness) < 0).all()


def test_given_axes_are_used_and_settings_left_alone() -> None:
    before = dict(mpl.rcParams)
    _, axes = plt.subplots()
    assert A.plot(ax=axes) is axes
    assert plot_accuracy_matrix(TABLE, ax=plt.subplots()[1]) is not axes
    assert dict(mpl.rcParams) == before


def test_equal_attacks_without_names_are_told_apart() -> None:
    axes = plot_curves([A, B])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["L∞ (1)", "L∞ (2)"]
    other = RobustnessCurve(np.array([0.1]), attack="l2")
    assert plot_curves([A, other]).get_xlabel() == "perturbation size (in each attack's unit)"
    assert plot_curves(RobustnessCurve(np.array([0.1]), unit="cm")).get_xlabel() == "cm"


def test_significant_crossings_are_marked() -> None:
    generator = np.random.default_rng(0)
    steady = RobustnessCurve(generator.uniform(0, 1, 2000), attack="linf")
    steep = RobustnessCurve(generator.uniform(0.4, 0.6, 2000), attack="linf")
    axes = plot_curves({"steady": steady, "steep": steep})
    (crossing,) = steady.crossings(steep)
    assert [float(line.get_xdata()[0]) for line in axes.lines[2:]] == [pytest.approx(crossing.start)]
    assert axes.lines[2].get_ydata()[0] == pytest.approx(float(steady.robust_accuracy(crossing.start)))
    assert len(plot_curves({"steady": steady, "steep": steep}, crossings=False).lines) == 2


def test_matrix_shows_the_accuracies() -> None:
    axes = plot_accuracy_matrix(TABLE)
    shown = [mesh.get_array().ravel().tolist() for mesh in axes.collections]
    assert shown == [[70.0, 40.0], [60.0, 20.0, 5.0]]
    assert [text.get_text() for text in axes.texts] == ["0.02", "2"]


def test_matrix_relative_to_a_reference_leaves_holes() -> None:
    reference = AccuracyTable(95.0, {"linf": {0.02: 80.0}})
    axes = plot_accuracy_matrix(TABLE, relative_to=reference, attacks=["linf"])
    values = axes.collections[0].get_array()
    assert np.ma.getmaskarray(values).ravel().tolist() == [True, False]
    assert values.ravel()[1] == 50.0


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_figures_can_be_saved(tmp_path: Path, ending: str) -> None:
    for number, axes in enumerate((plot_curves([A, B]), plot_accuracy_matrix(TABLE))):
        file = tmp_path / f"{number}.{ending}"
        axes.figure.savefig(file)
        assert file.stat().st_size > 1000


def test_a_panel_for_each_attack_under_one_legend(tmp_path: Path) -> None:
    other = RobustnessCurve(A.minimal_sizes, attack="l2", unit="length")
    figure = plot_panels({"linf": {"a": A, "b": B}, "l2": {"a": other}}, up_to={"linf": 0.04})
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("L∞", "L2")
    assert first.get_xlim() == (0, 0.04) and first.get_legend() is None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert (first.get_ylabel(), second.get_ylabel()) == ("robust accuracy (%)", "")
    save_figure(figure, tmp_path / "curves.pdf")
    written = (tmp_path / "curves.pdf").read_bytes()
    assert b"/Type3" not in written and b"/FontFile2" in written  # TrueType
    with pytest.raises(UserError, match=r"ends in \.png, \.pdf or \.svg"):
        save_figure(figure, tmp_path / "curves.gif")
    with pytest.raises(UserError, match="no curve"):
        plot_panels({})


def test_numbers_over_epochs_begin_at_zero_and_keep_their_bands() -> None:
    line = np.array([[1, 90.0, 80.0, 100.0], [2, 99.0, 80.0, 118.0]])
    low, high = plot_over_epochs({"CR": line}, label="CR (%)", percent=False).get_ylim()
    assert low == 0 and high >= 118
    assert plot_over_epochs({"SC": 0 * line}, percent=False).get_ylim()[0] == 0


def test_the_command_draws_what_runs_share(tmp_path: Path) -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    runs = [str(tmp_path / name) for name in "ab"]
    for run, attacks in zip(runs, (["brightness", "contrast"], ["brightness"]), strict=True):
        ra.evaluate(model, data, attacks, samples=10, run=run, progress=False)
    assert "curves.svg" in entered("figure", *runs, "-o", tmp_path / "curves.svg").out
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").startswith("<?xml")
    said = entered("figure", *runs, "--attacks", "contrast", code=1).line
    assert "contrast" in said and "brightness" in said


def test_both_sides_of_a_curve_and_the_doubt_between_them() -> None:
    certified = RobustnessCurve([0.0, 0.004, 0.004, 0.01, 0.02], attack="linf", unit=UNIT)
    found = RobustnessCurve([0.0, 0.006, 0.02, np.inf, np.inf], attack="linf", unit=UNIT)
    axes = TwoSided(certified, found, 0.03).plot(at=2 / 255)
    assert axes.get_legend().get_title().get_text() == "at least 40.0 %, at most 60.0 % robust at 2/255"
    most, least = axes.lines[:2]
    assert most.get_ydata() == pytest.approx(found.robust_accuracy(most.get_xdata()))
    assert least.get_ydata() == pytest.approx(certified.robust_accuracy(least.get_xdata()))
    doubt = axes.collections[0].get_paths()[0].vertices
    assert {40.0, 60.0} <= set(doubt[np.isclose(doubt[:, 0], 0.006), 1].round(9))
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["at most (attacked)", "at least (certified)", "in doubt"]
    for wrong in ({"at": 0.0}, {"at": 0.04}, {"up_to": np.inf}):
        with pytest.raises(UserError, match=r"at is 0\.0|at is 0\.04, beyond the axis|up_to is inf"):
            plot_two_sided(TwoSided(certified, found, 0.03), **wrong)


HISTORY = [
    {"epoch": epoch, "loss": 2.0 / epoch, "training_accuracy": 9.0 * epoch, "clean": 8.0 * epoch, "robust": 5.0 * epoch}
    for epoch in range(1, 11)
]


def all_figures() -> dict[str, list[Axes]]:
    """Every figure, with long numbers and many lines."""
    many = {
        f"a model with a name, number {number}": RobustnessCurve(A.minimal_sizes, "linf", model=str(number))
        for number in range(6)
    }
    points = np.array([[epoch, 50.0, 40.0, 60.0] for epoch in range(1, 31)])
    small = RobustnessCurve(0.000123 * np.arange(1, 9), attack="linf", unit=UNIT)
    return {
        "curves": [plot_curves(many)],
        "small sizes": [plot_curves(small)],
        "two sides": [plot_two_sided(TwoSided(A, A, 8 / 255))],
        "matrix": [plot_accuracy_matrix(TABLE)],
        "scores": [plot_scores({f"model {row}": dict.fromkeys(("linf", "jpeg-linf", "fog"), 50.0) for row in "abc"})],
        "epochs": [plot_over_epochs({"clean": points, "L∞": points})],
        "frontier": [plot_frontier([0.8, 0.5, 0.0], clean=0.9, largest=8 / 255)],
        "frontiers": [plot_frontiers({name: [0.9, 0.8, 0.5, 0.0] for name in many}, largest=8 / 255)],
        "convergence": [plot_convergence({1: 0.25, 2: 0.375, 128: 0.4375})],
        "training": list(plot_training(HISTORY).axes),
    }


@pytest.mark.filterwarnings("error:constrained_layout not applied")
def test_every_axis_says_what_it_is_and_no_ticks_collide() -> None:
    for name, panels in all_figures().items():
        panels[0].figure.canvas.draw()
        for axes in panels:
            assert axes.get_window_extent().width > 0.5 * axes.figure.bbox.width, name
            assert axes.get_ylabel() or name in ("matrix", "scores"), name
            assert axes.get_xlabel() or axes is not panels[-1], name
            for axis, ends in ((axes.xaxis, ("x0", "x1")), (axes.yaxis, ("y0", "y1"))):
                labels = [label for label in axis.get_ticklabels() if label.get_text() and not label.get_rotation()]
                inside = [box for box in (label.get_window_extent() for label in labels) if _within(box, axes)]
                boxes = sorted(inside, key=lambda box, first=ends[0]: getattr(box, first))
                assert all(getattr(one, ends[1]) <= getattr(two, ends[0]) for one, two in pairwise(boxes)), name


def _within(box: Any, axes: Axes) -> bool:
    """Whether the middle of a label stands beside the axes: matplotlib keeps those of ticks that are not drawn."""
    frame = axes.get_window_extent()
    beside = frame.x0 - 1 <= (box.x0 + box.x1) / 2 <= frame.x1 + 1
    return bool(beside or frame.y0 - 1 <= (box.y0 + box.y1) / 2 <= frame.y1 + 1)


def test_edges() -> None:
    nothing_found = RobustnessCurve(np.array([np.inf, np.inf]), attack="linf")
    assert plot_curves(nothing_found).get_xlim()[1] > 0
    with pytest.raises(UserError, match="no curve to draw"):
        plot_curves([])
    with pytest.raises(UserError, match="up_to is -1"):
        plot_curves(A, up_to=-1)
    with pytest.raises(UserError, match="no attacks"):
        plot_accuracy_matrix(AccuracyTable(90.0, {}))
