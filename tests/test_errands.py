"""Trainings shared out: the same models whoever trains them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import robustatlas as ra
from robustatlas.errors import UserError
from robustatlas.training import ReferencePlan, Settings, make_reference
from robustatlas.training.errands import run_errands

PLAN = ReferencePlan(
    "digits-cnn", {"linf": (0.1,)}, steps=1, settings=Settings(epochs=1, held_out=0, monitored=16), samples=8
)


def write(place: Path, shared: str, errand: int) -> None:
    if errand < 0:
        raise UserError(f"{shared} takes no {errand}.")
    place.mkdir(exist_ok=True)
    (place / "said").write_text(f"{shared} {errand}")
    if errand == 9:
        time.sleep(600)


@pytest.mark.parametrize("workers", [1, 2])
def test_folders_are_filled(workers: int, tmp_path: Path) -> None:
    places = {tmp_path / str(number): number for number in range(2)}
    assert set(run_errands(write, "it", places, workers)) == set(places)
    assert [(place / "said").read_text() for place in places] == ["it 0", "it 1"]


def test_a_mistake_stops_the_others(tmp_path: Path) -> None:
    """The one that would take ten minutes is ended."""
    begun = time.monotonic()
    with pytest.raises(UserError, match="it takes no -1"):
        list(run_errands(write, "it", {tmp_path / "long": 9, tmp_path / "wrong": -1}, 2))
    assert time.monotonic() - begun < 300


def test_a_reference_by_two_processes_is_that_of_one(tmp_path: Path) -> None:
    training, test = ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits")
    one, two = (
        make_reference(PLAN, training, test, tmp_path / f"by{workers}" / "r", progress=False, workers=workers)
        for workers in (1, 2)
    )
    assert one is not None
    assert one == two
    weights = [sorted((tmp_path / f"by{workers}").rglob("weights.safetensors")) for workers in (1, 2)]
    assert [a.read_bytes() for a in weights[0]] == [b.read_bytes() for b in weights[1]]
