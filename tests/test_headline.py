"""The number that comes first: where the field usually measures, or what is asked for; on every surface the same."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.metrics.intervals import proportion_interval
from robustatlas.report.card import card
from robustatlas.report.facts import facts_of
from robustatlas.report.in_latex import run_in_latex
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.headline import choose_headline
from robustatlas.report.words import percent
from robustatlas.results.result import Result
from run_files import write

SIZES = {"linf": np.linspace(0.0, 0.08, 100), "l2": np.linspace(1.0, 0.0, 100), "stadv": np.linspace(0.0, 0.1, 100)}
SIZES |= {"fog": np.linspace(0.0, 5.0, 100), "mine": np.linspace(0.0, 1.0, 100)}
GRID = {"linf": [4 / 255, 8 / 255, 0.04], "l2": [0.25, 0.5, 0.75], "stadv": [0.02, 0.05, 0.08], "fog": [1, 2, 4]}
GRID |= {"mine": [0.2]}


def result(
    data: str = "cifar10", attacks: tuple[str, ...] = ("linf", "l2"), grid: Mapping[str, Sequence[float]] = GRID
) -> Result:
    wrong = np.any([SIZES[name] == 0 for name in attacks], axis=0)
    sizes = {name: np.where(wrong, 0.0, SIZES[name]) for name in attacks}
    return Result.from_arrays(
        np.zeros(100), wrong.astype(int), sizes, {name: grid[name] for name in attacks}, model="mine", data=data
    )


@pytest.mark.parametrize(
    ("grid", "at"),
    [
        ({"linf": [0.01, 0.035, 0.05]}, {"linf": 0.035}),  # the next one from 8/255 on
        ({"linf": [0.01, 0.02], "l2": [0.25, 0.75]}, {"linf": 0.02, "l2": 0.75}),
        ({"linf": [1 / 255, 2 / 255], "fog": [1.0, 2.0]}, {"linf": 2 / 255, "fog": 2.0}),
        ({"stadv": [0.01, 0.02, 0.03, 0.04, 0.05]}, {"stadv": 0.03}),
    ],
)
def test_a_worst_case_stands_where_was_searched(grid: dict[str, list[float]], at: dict[str, float]) -> None:
    run = result("photos", tuple(grid), grid)
    assert worst_case_points(run) == at
    worst = facts_of(run).worst
    standing = run.clean & ~np.any([SIZES[name] <= most for name, most in at.items()], axis=0)
    assert (worst is None) == (len(at) == 1)
    assert worst is None or (worst.points == at and worst.value == standing.sum())


def test_what_is_asked_for_leads_every_surface(tmp_path: Path) -> None:
    run = write(tmp_path / "run", result("digits"))
    standing = int(((SIZES["linf"] > 8 / 255) & result().clean).sum())
    said = percent(proportion_interval(standing, 100, 0.95))
    facts = facts_of(result("digits"), headline={"linf": 8 / 255})
    assert said in card([result("digits")], "none", [facts]).svg()
    asked = ["--headline", "linf@8/255"]
    entered("report", run, "-o", tmp_path / "report.html", *asked)
    printed = entered("show", run, *asked).line
    assert f"{said} of 100 images" in printed and "L∞ at 8/255" in printed
    assert f'<p class="headline">{said} of 100 images' in (tmp_path / "report.html").read_text(encoding="utf-8")
    found = json.loads(entered("show", run, *asked, "--json").out)["headline"]
    assert found["numbers"][0]["strengths"] == [8 / 255] and found["accuracy"]["value"] == standing


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"fog": 1.0}, "'fog'"),
        ({"linf": 8.0}, "8/255"),
        ({"linf": 0.5}, "not searched at 0.5.* 0.04.*--strengths linf=0.5"),
        ({"linf": 0.02}, "not searched at 0.02.* 4/255, 8/255"),
    ],
)
def test_what_cannot_lead_is_refused(asked: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_headline([result()], asked)


def test_latex_has_the_headline_and_a_suite_in_one_table() -> None:
    assert "$L_\\infty$ & 8/255 & 60.0 (49.7 to 69.7) \\\\" in run_in_latex(facts_of(result()))
    names = [f"corruption-{name}" for name in ("fog", "snow", "frost", "contrast", "pixelate", "spatter", "glass-blur")]
    sizes = {name: np.where(np.arange(10) <= place, 2.0, np.inf) for place, name in enumerate(names)}
    run = Result.from_arrays(np.zeros(10), np.zeros(10), sizes, {name: [1, 2, 3, 4, 5] for name in names})
    table = run_in_latex(facts_of(run)).splitlines()
    assert table[2] == r"\begin{tabular}{lrrrrrr}" and table[6] == r"Strength & 1 & 2 & 3 & 4 & 5 & mean \\"
    assert table[8].startswith("Fog corruption & 100.0 & 90.0 & 90.0 & 90.0 & 90.0 & 92.0 (")
    assert table[15] == r"mean & 100.0 & 60.0 & 60.0 & 60.0 & 60.0 & 68.0 \\"
    assert table[18].startswith("worst case &  &  &  &  &  & 30.0 (")
