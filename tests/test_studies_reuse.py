"""What a study reuses is what its file says: after each change the outputs are those of an empty folder."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import robustatlas as ra
from robustatlas.common.errors import UserError
from robustatlas.models.networks import network_named
from robustatlas.studies import plan_sentence, read_study

STUDY = """
title = "What is reused"

[data.mine]
name = "{folder}/test.npz"
train = "{folder}/train.npz"
samples = 12
train_samples = 100

[training]
architecture = "digits-cnn"
settings = {{ epochs = 2, batch_size = 50, learning_rate = 0.02, held_out = 0 }}

[models.trained]
recipe = "pgd"
against = {{ linf = 0.1 }}
steps = 1
keep = 1
[models.source]
source = "{folder}/net.py:network"
weights = "{folder}/net.safetensors"
arguments = {{ scale = 1.0 }}

[evaluations.main]
attacks = ["linf", "l2"]
strengths = {{ linf = [0.02, 0.1], l2 = [0.2, 0.4] }}
effort = "low"
seed = 0
diagnose = false
audit = 0

[outputs.scores]
kind = "scores"
numbers = ["clean", "linf@0.1", "average"]
[outputs.accuracies]
kind = "accuracies"
"""

NETWORK = """
from torch import nn
from robustatlas.models.networks import network_named

class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.net, self.scale = network_named("digits-cnn", (1, 8, 8), 10), scale
    def forward(self, x):
        return self.scale * self.net(x) + 0.5 * self.net(x.flip(-1))

def network(scale):
    return Scaled(scale)
