"""What those who train want besides a recipe: presets, extra images, images on disk, snapshots, averages."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.data import Dataset, load_dataset
from robustatlas.data.rows import Rows
from robustatlas.models.objectives import margin
from robustatlas.models.weights import load_weights
from robustatlas.optimizers.crafting import craft
from robustatlas.optimizers.pgd import PGD
from robustatlas.report.training import plot_training, write_training_page
from robustatlas.training import Recipe, Settings, TrainingDisplay, load_trained, read_card, recipe_named, train
from robustatlas.training.against import unreached_strengths
from robustatlas.training.augmentation import cutmix, resized_crop
from robustatlas.training.given import bind_threats
from robustatlas.training.presets import PRESETS, describe_differences, preset_named
from robustatlas.training.recipes.base import Batch, Memory, Update, accuracy, cross_entropy_objective, select_worst
from test_training import FAST, convolutional, linear, same


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_dataset("digits", "train").take(300)


class Sees(Recipe):
    """Keeps the batches that it is given."""

    name = "sees"
    opponents = "none"
    mixes = True

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        SEEN.append(batch)
        logits = net(batch.x)
        return Update(self.cross_entropy(logits, batch.targets), accuracy(logits, batch.labels))


SEEN: list[Batch] = []


def seen(data: Dataset, settings: Settings, extra: Dataset | None = None) -> list[Batch]:
    SEEN.clear()
    train(linear(), data, Sees(), settings=settings, extra=extra)
    return list(SEEN)


# --- presets


PRINTED = {
    "multirobustbench-linf": (100, 256, 0.1, 5e-4, "piecewise", 20, 1 / 18),
    "multirobustbench-elastic": (100, 256, 0.1, 5e-4, "piecewise", 20, 20**-0.5),
    "uar-linf": (200, 32, 0.1, 1e-4, "step:100,150", 10, 10**-0.5),
    "uar-elastic": (200, 32, 0.1, 1e-4, "step:100,150", 30, 30**-0.5),
    "multirobustbench-jpeg-linf": (100, 256, 0.1, 5e-4, "piecewise", 20, 20**-0.5),
    "multirobustbench-jpeg-l1": (100, 256, 0.1, 5e-4, "piecewise", 20, None),
    "multirobustbench-recolor": (100, 256, 0.1, 5e-4, "piecewise", 20, 1 / 18),
    "uar-l1": (200, 32, 0.1, 1e-4, "step:100,150", 10, None),
    "uar-imagenet100-elastic": (90, 256, 0.1, 1e-4, "step:30,60,80", 30, 30**-0.5),
    "uar-imagenet100-fog": (90, 256, 0.1, 1e-4, "step:30,60,80", 10, 10**-0.5),
    "uar-joint-cifar10": (200, 32, 0.1, 1e-4, "step:100,150", 10, 10**-0.5),
    "uar-joint": (90, 256, 0.1, 1e-4, "step:30,60,80", 10, 10**-0.5),
    "ah-ascending": (400, 512, 0.2, 5e-4, "one-cycle", 10, 0.25),
    "pat": (100, 50, 0.1, 2e-4, "step:75,90", 10, None),
    "trades": (76, 128, 0.1, 2e-4, "step:74", 10, 0.007 / 0.031),
    "trades-mnist": (100, 128, 0.01, 0.0, "step:54,74,89", 40, 0.01 / 0.3),
    "bag-of-tricks": (110, 128, 0.1, 5e-4, "step:100,105", 10, 0.25),
    "fast": (15, 128, 0.2, 5e-4, "triangle", 1, 1.25),
    "max": (50, 128, 0.1, 5e-4, "tri", 40, 0.005 / 0.03),
    "msd": (50, 128, 0.1, 5e-4, "tri", 40, 0.1),
    "sat": (30, 128, 0.21, 5e-4, "cyclic", 10, 1 / 8),
    "mng-ac": (30, 128, 0.21, 5e-4, "cyclic", 10, 1 / 8),
    "e-at": (3, 128, 0.01, 5e-4, "piecewise-ft", 10, None),
    "variation": (200, 256, 0.1, 5e-4, "piecewise", 10, 0.25),
    "mart": (120, 128, 0.01, 3.5e-3, "step:74,89,99", 10, 0.007 / 0.031),
    "awp": (200, 128, 0.1, 5e-4, "step:100,150", 10, 0.25),
}
"""Epochs, batch, learning rate, weight decay, schedule, steps and their length as a share of the first strength."""


@pytest.mark.parametrize("name", PRINTED)
def test_presets_have_what_is_printed(name: str) -> None:
    preset = preset_named(name)
    settings, first = preset.settings, preset.recipe().against[0].optimizer
    found = (settings.epochs, settings.batch_size, settings.learning_rate, settings.weight_decay, settings.schedule)
    assert (*found, first.steps) == PRINTED[name][:6]
    if PRINTED[name][6] is not None:
        assert first.rate == pytest.approx(PRINTED[name][6])  # type: ignore[attr-defined]


def test_joint_presets_craft_as_their_public_code() -> None:
    """Maini et al. 2020 begin at the image, their steps in l1 have length 1 in all, and a joint l2 radius is .3;
    Madaan et al. 2021 begin at random, and in MNG-AC on a copy whose statistics nobody keeps."""
    for name in ("avg", "max", "msd"):
        against = preset_named(name).recipe().against
        assert [(o.name, o.epsilon, o.start) for o in against] == [
            ("linf", 0.03, "neutral"), ("l2", 0.3, "neutral"), ("l1", 12.0, "neutral"),
        ]  # fmt: skip
    steps = {o.name: o.optimizer for o in preset_named("msd").recipe().against}
    assert (steps["l1"].rate * 12, steps["l2"].rate * 0.3) == pytest.approx((1.0, 0.05))  # type: ignore[attr-defined]
    assert [o.start for o in preset_named("sat").recipe().against] == ["random", "random", "neutral"]
    assert [preset_named(name).settings.crafting for name in ("sat", "mng-ac")] == ["train", "batch"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_recipes_that_begin(name: str) -> None:
    preset = preset_named(name)
    recipe = preset.recipe()
    assert recipe.name == preset.kind
    assert describe_differences(preset, preset.architecture, recipe, preset.settings) == []


@pytest.mark.parametrize("name", PRESETS)
def test_other_steps_of_a_preset_go_as_far_as_those_printed(name: str) -> None:
    preset = preset_named(name)
    for printed, few in zip(preset.recipe().against, preset.recipe(steps=3).against, strict=True):
        if isinstance(printed.optimizer, PGD) and isinstance(few.optimizer, PGD):
            assert 3 * few.optimizer.rate == pytest.approx(printed.optimizer.steps * printed.optimizer.rate)
    assert not unreached_strengths(preset.recipe().against)


def test_steps_that_never_reach_the_strength_are_a_warning_on_the_card(data: Dataset, tmp_path: Path) -> None:
    """On a linear network 7 steps of a twentieth move each pixel from the image by .35 of the strength."""
    recipe = recipe_named("pgd", {"linf": 0.2}, steps=7, rate=1 / 20)
    with pytest.warns(UserWarning, match=r"7 steps of 0.05 of the strength go 0.35 of it"):
        trained = train(linear(), data, recipe, settings=replace(FAST, epochs=1), out=tmp_path)
    assert len([said for said in trained.card.warnings if "never reaches linf=0.2" in said]) == 1
    (opponent,) = recipe.against
    x, labels = data.images[:4] * 0.2 + 0.4, data.labels[:4]
    found = craft(
        trained.net, opponent, x, labels, torch.full((4,), 0.2), Noise.for_samples(0, torch.arange(4), "x"),
        cross_entropy_objective(labels), start="neutral",
    )  # fmt: skip
    assert float((found.x - x).abs().max()) == pytest.approx(0.07, abs=1e-6)


def test_examples_of_fast_lpa_climb_the_margin_in_any_recipe() -> None:
    net, labels = convolutional().eval(), torch.tensor([0, 1])
    noise = Noise.for_samples(0, torch.arange(2), "x")
    batch = Batch(torch.rand(2, 1, 8, 8), labels, noise, noise.take(torch.tensor([0])))
    preset = preset_named("multirobustbench-lpips-elastic")
    joint = bind_threats(preset.recipe(steps=2), net)
    apart = bind_threats(preset_named("multirobustbench-lpips").recipe(steps=2), net)
    by_margin = apart.craft(net, batch, value=partial(margin, labels=labels, targets=None))
    assert torch.equal(joint.craft(net, batch).x, by_margin.x)


def test_first_updates_of_a_preset_and_what_is_not_as_printed(tmp_path: Path) -> None:
    """Five updates of TRADES for MNIST, on another network: the card says all that differs."""

    class Stops(TrainingDisplay):
        losses: ClassVar[list[float]] = []

        def update(self, done: int, loss: float | None) -> None:
            self.losses.append(loss or 0.0)
            if done == 5:
                raise KeyboardInterrupt

    preset = preset_named("trades-mnist")
    images, display = load_dataset("digits", "train"), Stops()
    with pytest.raises(KeyboardInterrupt):
        train(convolutional(), images, preset.recipe(steps=2), settings=preset.settings, progress=display)
    assert len(display.losses) == 5
    said = entered(
        "train", "digits-cnn", "--data", "digits", "--samples", 60, "--preset", "trades-mnist", "--epochs", 1,
        "--steps", 1, "--with", "augmentation=none", "--out", tmp_path,
    ).line  # fmt: skip
    card = read_card(tmp_path)
    assert card.identity.settings["augmentation"] == "none"
    assert card.identity.recipe["beta"] == 1.0
    assert card.identity.settings["momentum"] == 0.9
    assert "trades-mnist" in card.notes[0]
    assert "digits-cnn in place of trades-cnn; epochs 1 in place of 100" in card.notes[-1]
    assert "trades-cnn" in said


def test_presets_are_listed() -> None:
    said = entered("train", "--presets").line
    assert set(PRESETS) <= set(said.split())
    with pytest.raises(UserError, match="did you mean 'trades'"):
        preset_named("tradess")


# --- images


class Counting(Rows):
    """Images that are made when they are read; how many at once is kept."""

    def __init__(self, images: Tensor) -> None:
        self.images, self.shape, self.most = images, tuple(images.shape), 0

    def read(self, positions: Tensor) -> Tensor:
        self.most = max(self.most, len(positions))
        return self.images[positions]

    def sha256(self) -> str:
        return "known"


def test_images_on_disk_are_read_batch_by_batch(data: Dataset) -> None:
    rows = Counting(data.images)
    settings = replace(FAST, batch_size=50)
    there = train(linear(), replace(data, rows=rows), settings=settings)
    assert rows.most <= 50
    assert same(there.net.state_dict(), train(linear(), data, settings=settings).net.state_dict())


def test_extra_images_have_their_share_of_each_batch(data: Dataset) -> None:
    extra = Dataset.from_arrays(
        torch.full((20, 1, 8, 8), 0.5), torch.arange(20) % 10, "grey", [str(k) for k in range(10)]
    )
    settings = replace(FAST, batch_size=50, held_out=0, ratio=0.7)
    batches = seen(data, settings, extra)
    assert len(batches) == 2 * 6
    for batch in batches:
        grey = (batch.x == 0.5).flatten(1).all(1)
        assert (len(grey), int(grey.sum())) == (50, 35)
        assert bool((batch.labels[grey] < 10).all())
    assert not torch.equal(batches[0].labels[15:], batches[1].labels[15:])
    again = seen(data, settings, extra)
    assert all(torch.equal(one.x, other.x) for one, other in zip(batches, again, strict=True))
    card = train(linear(), data, settings=settings, extra=extra).card
    assert card.identity.extra is not None
    assert card.identity.extra.images == 20
    with pytest.raises(UserError, match="size"):
        train(linear(), data, settings=settings, extra=Dataset.from_arrays(torch.rand(3, 1, 4, 4), [0, 1, 2], "small"))


def test_cutmix_mixes_labels_by_area(data: Dataset) -> None:
    x, noise = data.images[:64], Noise.for_samples(0, data.index[:64], "test")
    mixed, partner, share = cutmix(x, noise, 1.0)
    one = torch.arange(64.0).view(-1, 1, 1, 1).expand_as(x)
    patched, _, _ = cutmix(one, noise, 1.0)
    own = (patched == one).flatten(1).double().mean(1)
    torch.testing.assert_close(own, share.double())
    assert torch.equal(mixed, torch.where(patched == one, x, x[partner]))
    assert share.min() < 0.5 < 0.9 < share.max()
    assert bool((cutmix(x, noise, 0.0)[2] == 1).all())
    batch = seen(data, replace(FAST, cutmix=1.0))[0]
    torch.testing.assert_close(batch.targets.sum(1), torch.ones(len(batch.x)))
    assert torch.equal(batch.targets.argmax(1), batch.labels)
    with pytest.raises(UserError, match="no cutmix"):
        train(linear(), data, "trades" if not recipe_named("trades", {"linf": 0.1}).mixes else "manifold",
              {"linf": 0.1}, settings=replace(FAST, cutmix=1.0))  # fmt: skip


def test_random_parts_have_the_size_of_the_whole() -> None:
    """A ramp stays one, of 8 to 100 % of the area and never wider than 4/3 of its height."""
    ramp = torch.stack(torch.meshgrid(torch.linspace(0, 1, 64), torch.linspace(0, 1, 64), indexing="ij"))
    parts = resized_crop(ramp.expand(200, 2, 64, 64), Noise.for_samples(0, torch.arange(200), "test"))
    height, width = (parts[:, k].amax((1, 2)) - parts[:, k].amin((1, 2)) for k in range(2))
    area, ratio = height * width, width / height
    assert 0.05 < float(area.min()) < 0.2 < 0.8 < float(area.max()) <= 1
    assert 0.7 < float(ratio.min()) < float(ratio.max()) < 1.45
    assert parts.shape == (200, 2, 64, 64)


# --- weights


def test_average_of_epochs_is_the_mean_of_their_weights(data: Dataset, tmp_path: Path) -> None:
    settings = replace(FAST, epochs=4, held_out=0)
    train(linear(), data, settings=settings, out=tmp_path / "plain", keep=1)
    averaged = train(linear(), data, settings=replace(settings, swa_from=2), out=tmp_path / "swa").net.state_dict()
    weights = []
    for epoch in (2, 3, 4):
        net = linear()
        load_weights(net, tmp_path / f"plain/epochs/{epoch:04d}/weights.safetensors")
        weights.append(net.state_dict())
    for name, value in averaged.items():
        torch.testing.assert_close(value, torch.stack([w[name] for w in weights]).mean(0))


def test_averaged_networks_have_statistics_of_their_own(data: Dataset) -> None:
    """Batch normalisation of the average: mean and variance over the training images."""
    net = train(convolutional(), data, settings=replace(FAST, epochs=3, held_out=0, swa_from=1)).net
    inputs = net[0](data.images)
    torch.testing.assert_close(net[1].running_mean, inputs.mean((0, 2, 3)), rtol=0.02, atol=0.01)
    with pytest.raises(UserError, match="swa_from=2"):
        replace(FAST, swa_from=2)


def test_snapshots_are_models(data: Dataset, tmp_path: Path) -> None:
    """Every second epoch, and what a run of so many epochs under the same schedule has."""
    settings = replace(FAST, epochs=4, schedule="constant")
    net = ra.training.network_for("digits-cnn", data)
    train(net, data, "pgd", {"linf": 0.05}, settings=settings, out=tmp_path, architecture="digits-cnn", keep=2)
    assert sorted(path.name for path in (tmp_path / "epochs").iterdir()) == ["0002", "0004"]
    card = read_card(tmp_path / "epochs/0002")
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert (card.epoch, card.accuracies["linf"]) == (2, log[1]["robust/linf"])
    half = ra.training.network_for("digits-cnn", data)
    train(half, data, "pgd", {"linf": 0.05}, settings=replace(settings, epochs=2))
    assert same(half.state_dict(), load_trained(tmp_path / "epochs/0002").net.state_dict())  # type: ignore[union-attr]
    with pytest.raises(UserError, match="expected a number of epochs"):
        train(net, data, settings=settings, keep=2)


def test_the_course_of_a_training_is_drawn(data: Dataset, tmp_path: Path) -> None:
    """Every accuracy of the log is a curve, and every epoch a row."""
    trained = train(
        ra.training.network_for("digits-cnn", data), data, "max", {"linf": 0.1, "l2": 0.5}, settings=FAST, out=tmp_path,
        architecture="digits-cnn", notes=("A note.",),
    )  # fmt: skip
    above, below = plot_training(trained.history).axes
    assert above.lines[0].get_ydata().tolist() == [record["loss"] for record in trained.history]
    curves = {line.get_label(): line.get_ydata().tolist() for line in below.lines}
    assert list(curves) == [
        "training", "clean, held out", "L∞, held out", "L2, held out", "all attacks, held out", "L∞, training",
        "L2, training",
    ]  # fmt: skip
    assert curves["L2, held out"] == [record["robust/l2"] for record in trained.history]
    page = write_training_page(tmp_path).read_text()
    assert page.count('<th scope="row">') == 2
    assert "A note." in page
    assert "<svg" in (tmp_path / "training.svg").read_text()
    with pytest.raises(UserError, match="no finished epoch"):
        plot_training([])
    with pytest.raises(UserError, match="no model card"):
        write_training_page(tmp_path / "nothing")


def test_seeds_and_weights_to_begin_with(tmp_path: Path) -> None:
    small = ["--data", "digits", "--samples", "60", "--epochs", "1"]
    entered("train", "digits-cnn", *small, "--seeds", 2, "--out", tmp_path / "first")
    cards = [read_card(tmp_path / f"first/seed-{seed}") for seed in (0, 1)]
    assert [card.identity.settings["seed"] for card in cards] == [0, 1]
    assert cards[0].identity.initial_sha256 != cards[1].identity.initial_sha256
    entered(
        "train", "digits-cnn", *small, "--from", tmp_path / "first/seed-1", "--recipe", "e-at", "--against",
        "linf=0.1,l1=2", "--steps", 1, "--keep", 1, "--out", tmp_path / "tuned",
    )  # fmt: skip
    tuned = read_card(tmp_path / "tuned")
    assert tuned.identity.initial_sha256 == cards[1].weights_sha256
    assert "It began with the weights in" in tuned.notes[0]
    both = ["--preset", "trades", "--recipe", "pgd", "--out", tmp_path / "x"]
    assert "--recipe" in entered("train", "digits-cnn", *small, *both, code=1).line


def test_accuracy_at_the_examples_of_each_attack_is_recorded(data: Dataset, tmp_path: Path) -> None:
    """UAR, table 4: training and held-out accuracy of joint training at the examples that it makes, per attack."""
    net = ra.training.network_for("digits-cnn", data)
    settings = replace(FAST, held_out=40, monitored=32)
    trained = train(net, data, "uniform", {"linf": 0.2, "l2": 1.0}, settings=settings, out=tmp_path)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    for record in log:
        each = [record[f"{what}/{name}"] for what in ("training", "held_out") for name in ("linf", "l2")]
        assert all(0 <= value <= 100 for value in each)
        assert record["held_out/linf"] * 32 / 100 == pytest.approx(round(record["held_out/linf"] * 32 / 100), abs=1e-4)
        assert min(each[:2]) >= record["training_accuracy"] - 15  # it is trained at the worse of both
    alone = train(ra.training.network_for("digits-cnn", data), data, "uniform", {"linf": 0.2}, settings=settings)
    assert "held_out/linf" in alone.history[0]
    assert "training/linf" not in alone.history[0]  # training_accuracy says it
    curves = [line.get_label() for line in plot_training(trained.history).axes[1].lines]
    assert {"L∞, training", "L∞, held out, as trained"} <= set(curves)


def test_the_worst_example_and_the_accuracy_at_each() -> None:
    """Of two points per image the one of higher loss, and how many of each are right: by hand on a linear network."""
    net = nn.Linear(1, 2)
    with torch.no_grad():
        net.weight[:] = torch.tensor([[1.0], [-1.0]])
        net.bias[:] = 0
    x, labels = torch.tensor([[0.5], [0.5], [0.5]]), torch.tensor([0, 0, 0])
    noise = Noise.for_samples(0, torch.arange(3), "x")
    first, second = torch.tensor([[0.2], [-0.3], [0.1]]), torch.tensor([[-0.1], [-0.2], [0.1]])
    worst, right = select_worst(net, Batch(x, labels, noise, noise.take(torch.tensor([0]))), iter([first, second]), 2)
    assert worst.flatten().tolist() == pytest.approx([-0.1, -0.3, 0.1])
    assert right is not None
    assert right.tolist() == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize("given", [None, "alexnet=weights.pth"])
def test_a_preset_says_by_what_network_images_are_compared(given: str | None) -> None:
    """MultiRobustBench takes AlexNet in training as in evaluation (C.1 and C.2)."""
    said = preset_named("multirobustbench-lpips").differences(given)
    assert any("the paper takes AlexNet (--features does)" in sentence for sentence in said) == (given is None)
    assert not any("AlexNet" in sentence for sentence in preset_named("pat").differences())
