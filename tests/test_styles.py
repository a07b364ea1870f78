"""Colour, dash and marker of a model: its own wherever it is drawn, and another than its neighbours'."""

import json
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from robustatlas.common.styles import COLOURS, DASHES, MARKERS, model_styles
from robustatlas.metrics.references import load_reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report
from robustatlas.results.result import Result

SEEN_BY = {
    "normal": np.eye(3),
    "protanopes": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopes": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopes": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""Matrices of linear RGB at full severity (Machado, Oliveira and Fernandes 2009)."""

GROUNDS = ("#fbfaf7", "#1b1f23")


def linear(colour: str) -> NDArray[np.float64]:
    """Linear RGB of a colour (sRGB, IEC 61966-2-1)."""
    channels = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIELAB of linear RGB, white D65."""
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = np.array(to_xyz) @ rgb.clip(0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("ground", [0, 1])
@pytest.mark.parametrize("eyes", SEEN_BY)
def test_colours_differ_for_all_eyes(ground: int, eyes: str) -> None:
    seen = [lab(np.array(SEEN_BY[eyes]) @ linear(colour[ground])) for colour in COLOURS]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) >= 26


@pytest.mark.parametrize("ground", [0, 1])
def test_colours_stand_out_from_the_ground(ground: int) -> None:
    behind = 0.05 + float(linear(GROUNDS[ground]) @ [0.2126, 0.7152, 0.0722])
    for colour in COLOURS:
        light = 0.05 + float(linear(colour[ground]) @ [0.2126, 0.7152, 0.0722])
        assert max(light, behind) / min(light, behind) >= 3, colour


def test_every_dash_has_its_marker() -> None:
    assert len(set(DASHES)) == len({marker for marker, _ in MARKERS}) == len(DASHES) == len(MARKERS)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6, unique=True))
def test_a_few_models_differ_in_colour_and_in_dash(models: list[str]) -> None:
    found = model_styles(models)
    assert len({style.colour for style in found}) == len({style.dash for style in found}) == len(models)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=36, unique=True), st.randoms())
def test_the_order_changes_nothing(models: list[str], generator: object) -> None:
    shuffled = sorted(models, key=lambda _: generator.random())  # type: ignore[attr-defined]
    assert dict(zip(models, model_styles(models), strict=True)) == dict(
        zip(shuffled, model_styles(shuffled), strict=True)
    )
    assert len(set(model_styles(models))) == len(models)


def test_a_model_keeps_its_style_in_company() -> None:
    models = [str(number) for number in range(200)]
    alone = {model: model_styles([model])[0] for model in models}
    kept = [model_styles([one, other])[0] == alone[one] for one, other in pairwise(models)]
    assert len({(style.colour, style.dash) for style in alone.values()}) == 36
    assert np.mean(kept) > 0.8  # one in six pairs shares a colour, and then one of the two keeps it


def test_equal_models_are_told_apart() -> None:
    first, second = model_styles(["mine", "mine"])
    assert first == model_styles(["mine"])[0] and second.dash != first.dash


def test_no_two_of_many_models_share_colour_dash_and_marker() -> None:
    assert len(set(model_styles([str(number) for number in range(216)]))) == 216


def test_runs_look_on_a_board_as_on_their_page(tmp_path: Path) -> None:
    """Whatever published defenses stand beside them, and whichever weights stand behind their names."""
    reference = load_reference("multirobustbench-cifar10")
    names, strengths = ["mine", "another", "third"], {"linf": reference.accuracies.strengths("linf")}
    runs = [
        Result.from_arrays([0, 1], [0, 1], {"linf": [0.01, 0.2]}, strengths, model=name, data="cifar10")
        for name in names
    ]
    page = json.loads(
        build_report(runs, tmp_path / "r.html").read_text().split('id="report-data">')[1].split("</script>")[0]
    )
    site = build_leaderboard(runs, tmp_path / "site", reference).read_text()
    board = json.loads(site.split('id="board-data">')[1].split("</script>")[0])
    shown = {row["name"]: board["looks"][row["look"]] for row in board["defenses"]}
    assert [shown[name] for name in names] == page["styles"]
    assert len({json.dumps(look) for look in shown.values()}) == len(board["defenses"])
    for run, style in zip(runs, model_styles(names), strict=True):
        assert run.curve("linf").model == run.name and style.drawing()["colour"] == shown[run.name]["colour"]


def test_dashes_are_written_for_each_page() -> None:
    style = replace(model_styles(["mine"])[0], dash=(5, 1.6))
    assert style.drawing(2)["dasharray"] == "10 3.2" and style.drawing(2)["dash"] == "10px,3.2px"
    assert replace(style, dash=()).drawing()["dash"] == replace(style, dash=()).linestyle == "solid"