"""


def write_files(folder: Path) -> Path:
    """Write images, weights, a network and the study that names them; return the file of the study."""
    for split in ("train", "test"):
        data = ra.load_dataset("digits", split).take(150)
        np.savez(folder / f"{split}.npz", images=data.images.numpy(), labels=data.labels.numpy())
    (folder / "net.py").write_text(NETWORK, encoding="utf-8")
    save_weights(folder, seed=0)
    file = folder / "mine.toml"
    file.write_text(STUDY.format(folder=folder), encoding="utf-8")
    return file


def save_weights(folder: Path, seed: int) -> None:
    state = network_named("digits-cnn", (1, 8, 8), 10, seed).state_dict()
    save_file({f"net.{name}": value for name, value in state.items()}, folder / "net.safetensors")


def replace_in(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new), encoding="utf-8")

    return change


def in_study(old: str, new: str) -> Callable[[Path], None]:
    return replace_in("mine.toml", old, new)


def other_weights_of_the_same_time(folder: Path) -> None:
    """Put other weights in place, of as many bytes and with the old date."""
    file = folder / "net.safetensors"
    before = file.stat()
    save_weights(folder, seed=1)
    assert file.stat().st_size == before.st_size
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def other_images(split: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        held = dict(np.load(folder / f"{split}.npz"))
        np.savez(folder / f"{split}.npz", images=held["images"][:, :, ::-1], labels=held["labels"])

    return change


NEW, REUSED, CONTINUED, AGAIN = "new", "Reused", "continued", "done again"
TRAINING, OF_TRAINED, OF_SOURCE = (
    "models.trained.seed-0",
    "evaluations.main.trained.seed-0",
    "evaluations.main.source",
)


@dataclass(frozen=True)
class Row:
    """A change, and what becomes of the training and of the evaluations of the trained model and of the source; of a
    change that is refused, words of the sentence."""

    change: Callable[[Path], None]
    training: str = REUSED
    trained: str = REUSED
    source: str = REUSED
    refused: str = ""


ROWS = {
    "nothing": Row(in_study("title", "title")),
    "names of things": Row(in_study("[data.mine]", "[data.other]")),
    "label": Row(in_study("keep = 1", 'keep = 1\nlabel = "by PGD"')),
    "network's code": Row(replace_in("net.py", "0.5 *", "0.25 *"), source=AGAIN),
    "network's argument": Row(in_study("scale = 1.0", "scale = 0.5"), source=AGAIN),
    "network's function": Row(
        lambda folder: (
            in_study("net.py:network", "net.py:Scaled")(folder),
            replace_in("net.py", "0.5 *", "0.75 *")(folder),
        )[0],
        source=AGAIN,
    ),
    "weights in place": Row(other_weights_of_the_same_time, source=AGAIN),
    "attack removed": Row(
        lambda folder: (
            in_study('["linf", "l2"]', '["linf"]')(folder),
            in_study(", l2 = [0.2, 0.4]", "")(folder),
        )[0],
        trained=CONTINUED,
        source=CONTINUED,
    ),
    "attack excluded": Row(in_study("seed = 0", 'seed = 0\nexclude = ["l2"]'), trained=CONTINUED, source=CONTINUED),
    "attack added": Row(
        lambda folder: (
            in_study('["linf", "l2"]', '["linf", "l2", "l1"]')(folder),
            in_study("l2 = [0.2, 0.4]", "l2 = [0.2, 0.4], l1 = [2.0]")(folder),
        )[0],
        trained=CONTINUED,
        source=CONTINUED,
    ),
    "strengths fewer": Row(in_study("{ linf = [0.02, 0.1]", "{ linf = [0.1]"), trained=AGAIN, source=AGAIN),
    "strengths more": Row(in_study("linf = [0.02, 0.1]", "linf = [0.02, 0.05, 0.1]"), trained=AGAIN, source=AGAIN),
    "samples fewer": Row(in_study("samples = 12", "samples = 7"), trained=CONTINUED, source=CONTINUED),
    "samples more": Row(in_study("samples = 12", "samples = 20"), trained=CONTINUED, source=CONTINUED),
    "evaluation's samples": Row(in_study("seed = 0", "seed = 0\nsamples = 9"), trained=CONTINUED, source=CONTINUED),
    "seed of the evaluation": Row(in_study("seed = 0", "seed = 3"), trained=AGAIN, source=AGAIN),
    "effort": Row(in_study('effort = "low"\n', ""), trained=AGAIN, source=AGAIN),
    "audit": Row(in_study("audit = 0", "audit = 4"), trained=AGAIN, source=AGAIN),
    "diagnosis": Row(in_study("diagnose = false", "diagnose = true"), trained=AGAIN, source=AGAIN),
    "test images": Row(other_images("test"), trained=AGAIN, source=AGAIN),
    "seed of the training": Row(in_study("keep = 1", "keep = 1\nseeds = [5]"), training=NEW, trained=NEW),
    "training images": Row(other_images("train"), refused="data.images"),
    "fewer training images": Row(in_study("train_samples = 100", "train_samples = 60"), refused="train_samples: 100"),
    "epochs": Row(in_study("epochs = 2", "epochs = 1"), refused="epochs: 2"),
    "recipe": Row(in_study('recipe = "pgd"', 'recipe = "trades"'), refused="recipe"),
    "recipe's setting": Row(in_study("steps = 1", "steps = 2"), refused="steps: 1"),
    "strength of the training": Row(in_study("against = { linf = 0.1", "against = { linf = 0.2"), refused="linf: 0.1"),
    "architecture": Row(in_study('"digits-cnn"', '"digits-mlp"'), refused="architecture"),
    "weights kept": Row(in_study("keep = 1", "keep = 2")),
}  # fmt: skip


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that was carried out, in ``out``."""
    folder = tmp_path_factory.mktemp("reuse")
    ra.study(write_files(folder), folder / "out", progress=False)
    return folder


