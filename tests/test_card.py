"""The robustness card: its numbers, its words, and every way in which it is drawn."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from command_line import entered
from robustatlas.cli._card import blocks
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_size, format_strength
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.report.card import WIDTH, RobustnessCard, card
from robustatlas.report.facts import facts_of
from robustatlas.report.numbers.texts import number_text
from robustatlas.results.result import Result
from run_files import write

GRID = {"linf": [0.01, 0.02, 0.04], "l2": [0.5, 1.0]}
REFERENCE = Reference(
    "small",
    "made up",
    AccuracyTable(90.0, {"linf": {0.01: 70.0, 0.02: 40.0, 0.04: 10.0}, "l2": {0.5: 80.0, 1.0: 60.0}}),
    ("linf", "l2"),
)
ATTACKS = ["linf", "l2", "l1", "stadv", "recolor", "elastic", "jpeg-linf", "jpeg-l1", "corruption-gaussian_noise"]


def result(samples: int = 100, **more: str) -> Result:
    spread = np.linspace(0.0, 1.0, samples)
    sizes = {"linf": 0.02 * spread, "l2": np.where(spread < 0.4, spread, np.inf)}
    labels = np.zeros(samples, int)
    predictions = np.where(spread > 0, labels, 1)
    return Result.from_arrays(labels, predictions, sizes, GRID, **{"model": "mine", "data": "made"} | more)


def certified(run: Result, **sizes: float) -> Result:
    """Return the run with every image proved to be right up to a size, or almost up to the size that was found."""
    held = {}
    for attack, size in sizes.items():
        found = run.minimal_size(attack) if attack in run.attacks else np.where(run.clean, np.inf, 0.0)
        grid = tuple(GRID.get(attack, [9.0]))
        held[attack] = CertifiedSizes(attack, np.minimum(size, 0.9 * found), ("crown",), strengths=grid)
    return replace(run, certified_sizes=held)


def texts(drawn: RobustnessCard) -> list[str]:
    """Return the texts of a card, from its SVG."""
    return [each.text or "" for each in ElementTree.fromstring(drawn.svg()).iter() if each.tag.endswith("text")]


def test_its_numbers_are_those_of_the_table() -> None:
    run = result()
    facts = facts_of(run, reference=REFERENCE)
    assert facts.headline is not None
    drawn = card(run, REFERENCE)
    for number in (facts.clean, facts.headline.leading):
        assert number_text(number, unit="%") in str(drawn)
        assert f"{number.value:.1f}%" in texts(drawn) and f"{number.low:.1f} to {number.high:.1f}" in texts(drawn)
    for attack in facts.attacks:
        size = format_size(attack.median.value, attack=attack.attack)
        last = format_strength(attack.strengths[-1], 3, attack=attack.attack)
        within = attack.median.value <= attack.strengths[-1]
        assert (f"{size} of {last}" if within else f"beyond {last}") in texts(drawn)
        assert f"median size {size} (" in str(drawn)


def test_proved_sizes_are_drawn_and_written() -> None:
    drawn = card(certified(result(), linf=0.005, l1=3.0), "none")
    assert "L∞: half proved up to 0.005" in str(drawn) and "L2: half proved" not in str(drawn)
    assert "not attacked" in texts(drawn) and "L1" in texts(drawn)
    assert not any("proved" in text for text in texts(card(result(), REFERENCE)))


def test_a_card_of_many_attacks_counts_those_that_it_has_no_room_for() -> None:
    right, sizes = np.zeros(4, int), np.array([0.1, 0.5, 1.0, 2.0])
    attacks = [f"mine-{place}" for place in range(15)]
    run = Result.from_arrays(right, right, dict.fromkeys(attacks, sizes), {name: [1.0, 3.0] for name in attacks})
    drawn = card(run, "none")
    shown = texts(drawn)
    assert [name in shown for name in attacks] == [True] * 12 + [False] * 3 and any(
        "3 more attacks." in text for text in shown
    )
    assert all(f"{name}: median size" in str(drawn) for name in attacks), "its words have every attack"


@pytest.mark.parametrize("count", [1, 3, 9])
def test_no_text_is_cut_or_covers_another(count: int) -> None:
    sizes = {attack: np.linspace(0.0, 0.0123456, 50) for attack in ATTACKS[:count]}
    grid = {attack: [2 / 255, 3 / 255] for attack in sizes}
    long = "a-network-whose-name-nobody-can-say-in-one-breath-and-longer"
    right = np.zeros(50, int)
    run = Result.from_arrays(right, right, sizes, grid, model=long, data=f"images of {long}")
    figure = card([certified(run, linf=0.001), run], "none").figure()
    renderer = FigureCanvasAgg(figure).get_renderer()
    (axes,) = figure.axes
    boxes = [text.get_window_extent(renderer) for text in axes.texts if text.get_text()]
    width, height = figure.canvas.get_width_height()
    assert width == round(WIDTH / 72 * figure.dpi)
    for place, box in enumerate(boxes):
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
        assert not any(box.overlaps(other.padded(-1)) for other in boxes[place + 1 :])
    assert min(text.get_fontsize() for text in axes.texts) >= 6


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_files(kind: str, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>$x$" + "y" * 300
    made = card([result(), result(model=hostile)], REFERENCE)
    path = made.save(tmp_path / f"card.{kind}")
    content = path.read_bytes()
    if kind == "svg":
        text = content.decode()
        assert "<script" not in text and 'role="img" aria-label="Robustness card of mine' in text
        assert texts(made).count("mean over 2 attacks") == 2 and made._repr_svg_() + "\n" == text
        assert " id=" not in text and "color-scheme:light dark" in text
    elif kind == "png":
        assert imread(path).shape[1] == 990
    else:
        assert content.startswith(b"%PDF")
    with pytest.raises(UserError, match=r"can be written as 'card\.gif'"):
        made.save(tmp_path / "card.gif")


def test_the_terminal_without_letters() -> None:
    accuracies = [100.0, 70.0, 30.0, 0.0]
    assert blocks(accuracies, 0.6).isascii() is False
    plain = blocks(accuracies, 0.6, "ascii")
    assert plain.isascii() and plain.index("|") == 2 and "|" not in blocks(accuracies, np.inf)


def test_command(tmp_path: Path) -> None:
    run = write(tmp_path / "run", result())
    assert "Card: " in entered("card", run, "-o", tmp_path / "card.svg").out
    assert "mean over 2 attacks" in (tmp_path / "card.svg").read_text()
    refused = entered("card", run, "-o", tmp_path / "card.jpg", code=1).line
    assert ".png, .pdf or .svg" in refused
