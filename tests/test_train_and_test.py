"""What is measured was not trained on, and a reference is of the images that a run is held against it for."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.data import Dataset
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.models.card import read_card
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts import hold_against
from robustatlas.training import ReferencePlan, Settings, make_reference, train

FAST = Settings(epochs=1, held_out=0)
PLAN = ReferencePlan("digits-cnn", {"linf": [0.1]}, steps=1, settings=FAST, samples=20)
OPTIONS = ["--strengths", "linf=0.1", "--steps", "1", "--epochs", "1", "--with", "held_out=0"]


def _digits(first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    data = ra.load_dataset("digits")
    return (data.images[first:end, 0].numpy() * 255).round().astype(np.uint8), data.labels[first:end].numpy()


def _npz(path: Path, first: int, end: int) -> str:
    images, labels = _digits(first, end)
    np.savez(path, images=images, labels=labels)
    return str(path)


def _npy(path: Path, first: int, end: int) -> str:
    images, labels = _digits(first, end)
    np.save(path, images)
    np.save(path.with_name(f"{path.stem}_labels.npy"), labels)
    return str(path)


def _folder(path: Path, first: int, end: int) -> str:
    for number, (image, label) in enumerate(zip(*_digits(first, end), strict=True)):
        (path / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path / str(label) / f"{number}.png")
    return f"imagefolder:{path}"


@pytest.fixture
def kinds(tmp_path: Path) -> dict[str, str]:
    """The first 60 digits, as each kind of data set that has no splits."""
    return {
        "npz": _npz(tmp_path / "one.npz", 0, 60),
        "copy": _npz(tmp_path / "copy.npz", 0, 60),
        "npy": _npy(tmp_path / "one.npy", 0, 60),
        "folder": _folder(tmp_path / "pictures", 0, 60),
    }


def test_a_reference_measures_no_training_images(kinds: dict[str, str], tmp_path: Path) -> None:
    """One file for both, a copy of it, and another file that holds some of the measured images, are refused."""
    pairs = [(kinds["npz"], None), (kinds["npy"], None), (kinds["folder"], None), (kinds["npz"], kinds["copy"])]
    pairs += [(kinds["npz"], kinds["npy"]), (kinds["npz"], _npz(tmp_path / "overlapping.npz", 50, 200))]
    for data, given in pairs:
        command = ["reference", "digits-cnn", "--data", data, *OPTIONS, "--out", str(tmp_path / "out")]
        shared = 10 if given and "overlapping" in given else 60
        said = entered(*command, *(["--train-data", given] if given else []), code=1).line
        assert re.search(rf"Error: {shared} of the 60 images .* are training images .*--train-data", said)
        assert not (tmp_path / "out").exists()


def test_a_reference_by_training_data_of_its_own(kinds: dict[str, str], tmp_path: Path) -> None:
    """Images that are not measured may be trained on, also those of the same file."""
    rest = _npz(tmp_path / "rest.npz", 20, 200)
    out = tmp_path / "out"
    command = ["reference", "digits-cnn", "--data", kinds["npz"], "--train-data", rest, *OPTIONS, "--out", str(out)]
    entered(*command, "--samples", "20")
    found = load_reference(out / "reference.json")
    assert "trained on rest" in found.source
    card = read_card(out / "linf-0.1-seed0")
    assert (card.identity.data.name, card.identity.data.images) == ("rest", 180)
    assert "Error: 10 of the 30 images" in entered(*command, "--samples", "30", code=1).line


def test_training_on_a_file_is_recorded(kinds: dict[str, str], tmp_path: Path) -> None:
    for kind in ("npz", "npy", "folder"):
        out = tmp_path / f"net-{kind}"
        said = entered("train", "digits-cnn", "--data", kinds[kind], "--epochs", "1", "--out", out).line
        (note,) = read_card(out).notes
        assert kinds[kind] in note and "no test images" in note and "no test images" in said
    entered("train", "digits-cnn", "--data", "digits", "--samples", "100", "--epochs", "1", "--out", tmp_path / "net")
    assert read_card(tmp_path / "net").notes == ()


def test_held_out_images_are_not_among_the_extra_ones() -> None:
    """By them a training is measured, and chosen; extra images are trained on."""
    data = ra.load_dataset("digits", "train").take(200)
    for extra in (data, replace(data, name="generated"), ra.load_dataset("digits", "train").take(400)):
        with pytest.raises(UserError, match=r"^20 of the 20"):
            train(_net(), data, epochs=1, extra=extra, progress=False)
    train(_net(), data, settings=FAST, extra=data, progress=False)
    train(_net(), data, epochs=1, extra=ra.load_dataset("digits").take(100), progress=False)


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reference of the digits, whose networks have learned nothing in one epoch of 64 images."""
    out = tmp_path_factory.mktemp("made") / "ref"
    make_reference(PLAN, ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits"), out, progress=False)
    return out


def test_a_reference_says_what_it_was_measured_on_and_what_was_warned_of(made: Path) -> None:
    found = load_reference(made / "reference.json")
    known = ra.load_result(made / "linf-0.1-seed0" / "evaluation")
    assert found.data == known.identity.data
    assert vars(ra.load_dataset("digits").fingerprint).items() <= found.data.model_dump().items()
    assert known.warnings
    assert all(any(said.endswith(warning) for said in found.warnings) for warning in known.warnings)
    assert any(said.startswith("linf-0.1-seed0: The model is right on") for said in found.warnings)
    assert [mark.split(" have learned nothing")[0] for mark in found.marks] == [
        "The reference's networks without an attack",
        "The reference's networks of linf at 0.1",
    ]
    assert Reference.from_dict(found.to_dict()) == found


def test_a_reference_goes_on_with_the_same_images_alone(made: Path) -> None:
    """By their numbers, not by their name and count."""
    training, test = ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits")
    assert make_reference(PLAN, training, test, made, progress=False) is not None
    other = Dataset.from_arrays(1 - test.images, test.labels, test.name, test.classes)
    with pytest.raises(UserError, match=r"another plan \(it differs in sha256\)"):
        make_reference(PLAN, training, other, made, progress=False)


CLEAN = AccuracyTable(90, {"linf": {0.1: 20.0}})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of digits, and one of other images of the same name."""
    folder = tmp_path_factory.mktemp("runs")
    data = ra.load_dataset("digits")
    for name, images in (("digits", data.images), ("other", data.images.flip(3))):
        given = Dataset.from_arrays(images, data.labels, name, data.classes)
        for model in ("digits-linf", "digits-l2"):
            ra.evaluate(
                ra.load_model(f"builtin:{model}"), given, ["linf"], strengths={"linf": [0.1]}, samples=5,
                run=folder / f"{name}-{model}", progress=False, diagnose=False,
            )  # fmt: skip
    return folder


def _reference(path: Path, run: Path | None) -> str:
    """Of the images of a run, or (None) one from before references said which."""
    data = ra.load_result(run).identity.data if run else None
    plain = Reference("ref", "made up", CLEAN, ("linf",), data=data).to_dict()
    if run is None:
        del plain["data"], plain["warnings"]
    path.write_text(json.dumps(plain))
    return str(path)


def test_references_of_other_images_are_marked_wherever_a_run_is_compared(runs: Path, tmp_path: Path) -> None:
    """368.7 % of the accuracy of specialists came without a word, of specialists for other images."""
    run, beside = str(runs / "digits-digits-linf"), str(runs / "digits-digits-l2")
    other = _reference(tmp_path / "other.json", runs / "other-digits-linf")
    own, unsaid = _reference(tmp_path / "own.json", Path(beside)), _reference(tmp_path / "unsaid.json", None)
    mark = "The reference ref was measured on other images (other), this run on digits"
    told = {}
    for name, reference in (("other", other), ("own", own), ("unsaid", unsaid)):
        given = ["--reference", reference]
        site, page = tmp_path / f"site-{name}", tmp_path / f"{name}.html"
        entered("report", run, *given, "-o", page)
        entered("leaderboard", "build", run, *given, "-o", site)
        entered("card", run, *given, "-o", tmp_path / f"{name}.svg")
        told[name] = [
            entered("show", run, *given).line,
            entered("show", run, *given, "--explain").line,
            entered("compare", run, beside, *given).line,
            entered("check", run, *given, "--require", "cr>=0").line,
            " ".join(page.read_text().split()),
            " ".join((site / "index.html").read_text().split()),
        ]
    assert [text.count(f"Warning: {mark}") for text in told["other"][:2]] == [1, 1]
    assert all(mark in text for text in told["other"])
    assert f'<p class="warnings">{mark}' in told["other"][5]
    for name in ("own", "unsaid"):
        assert not any("was measured on other images" in text for text in told[name])
        assert "Against specialists" in told[name][0]


def test_shipped_references_of_other_data_are_marked(runs: Path) -> None:
    """By the name of their data, as nobody has hashed the images behind them."""
    result = ra.load_result(runs / "digits-digits-linf")
    shipped = load_reference("multirobustbench-cifar10")
    held = hold_against(result, shipped, (), result.identity)
    (doubt,) = held.doubts
    assert "cifar10" in doubt and "digits" in doubt
    called = replace(result, data="cifar10_test")
    assert hold_against(called, shipped, (), called.identity).doubts == ()


def test_references_saved_by_compare_say_of_what_images(runs: Path, tmp_path: Path) -> None:
    paths = [runs / "digits-digits-linf", runs / "digits-digits-l2"]
    entered("compare", *paths, "--save-reference", tmp_path / "mine.json")
    assert load_reference(tmp_path / "mine.json").data == ra.load_result(paths[0]).identity.data


def test_marks_of_a_reference_are_shown_without_being_asked_for(runs: Path, made: Path) -> None:
    said = entered("show", runs / "digits-digits-linf", "--reference", made / "reference.json").line
    assert "networks of linf at 0.1" in said
    assert "networks without an attack" in said
