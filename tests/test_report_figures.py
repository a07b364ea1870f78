"""Figures for notebooks and papers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

from robustatlas.errors import UserError
from robustatlas.figures import COLOURS, DASHES, SEQUENCE, plot_accuracy_matrix, plot_curves
from robustatlas.metrics import AccuracyTable, RobustnessCurve

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
    sizes, errors = axes.lines[0].get_data()
    assert errors == pytest.approx(A.at(sizes))
    assert axes.lines[0].get_drawstyle() == "steps-post"
    assert axes.get_xlabel() == UNIT
    assert axes.get_ylabel() == "robust error (%)"
    assert axes.figure.get_size_inches()[0] == pytest.approx(3.3)


def test_the_band_is_the_curves_band() -> None:
    axes = plot_curves([A], confidence=0.9)
    low, high = A.band(0.9).at(0.015)
    vertices = axes.collections[0].get_paths()[0].vertices
    at_size = vertices[np.isclose(vertices[:, 0], 0.01), 1]
    assert low in at_size.round(9) or np.isclose(at_size, low).any()
    assert np.isclose(at_size, high).any()
    assert not plot_curves([A], confidence=None).collections


def test_legends_stay_off_the_data() -> None:
    axes = plot_curves({"first": A, "second": B})
    axes.figure.canvas.draw()
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1 - 1


def test_lines_differ_without_colour() -> None:
    assert len({str(dash) for dash in DASHES}) == len(DASHES) == len(COLOURS)
    axes = plot_curves({str(i): A for i in range(4)})
    assert len({line.get_linestyle() + str(line._dash_pattern) for line in axes.lines}) == 4


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


def test_edges() -> None:
    nothing_found = RobustnessCurve(np.array([np.inf, np.inf]), attack="linf")
    assert plot_curves(nothing_found).get_xlim()[1] > 0
    with pytest.raises(UserError, match="no curve to draw"):
        plot_curves([])
    with pytest.raises(UserError, match="up_to is -1"):
        plot_curves(A, up_to=-1)
    with pytest.raises(UserError, match="no attacks"):
        plot_accuracy_matrix(AccuracyTable(90.0, {}))
