"""The sheet of pictures: titles that say size and class, one scale a row, and something to see where nothing fooled."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named
from robustatlas.data import Dataset
from robustatlas.report import sheet

DATA = ra.load_dataset("digits")
LABEL = int(DATA.labels[0])


def test_titles_scale_and_the_strongest_attempt() -> None:
    model = ra.load_model("builtin:digits-linf")
    found = sheet.cells(model, DATA, attack_named("l2"), 2, 0)
    assert [cell.strength for cell in found] == [1.25, 2.5] and found[-1].fooled
    weak = sheet._attempt(model, DATA, attack_named("linf"), 0.02, 0)
    clean = DATA.rows[0].numpy()
    moved = np.abs(weak.image - clean).max()
    assert not weak.fooled and weak.predicted == int(DATA.labels[0]) and 0.019 < moved <= 0.02 * (1 + 1e-5)
    with torch.no_grad():
        before, after = (model.logits(torch.from_numpy(image)[None])[0] for image in (clean, weak.image))
    label = int(DATA.labels[0])
    assert after.log_softmax(0)[label] < before.log_softmax(0)[label]  # an attempt, and no random point


def made_up(*_: object) -> list[sheet.Cell]:
    """Twenty cells, the first half of them not fooled."""
    clean = DATA.rows[0].numpy()
    return [
        sheet.Cell(0.125 * step, np.clip(clean + 0.005 * step, 0, 1), 8 if step > 10 else LABEL, step > 10)
        for step in range(1, 21)
    ]


def test_twenty_columns_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "cells", made_up)
    figure = sheet.plot_gallery(ra.load_model("builtin:digits-linf"), DATA, ["jpeg-linf", "l2"], sample=0, columns=20)
    assert figure.get_size_inches()[0] <= 13.01
    figure.canvas.draw()
    titles = [axes.title for axes in figure.axes if axes.get_title()]
    said = [title.get_text() for title in titles]
    assert said[:2] == [f"clean,\n{LABEL}", f"≤ 0.125,\nstill {LABEL}"] and said[-1] == "L2 ≤ 2.5,\nread as 8"
    boxes = [title.get_window_extent() for title in titles[:21]]
    assert all(one.x1 <= two.x0 for one, two in pairwise(boxes))
    scales = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert scales == ["JPEG L∞:\nchange\nx 5", "L2:\nchange\nx 5"]  # .1 is the largest change of each row


def test_the_command(tmp_path: Path) -> None:
    picture = tmp_path / "sheet.png"
    words = ["gallery", "builtin:digits-linf", "--data", "digits", "--attacks", "brightness", "--columns", "2"]
    entered(*words, "-o", picture)
    with Image.open(picture) as drawn:
        assert drawn.width > drawn.height / 2 > 100


def test_strengths_that_are_given_are_drawn(tmp_path: Path) -> None:
    """Beside attacks at strengths of their own, whose rows are as long as the longest."""
    model = ra.load_model("builtin:digits-linf")
    given = {"brightness": [0.05, 0.1, 0.3]}
    figure = sheet.plot_gallery(model, DATA, ["brightness", "contrast"], sample=0, columns=2, strengths=given)
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes]
    assert titles[:5] == ["clean,", "Brightness ≤ 0.05,", "Brightness ≤ 0.1,", "Brightness ≤ 0.3,", ""]
    assert titles[8:12] == ["clean,", "Contrast ≤ 0.175,", "Contrast ≤ 0.325,", "Contrast ≤ 0.5,"]
    alone = sheet.plot_gallery(model, DATA, "brightness", sample=0, strengths={"brightness": [0.02]})
    assert len(alone.axes) == 4
    with pytest.raises(ra.UserError, match="l1"):
        sheet.plot_gallery(model, DATA, "linf", sample=0, strengths={"l1": [1.0]})


@pytest.mark.parametrize("shape", [(64,), (2, 8, 8), (1, 4, 8, 8)])
def test_data_that_cannot_be_drawn_are_refused_by_their_shape(shape: tuple[int, ...]) -> None:
    data = Dataset.from_arrays(torch.rand(12, *shape), torch.arange(12) % 3, "sensors")
    model = ra.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(shape)), 3)))
    with pytest.raises(ra.UserError, match="sensors has shape"):
        sheet.plot_gallery(model, data, "linf")


def test_long_names_stay_inside_their_place() -> None:
    attack = replace(attack_named("brightness"), name="my-brightness-with-a-long-name")
    figure = sheet.plot_gallery(ra.load_model("builtin:digits-linf"), DATA, [attack], sample=0, columns=2)
    figure.canvas.draw()
    label = figure.axes[3].texts[0]
    assert label.get_window_extent().width <= figure.axes[3].get_window_extent().width + 1
