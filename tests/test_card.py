"""The robustness card: its facts, its words, and every way in which it is drawn."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from command_line import entered
from robustatlas.cli._card import blocks
from robustatlas.common.errors import UserError
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.report.card import card, colour_of
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.card import card_of, run_hash
from robustatlas.report.facts.strips import CELLS, halved_at, scale_of
from robustatlas.results.result import Result
from run_files import write

GRID = {"linf": [0.01, 0.02, 0.04], "l2": [0.5, 1.0]}
REFERENCE = Reference(
    "small",
    "made up",
    AccuracyTable(90.0, {"linf": {0.01: 70.0, 0.02: 40.0, 0.04: 10.0}, "l2": {0.5: 80.0, 1.0: 60.0}}),
    ("linf", "l2"),
)


def result(samples: int = 100, **more: str) -> Result:
    spread = np.linspace(0.0, 1.0, samples)
    sizes = {"linf": 0.02 * spread, "l2": np.where(spread < 0.4, spread, np.inf)}
    labels = np.zeros(samples, int)
    predictions = np.where(spread > 0, labels, 1)
    return Result.from_arrays(labels, predictions, sizes, GRID, **{"model": "mine", "data": "made"} | more)


def test_strengths_are_scaled_by_where_the_reference_is_halved() -> None:
    run = result()
    facts = facts_of(run, reference=REFERENCE)
    made = card_of(run, facts, REFERENCE)
    linf, l2 = made.strips
    half = halved_at([0.01, 0.02, 0.04], [70.0, 40.0, 10.0], 90.0)
    assert half == pytest.approx(0.01 + 0.01 * 25 / 30)
    sizes = np.sort(run.minimal_size("linf"))
    assert facts.attacks[0].median.value == sizes[50]  # of 99 that are right, 49 are left from the 51st error on
    assert linf.share == pytest.approx(sizes[50] / half)
    assert linf.low < linf.tick < linf.high and not linf.beyond  # type: ignore[operator]
    assert l2.beyond and l2.tick is None and l2.halved == np.inf  # the reference holds as far as it was searched
    middles = 2 * half * (np.arange(CELLS) + 0.5) / CELLS
    known = [shade for shade, size in zip(linf.shades, middles, strict=True) if size <= 0.04]
    assert known == run.curve("linf").robust_accuracy(middles[middles <= 0.04]).tolist()
    assert linf.shades[0] is not None and all(a >= b for a, b in pairwise(known))


@pytest.mark.parametrize("clean", [90.0, 40.0])
def test_half_is_of_the_clean_accuracy(clean: float) -> None:
    """A reference that is right on less than half of the images without any attack scales as any other."""
    falling = {0.01: 0.7 * clean, 0.02: 0.3 * clean, 0.04: 0.1 * clean}
    weak = Reference(
        "weak", "made up", AccuracyTable(clean, {"linf": falling, "l2": {0.5: 0.6 * clean}}), ("linf", "l2")
    )
    scale = scale_of({"linf": 0.04, "l2": 0.5}, weak)
    assert scale.units["linf"] == pytest.approx(0.015)
    assert scale.beyond == {"l2"}
    sizes = {"linf": np.repeat([0.0, 0.01, 0.03], [60, 20, 20])}
    run = Result.from_arrays(np.zeros(100), np.repeat([1, 0], [60, 40]), sizes, {"linf": [0.01, 0.02, 0.04]})
    strip = card_of(run, facts_of(run, reference=weak), weak).strips[0]
    assert strip.halved == 0.01 and "halved from 0.01, 0.67 times the reference's" in strip.words


def test_a_model_that_is_wrong_everywhere_is_0_times_the_reference() -> None:
    run = Result.from_arrays([0, 0], [1, 1], {"linf": [0.0, 0.0]}, {"linf": [0.01, 0.02, 0.04]})
    strip = card_of(run, facts_of(run, reference=REFERENCE), REFERENCE).strips[0]
    assert strip.tick == 0.0 and "halved from 0, 0 times the reference's" in strip.words


def test_without_a_reference_the_distance_between_classes_or_the_grid_scales() -> None:
    run = result()
    facts = facts_of(run)
    by_distance = card_of(run, facts, distances={"linf": 0.1, "l2": 2.0})
    assert "distance" in by_distance.axis
    assert by_distance.strips[0].tick == pytest.approx(facts.attacks[0].median.value / 0.1)
    assert by_distance.strips[0].shades[-1] is None  # beyond the largest strength nothing was searched
    assert "strength" in card_of(run, facts, distances={"linf": 0.1}).axis


def certified(run: Result, **sizes: float) -> Result:
    """The run with every image proved to be right up to a size, or almost up to what was found."""
    held = {}
    for attack, size in sizes.items():
        found = run.minimal_size(attack) if attack in run.attacks else np.where(run.clean, np.inf, 0.0)
        grid = tuple(GRID.get(attack, [9.0]))
        held[attack] = CertifiedSizes(attack, np.minimum(size, 0.9 * found), ("crown",), strengths=grid)
    return replace(run, certified_sizes=held)


def test_what_is_proved_is_solid() -> None:
    run = certified(result(), linf=0.005, l1=3.0)
    facts = facts_of(certified(result(), linf=0.005), reference=REFERENCE)
    linf, l2 = card_of(run, facts, REFERENCE).strips
    assert linf.certified == pytest.approx(0.005 / (2 * (0.01 + 0.01 * 25 / 30))) and l2.certified is None
    assert "half proved up to 0.005" in linf.words and "proved" not in l2.words
    drawn = card(run, "none")
    assert "line below: half proved" in drawn.svg() and "L1: half proved up to 3, not attacked" in str(drawn)
    assert "proved" not in card(result(), REFERENCE).svg()


def test_its_numbers_are_those_of_every_other_page() -> None:
    run = result()
    facts = facts_of(run, reference=REFERENCE)
    made = card_of(run, facts, REFERENCE)
    assert facts.headline is not None
    assert (made.clean, made.score) == (facts.clean, facts.headline.leading)
    assert made.score_name == facts.headline.brief_name
    words = made.words
    assert "Robustness card of mine on 100 images of made" in words and f"run {run_hash(run)}" in words
    assert "L∞: halved from 0.01" in words and "L2: more than half withstands it" in words
    assert run_hash(run) == run_hash(result()) != run_hash(result(model="other"))


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_files(kind: str, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>$x$" + "y" * 300
    made = card([result(), result(model=hostile)], REFERENCE)
    path = made.save(tmp_path / f"card.{kind}")
    content = path.read_bytes()
    if kind == "svg":
        text = content.decode()
        assert "<script" not in text and 'role="img" aria-label="Robustness card of mine' in text
        assert text.count("mean over 2 attacks") >= 2 and made._repr_svg_() + "\n" == text
        assert re.search(r'viewBox="0 0 330 \d', text)  # 3.3 inches, of a hundred units
    elif kind == "png":
        assert imread(path).shape[1] == 990
    else:
        assert content.startswith(b"%PDF")
    with pytest.raises(UserError, match=r"can be written as 'card\.gif'"):
        made.save(tmp_path / "card.gif")


def test_shades_are_told_apart_in_grey() -> None:
    """Lightness falls from 0 to 100 %, each step by enough."""
    grey = []
    for percent in range(0, 101, 10):
        red, green, blue = (int(colour_of(percent)[place : place + 2], 16) for place in (1, 3, 5))
        grey.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    assert all(lighter - darker > 5 for lighter, darker in pairwise(grey))


def test_the_terminal_without_letters() -> None:
    strip = card_of(result(), facts_of(result(), reference=REFERENCE), REFERENCE).strips[0]
    assert blocks(strip).isascii() is False
    plain = blocks(strip, "ascii")
    assert plain.isascii() and "|" in plain and "o" in plain
    assert len(blocks(strip, wide=False)) < len(blocks(strip))


def test_command(tmp_path: Path) -> None:
    run = write(tmp_path / "run", result())
    assert "Card: " in entered("card", run, "-o", tmp_path / "card.svg").out
    assert "mean over 2 attacks" in (tmp_path / "card.svg").read_text()
    said = entered("card", run, "-o", tmp_path / "card.jpg", code=1).line
    assert ".png, .pdf or .svg" in said
