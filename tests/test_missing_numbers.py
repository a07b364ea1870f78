"""A number of 0 is a number that is given, not one that is missing."""

import time

import pytest
import torch

from robustatlas.common.errors import UserError
from robustatlas.drop_in import AutoAttack
from robustatlas.training.against import make_opponents
from robustatlas.training.display import LineDisplay
from robustatlas.training.presets import PRESETS


def test_0_is_no_default() -> None:
    attack = AutoAttack(torch.nn.Linear(4, 2), norm="Linf", eps=0.1, verbose=False, device="cpu")
    x, y = torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(UserError, match="bs=0"):
        attack.run_standard_evaluation(x, y, batch_size=0)
    with pytest.raises(UserError, match="The rate of crafting is 0"):
        make_opponents({"linf": 0.1}, rate=0)
    preset = next(preset for preset in PRESETS.values() if preset.fights)
    with pytest.raises(UserError, match="with 0 steps"):
        preset.recipe(steps=0)


def test_the_time_left_counts_from_the_first_epoch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    shown = LineDisplay()
    shown.begin("net", 40, 0)
    for epoch in (1, 2, 3):
        now += 10.0
        shown.epoch({"epoch": epoch, "epochs": 4, "loss": 1.0, "training_accuracy": 50.0})
    told = [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["30 s left", "20 s left", "10 s left"]