@pytest.fixture
def folder(carried_out: Path, tmp_path: Path) -> Path:
    """A copy of that folder, whose study names the files in it."""
    copy = tmp_path / "copy"
    shutil.copytree(carried_out, copy)
    text = (copy / "mine.toml").read_text(encoding="utf-8")
    (copy / "mine.toml").write_text(text.replace(str(carried_out), str(copy)), encoding="utf-8")
    for done in [*(copy / "out/done").iterdir(), *(copy / "out/begun").iterdir()]:
        done.write_text(done.read_text(encoding="utf-8").replace(str(carried_out), str(copy)), encoding="utf-8")
    return copy


def tables(out: Path) -> dict[str, list[dict[str, str]]]:
    """All tables of a study, read from their files."""
    found = {}
    for path in sorted((out / "outputs").glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            found[path.name] = list(csv.DictReader(file))
    return found


def word_of(sentence: str, step: str) -> str:
    """Return the word of a sentence of a plan in which it speaks of a step; "new" where it does not."""
    parts = [part for part in sentence.split("; ") if step in part.split("(", 1)[1]]
    return parts[0] if parts else NEW


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_after_a_change_outputs_are_those_of_an_empty_folder(name: str, folder: Path) -> None:
    row, file, out = ROWS[name], folder / "mine.toml", folder / "out"
    row.change(folder)
    if row.refused:
        for carry_out in (plan_sentence, lambda study, out: ra.study(study, out, progress=False)):
            with pytest.raises(UserError, match=rf"{TRAINING} .*{row.refused}"):
                carry_out(read_study(file), out)
        return
    sentence = plan_sentence(read_study(file), out)
    for step, word in ((TRAINING, row.training), (OF_TRAINED, row.trained), (OF_SOURCE, row.source)):
        assert word_of(sentence, step.replace("seed-0", "seed-5") if word == NEW else step).startswith(word), sentence
    assert ra.study(file, out, progress=False).complete
    assert ra.study(file, folder / "fresh", progress=False).complete
    assert tables(out) == tables(folder / "fresh")
    assert set(plan_sentence(read_study(file), out).split(":")) & {NEW, CONTINUED, AGAIN} == set()


@pytest.mark.slow
def test_what_was_put_aside_comes_back(folder: Path) -> None:
    file, out = folder / "mine.toml", folder / "out"
    before, runs = tables(out), sorted(path for path in (out / "runs").rglob("*.parquet"))
    in_study("seed = 0", "seed = 3")(folder)
    ra.study(file, out, progress=False)
    in_study("seed = 3", "seed = 0")(folder)
    written = {path: path.stat().st_mtime_ns for path in (out / "aside").rglob("outcomes/*/*.parquet")}
    ra.study(file, out, progress=False)
    assert tables(out) == before and sorted((out / "runs").rglob("*.parquet")) == runs
    assert written and {path.stat().st_mtime_ns for path in runs} >= set(written.values())


@pytest.mark.slow
def test_an_evaluation_that_was_interrupted_with_another_file_is_no_part_of_this_one(folder: Path) -> None:
    file, out = folder / "mine.toml", folder / "out"
    shutil.rmtree(out / "done")
    in_study("seed = 0", "seed = 3")(folder)
    ra.study(file, out, progress=False)
    ra.study(file, folder / "fresh", progress=False)
    assert tables(out) == tables(folder / "fresh")


def test_weights_that_a_training_did_not_keep_are_refused_before_anything_is_done(folder: Path) -> None:
    in_study("keep = 1\n", "")(folder)
    assert plan_sentence(read_study(folder / "mine.toml"), folder / "out").startswith(REUSED)
    ra.study(folder / "mine.toml", folder / "without", progress=False)
    in_study("steps = 1", "steps = 1\nkeep = 2")(folder)
    with pytest.raises(UserError, match=f"{TRAINING} .*kept"):
        plan_sentence(read_study(folder / "mine.toml"), folder / "without")


START = """
[models.started]
start = "source"
architecture = "{folder}/net.py:started"
recipe = "standard"
settings = {{ epochs = 1, batch_size = 50, learning_rate = 1e-9, held_out = 0 }}
"""


@pytest.mark.parametrize("weights", [True, False])
def test_a_training_begins_with_the_weights_of_a_model_of_a_source(weights: bool, folder: Path) -> None:
    (folder / "net.py").write_text(f"{NETWORK}\ndef started():\n    return Scaled(1.0)\n", encoding="utf-8")
    in_study("[evaluations.main]", f"{START.format(folder=folder)}\n[evaluations.main]")(folder)
    file, out = folder / "mine.toml", folder / "begun"
    if not weights:
        in_study(f'weights = "{folder}/net.safetensors"', "")(folder)
        in_study(f'"{folder}/net.py:network"', f'"{folder}/net.py:constant"')(folder)
        replace_in("net.py", "def network", "def constant(scale):\n    import torch\n    net = Scaled(scale)\n"
                   "    for p in net.parameters():\n        torch.nn.init.constant_(p, 0.01)\n    return net\n"
                   "def network")(folder)  # fmt: skip
    ra.study(file, out, only=["models.started"], progress=False)
    begun = ra.load_model(f"trained:{out}/trainings/started/seed-0")
    study = read_study(file).models["source"]
    source = ra.load_model(str(study.source), study.weights, arguments=study.arguments)
    x = ra.load_dataset("digits").take(5).images
    assert torch.allclose(begun.logits(x), source.logits(x), atol=1e-4)
    if weights:
        save_weights(folder, seed=1)
        with pytest.raises(UserError, match=r"models\.started.*bytes have changed"):
            plan_sentence(read_study(file), out)


def test_weights_of_a_model_with_another_normalisation_are_refused(folder: Path) -> None:
    started = "def started():\n    return Scaled(1.0)\n"
    text = f"{NETWORK}\n{started}def normalised(scale):\n    return Scaled(scale), 0.5, 0.25\n"
    (folder / "net.py").write_text(text, encoding="utf-8")
    in_study("[evaluations.main]", f"{START.format(folder=folder)}\n[evaluations.main]")(folder)
    in_study("net.py:network", "net.py:normalised")(folder)
    with pytest.raises(UserError, match=r"source normalises .* 0\.5"):
        ra.study(folder / "mine.toml", folder / "begun", only=["models.started"], progress=False)


REFERENCE = """
title = "A reference"
[data.digits]
name = "digits"
samples = 10
train_samples = 60
[references.acc]
architecture = "digits-cnn"
strengths = { linf = [0.1] }
steps = 1
settings = { epochs = 1, batch_size = 50, held_out = 0 }
[outputs.table]
kind = "reference"
reference = "acc"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("samples = 10", "samples = 30", CONTINUED),
        ("samples = 10", "samples = 5", CONTINUED),
        ("steps = 1", "steps = 1\nsamples = 8", CONTINUED),
        ("steps = 1", "steps = 2", "steps: 1"),
        ("{ linf = [0.1] }", "{ linf = [0.1, 0.2] }", "strengths"),
        ("train_samples = 60", "train_samples = 61", "train_samples"),
    ],
)
def test_the_trainings_of_a_reference_go_on_to_other_samples(old: str, new: str, expected: str, tmp_path: Path) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text(REFERENCE, encoding="utf-8")
    ra.study(file, out, progress=False)
    weights = {path: path.stat().st_mtime_ns for path in out.rglob("weights.safetensors")}
    file.write_text(REFERENCE.replace(old, new, 1), encoding="utf-8")
    if expected != CONTINUED:
        with pytest.raises(UserError, match=rf"references\.acc .*{expected}"):
            plan_sentence(read_study(file), out)
        return
    assert plan_sentence(read_study(file), out).startswith(CONTINUED)
    ra.study(file, out, progress=False)
    ra.study(file, tmp_path / "fresh", progress=False)
    assert tables(out) == tables(tmp_path / "fresh")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("weights.safetensors")} == weights
