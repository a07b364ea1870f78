"""Trainings shared out: the same models whoever trains them."""

import os
import signal
import time
from pathlib import Path

import pytest

import robustatlas as ra
from processes import alive, driver
from robustatlas.common.errors import UserError
from robustatlas.training import ReferencePlan, Settings, make_reference
from robustatlas.training.shared_out import fill_folders
from test_scale import until

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
def test_folders_are_filled(workers: int, tmp_path: Path, watched: list[int]) -> None:
    places = {tmp_path / str(number): number for number in range(2)}
    through: list[Path] = []
    fill_folders(write, "it", places, ["cpu"] * workers if workers > 1 else (), through.append)
    assert sorted(through) == list(places)
    assert [(place / "said").read_text() for place in places] == ["it 0", "it 1"]


def test_a_mistake_stops_the_others(tmp_path: Path, watched: list[int]) -> None:
    """The one that would take ten minutes is ended."""
    begun = time.monotonic()
    with pytest.raises(UserError, match="it takes no -1"):
        fill_folders(write, "it", {tmp_path / "long": 9, tmp_path / "wrong": -1}, ["cpu"] * 2)
    assert time.monotonic() - begun < 300


def goes_on(place: Path, deaths: int, number: int) -> None:
    """Fill half of the folder and be killed, as often as ``deaths`` says; then the other half."""
    place.mkdir(exist_ok=True)
    lives = list(place.iterdir())
    (place / str(os.getpid())).touch()
    if len(lives) < deaths:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_costs_one_folder_what_it_did_since(tmp_path: Path, watched: list[int]) -> None:
    """Another worker goes on with what the folder holds, and that is said."""
    notes: list[str] = []
    fill_folders(goes_on, 1, {tmp_path / "a": 0}, ["cpu"] * 2, note=notes.append)
    assert len(list((tmp_path / "a").iterdir())) == 2
    assert notes == ["A worker on cpu was killed by signal 9 (SIGKILL). Another worker does the training a again."]


def test_a_folder_over_which_workers_die_again_and_again(tmp_path: Path, watched: list[int]) -> None:
    with pytest.raises(UserError, match=r"training a\. .*SIGKILL"):
        fill_folders(goes_on, 9, {tmp_path / "a": 0}, ["cpu"])
    assert len(list((tmp_path / "a").iterdir())) == 2


def drive(place: str) -> None:
    """Share out a training that hangs."""
    fill_folders(hangs, "it", {Path(place): 0}, ["cpu"])


def test_trainings_end_with_the_process_that_shared_them_out(tmp_path: Path) -> None:
    """Which is killed while one is at work."""
    said = tmp_path / "long" / "said"
    training = driver(drive, str(said.parent))
    until(lambda: said.exists() or not training.is_alive())
    training.kill()
    until(lambda: not alive(int(said.read_text())))


def hangs(place: Path, shared: str, number: int) -> None:
    place.mkdir()
    (place / "saying").write_text(str(os.getpid()))
    (place / "saying").rename(place / "said")
    time.sleep(600)


def test_a_reference_by_two_processes_is_that_of_one(tmp_path: Path, watched: list[int]) -> None:
    training, test = ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits")
    one, two = (
        make_reference(PLAN, training, test, tmp_path / f"by{workers}" / "r", progress=False, workers=workers)
        for workers in (1, 2)
    )
    assert one is not None
    assert one == two
    weights = [sorted((tmp_path / f"by{workers}").rglob("weights.safetensors")) for workers in (1, 2)]
    assert [a.read_bytes() for a in weights[0]] == [b.read_bytes() for b in weights[1]]
