import json
import os
import signal
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import robustatlas as ra
from processes import driver
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.data import Dataset, load_dataset
from robustatlas.data.rows import InMemory
from robustatlas.models.architectures import small_cnn
from robustatlas.optimizers.crafting import network_mode
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L2, Linf
from robustatlas.training import (
    RECIPES,
    Opponent,
    Recipe,
    Settings,
    Trained,
    TrainingDisplay,
    adversarial_examples,
    make_opponents,
    read_card,
    recipe_named,
    train,
    trainer,
)
from robustatlas.training.augmentation import augmentation_named
from robustatlas.training.recipes.base import Batch, Memory, Update, accuracy
from robustatlas.training.schedules import schedule_named

FAST = Settings(epochs=2, learning_rate=0.02, monitored=32)
HELPER = "builtin:digits-standard"
AGAINST: dict[str, dict[str, float] | None] = {
    "none": None,
    "one": {"linf": 0.1},
    "any": {"linf": 0.1, "l2": 0.5},
    "several": {"linf": 0.1, "l2": 0.5},
}


def against(name: str) -> dict[str, float] | None:
    return {"lpips": 0.3} if name == "pat" else AGAINST[RECIPES[name].opponents]


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def convolutional(norm: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2),
        nn.BatchNorm2d(4) if norm else nn.Identity(),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(36, 10),
    )


def same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_dataset("digits", "train").take(300)


# --- crafting


@pytest.mark.parametrize("threat", [Linf(), L2()])
def test_adversarial_examples_stay_in_their_sets(threat: ThreatModel, data: Dataset) -> None:
    net = ra.load_model("builtin:digits-standard").net
    x, labels = data.images[:50], data.labels[:50]
    epsilon = torch.linspace(0.01, 0.5, 50)
    found = adversarial_examples(net, threat, x, labels, epsilon, Noise.for_samples(0, data.index[:50], "test"))
    assert bool((threat.size(x, found - x) <= epsilon * (1 + 1e-5)).all())
    assert float(found.min()) >= 0
    assert float(found.max()) <= 1
    with torch.no_grad():
        before, after = (nn.functional.cross_entropy(net(inputs), labels) for inputs in (x, found))
    assert float(after) > 3 * float(before)


def test_examples_do_not_depend_on_the_batch(data: Dataset) -> None:
    net = ra.load_model("builtin:digits-standard").net.double()
    x, labels, epsilon = data.images[:20].double(), data.labels[:20], torch.full((20,), 0.1).double()
    noise = Noise.for_samples(0, data.index[:20], "test")
    whole = adversarial_examples(net, Linf(), x, labels, epsilon, noise)
    parts = [
        adversarial_examples(net, Linf(), x[i], labels[i], epsilon[i], noise.take(i))
        for i in (torch.arange(7), torch.arange(7, 20))
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


def test_modes_of_crafting() -> None:
    net = convolutional().train()
    x = torch.rand(8, 1, 8, 8)
    mean = net[1].running_mean.clone()
    with network_mode(net, "eval"):
        net(x)
        assert not any(module.training for module in net.modules())
    with network_mode(net, "batch"):
        batch = net(x)
        assert not net[4].training
    assert torch.equal(net[1].running_mean, mean)
    assert int(net[1].num_batches_tracked) == 0
    with network_mode(net, "eval"):
        assert not torch.allclose(net(x), batch)
    with network_mode(net, "train"):
        net(x)
    assert not torch.equal(net[1].running_mean, mean)
    assert all(module.training for module in net.modules())


@pytest.mark.parametrize("threat", ["stadv", "elastic", "jpeg-linf", "fog", "affine", "brightness"])
def test_recipes_take_any_threat_model(threat: str) -> None:
    data = load_dataset("digits", "train").take(128)
    wide = replace(data, rows=InMemory(data.images.repeat_interleave(4, 2).repeat_interleave(4, 3)))
    strength = {"fog": 20.0}.get(threat, 0.1)
    net = nn.Sequential(nn.AvgPool2d(4), linear())
    trained = train(net, wide, "max", {threat: strength, "linf": 0.05}, settings=replace(FAST, epochs=1))
    assert set(trained.card.accuracies) == {"clean", threat, "linf", "union"}


# --- training


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_learns_reproducibly_and_goes_on(
    name: str, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights again, and after an interruption in the middle of an epoch, from a checkpoint there."""
    monkeypatch.setattr(trainer, "_CHECKPOINT_SECONDS", 0.0)
    recipe = recipe_named(name, against(name), steps=2, **({"helper": HELPER} if name == "hat" else {}))
    settings = replace(FAST, ema=0.5 if name == "trades" else 0.0, batch_size=64)
    whole = train(convolutional(), data, recipe, settings=settings)
    assert whole.history[-1]["loss"] < whole.history[0]["loss"]
    assert not whole.net.training

    class Stops(TrainingDisplay):
        def update(self, done: int, loss: float | None) -> None:
            if done == 7:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(convolutional(), data, recipe, settings=settings, out=tmp_path, progress=Stops())
    again = train(convolutional(), data, recipe, settings=settings, out=tmp_path)
    assert same(whole.net.state_dict(), again.net.state_dict())
    assert same(whole.net.state_dict(), load_file(tmp_path / "weights.safetensors"))
    assert [r["loss"] for r in whole.history] == [r["loss"] for r in again.history]


def killed(net: nn.Module, out: Path | None) -> Trained:
    settings = Settings(
        epochs=4, optimizer="sgd", learning_rate=0.05, weight_decay=1e-3, augmentation="crop+flip", clip_norm=1.0,
        ema=0.9, selection="best", batch_size=32,
    )  # fmt: skip
    torch.set_num_threads(1)
    recipe = recipe_named("avg", {"linf": 0.1, "l2": 0.5}, steps=2, sequential=True)
    return train(net, load_dataset("digits", "train").take(300), recipe, settings=settings, out=out)


def train_until_killed(out: str, when: str) -> None:
    """Die at the twentieth pass, or at the twentieth after a checkpoint, which may be within an epoch."""
    trainer._CHECKPOINT_SECONDS = 0.2
    net, checkpoint, passes = convolutional(), Path(out) / "checkpoint.safetensors", 0
    before = checkpoint.stat().st_mtime_ns if checkpoint.is_file() else 0

    def die(*_: Any) -> None:
        nonlocal passes
        passes += when == "early" or (checkpoint.is_file() and checkpoint.stat().st_mtime_ns > before)
        if passes == 20:
            os.kill(os.getpid(), signal.SIGKILL)

    net.register_forward_pre_hook(die)
    killed(net, Path(out))


def test_killed_anywhere_it_ends_at_the_same_weights(tmp_path: Path) -> None:
    """SIGKILL before the first checkpoint and some passes after one; the weights are those without."""
    out = tmp_path / "killed"
    for when in ("early", "saved"):
        training = driver(train_until_killed, str(out), when)
        training.join()
        assert training.exitcode == -signal.SIGKILL
    killed(convolutional(), out)
    whole = killed(convolutional(), None)
    assert same(whole.net.state_dict(), load_file(out / "weights.safetensors"))
    card = read_card(out)
    assert card.weights_sha256 == whole.card.weights_sha256
    assert card.epoch == whole.card.epoch
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [r["loss"] for r in log] == [r["loss"] for r in whole.history]


def test_adversarial_training_makes_robust(data: Dataset) -> None:
    test = load_dataset("digits")
    robust = {}
    for name, strengths in (("standard", None), ("pgd", {"linf": 0.1})):
        net = train(linear(), data, name, strengths, settings=Settings(epochs=25, learning_rate=0.03)).net
        x = adversarial_examples(
            net, Linf(), test.images, test.labels, torch.full((600,), 0.1), Noise.for_samples(0, test.index, "test")
        )
        robust[name] = float((net(x).argmax(1) == test.labels).float().mean())
    assert robust["pgd"] > robust["standard"] + 0.1


def test_fashion_mnist_row(tmp_path: Path) -> None:
    """1,500 images, four epochs of five steps at linf 0.1: far more robust than standard training."""
    try:
        data = load_dataset("fashion-mnist", "train").take(1500)
    except UserError:
        pytest.skip("Fashion-MNIST is not here")
    robust = {}
    for name, strengths in (("standard", None), ("pgd", {"linf": 0.1})):
        torch.manual_seed(0)
        net, epochs = small_cnn(), 4 if strengths else 10
        recipe = recipe_named(name, strengths, steps=5) if strengths else recipe_named(name)
        train(net, data, recipe, settings=Settings(epochs=epochs), out=tmp_path / name)
        held = load_dataset("fashion-mnist").take(300)
        x = adversarial_examples(
            net, Linf(), held.images, held.labels, torch.full((300,), 0.1), Noise.for_samples(0, held.index, "test")
        )
        robust[name] = 100 * float((net(x).argmax(1) == held.labels).float().mean())
    assert robust["pgd"] > 40
    assert robust["pgd"] > robust["standard"] + 20


def test_the_card_says_what_was_done(data: Dataset, tmp_path: Path) -> None:
    settings = Settings(epochs=3, selection="best", seed=4, learning_rate=0.02)
    trained = train(linear(), data, "trades", {"linf": 0.1}, settings=settings, out=tmp_path, architecture="linear")
    card = read_card(tmp_path)
    assert card == trained.card
    assert (card.architecture, card.parameters, card.trained_on) == ("linear", 650, {"linf": 0.1})
    assert card.identity.recipe["name"] == "trades"
    assert card.identity.recipe["beta"] == 6.0
    assert card.identity.settings["seed"] == 4
    assert (card.identity.data.images, card.identity.data.held_out) == (300, 30)
    assert card.accuracies["linf"] == card.accuracies["union"] <= card.accuracies["clean"]
    assert card.epoch == 1 + [r["robust"] for r in trained.history].index(max(r["robust"] for r in trained.history))
    assert {"torch", "robustatlas"} <= set(card.versions)
    finished = train(linear(), data, "trades", {"linf": 0.1}, settings=settings, out=tmp_path)
    assert finished.card == card
    assert same(finished.net.state_dict(), trained.net.state_dict())


def test_new_recipes_need_no_registry(data: Dataset) -> None:
    class Noisy(Recipe):
        name = "noisy"
        opponents = "none"

        def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
            logits = net(batch.x + 0.1 * batch.noise.normal(*batch.x.shape[1:]))
            return Update(self.cross_entropy(logits, batch.labels), accuracy(logits, batch.labels))

    assert train(linear(), data, Noisy(), settings=FAST).card.identity.recipe["name"] == "noisy"


def test_options_take_part(data: Dataset) -> None:
    plain = train(linear(), data, "standard", settings=FAST).net.state_dict()
    for change in (
        {"augmentation": "crop"},
        {"clip_norm": 0.01},
        {"clip_value": 0.001},
        {"weight_decay": 0.1},
        {"optimizer": "sgd"},
        {"optimizer": "adamw", "weight_decay": 0.1, "decay_vectors": False},
        {"augmentation": "resized-crop+flip"},
        {"cutmix": 0.5},
        {"ema": 0.9},
        {"swa_from": 1},
        {"precision": "bfloat16"},
        {"warmup_epochs": 1.0},
        {"seed": 1},
        {"batch_size": 50},
    ):
        changed = train(linear(), data, "standard", settings=replace(FAST, **change)).net.state_dict()  # type: ignore[arg-type]
        assert not same(plain, changed), change


def test_random_numbers_of_the_caller_are_kept(data: Dataset) -> None:
    net = convolutional()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(net, data, "standard", settings=FAST)
    assert torch.equal(torch.rand(3), expected)


# --- schedules and augmentation


@pytest.mark.parametrize(
    ("name", "times", "factors"),
    [
        ("constant", (0.1, 9), (1, 1)),
        ("piecewise", (4.9, 5, 7.4, 7.5, 10), (1, 0.1, 0.1, 0.01, 0.01)),
        ("piecewise-ft", (3.3, 3.4, 6.7), (1, 0.1, 0.01)),
        ("cyclic", (0, 2, 4, 7, 10), (0, 0.5, 1, 0.5, 0)),
        ("tri", (2, 4, 6, 8, 9, 10), (0.5, 1, 0.525, 0.05, 0.025, 0)),
        ("cosine", (0, 5, 10), (1, 0.5, 0)),
        ("triangle", (0, 2.5, 5, 10), (0, 0.5, 1, 0)),
        ("one-cycle", (0, 2, 10), (0.04, 1, 4e-6)),
        ("step:2,6", (1.9, 2, 6), (1, 0.1, 0.01)),
    ],
)
def test_schedules(name: str, times: tuple[float, ...], factors: tuple[float, ...]) -> None:
    assert [schedule_named(name)(t, 10) for t in times] == pytest.approx(factors)


def test_warm_up_of_the_learning_rate() -> None:
    settings = Settings(epochs=10, learning_rate=0.1, schedule="constant", warmup_epochs=5)
    assert [settings.rate(step, 2) for step in (0, 4, 9, 10)] == pytest.approx([0.01, 0.05, 0.1, 0.1])


def test_augmentation_belongs_to_the_sample() -> None:
    x, noise = torch.rand(6, 3, 8, 8), Noise.for_samples(0, torch.arange(6), "test")
    whole = augmentation_named("crop+flip")(x, noise)
    rows = torch.tensor([4, 1])
    assert torch.equal(augmentation_named("crop+flip")(x[rows], noise.take(rows)), whole[rows])
    padded = nn.functional.pad(x, (4, 4, 4, 4))
    cropped = augmentation_named("crop")(x, noise)
    for image, source in zip(cropped, padded, strict=True):
        windows = source.unfold(1, 8, 1).unfold(2, 8, 1).permute(1, 2, 0, 3, 4).reshape(-1, 3, 8, 8)
        assert bool((windows == image).flatten(1).all(1).any())


GREY = load_dataset("digits", "train").take(60)


def test_tied_weights_are_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10))
    net[2].weight = net[1].weight
    train(net, GREY, settings=FAST, out=tmp_path)
    tensors = load_file(tmp_path / "weights.safetensors")
    assert torch.equal(tensors["1.weight"], tensors["2.weight"])


def test_opponents_of_ones_own() -> None:
    mine = Opponent("mine", Linf(), 0.1, make_opponents({"linf": 0.1}, steps=3)[0].optimizer)
    assert train(linear(), GREY, recipe_named("pgd", [mine]), settings=FAST).card.trained_on == {"mine": 0.1}
    with pytest.raises(UserError, match="against= belongs to"):
        train(linear(), GREY, recipe_named("pgd", [mine]), {"linf": 0.1})


class WithHeads(nn.Module):
    """As networks with auxiliary heads are: several outputs in training, logits alone otherwise."""

    def __init__(self, give: Any) -> None:
        super().__init__()
        self.logits, self.aside, self.give = linear(), nn.Linear(64, 10), give

    def forward(self, x: Tensor) -> Any:
        logits = self.logits(x)
        return self.give(logits, self.aside(x.flatten(1))) if self.training else logits


class Outputs(NamedTuple):
    """Of torchvision's networks with auxiliary heads."""

    logits: Tensor
    aux_logits: Tensor


HEADS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a tuple": lambda logits, aside: (logits, aside),
    "named": Outputs,
    "a dict": lambda logits, aside: {"logits": logits, "aside": aside},
    "a batch of one": lambda logits, aside: logits.squeeze(),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", HEADS)
def test_networks_that_return_more_are_trained_on_their_logits(kind: str, compiled: bool) -> None:
    """To the very weights of the network without heads; of 61 images in batches of 20 one is left over."""
    data, settings = ra.load_dataset("digits", "train").take(61), replace(FAST, batch_size=20, held_out=0)
    alone = train(linear(), data, "pgd", {"linf": 0.05}, settings=settings, progress=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        net: Any = WithHeads(HEADS[kind])
        net.logits.load_state_dict(linear().state_dict())
        given = torch.compile(net, backend="eager") if compiled else net
        trained = train(given, data, "pgd", {"linf": 0.05}, settings=settings, progress=False)
    assert same(net.logits.state_dict(), alone.net.state_dict())
    assert [record["loss"] for record in trained.history] == [record["loss"] for record in alone.history]
    told = [str(each.message) for each in said if "auxiliary heads" in str(each.message)]
    assert len(told) == (kind in ("a tuple", "named"))
    assert not given._forward_hooks, "nothing stays on the network"


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_scripted_networks_are_trained() -> None:
    settings = replace(FAST, held_out=0)
    alone, scripted = (train(net, GREY, settings=settings) for net in (linear(), torch.jit.script(linear())))
    assert same(scripted.net.state_dict(), alone.net.state_dict())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_works_where_gradients_are_off(mode: Any) -> None:
    alone = train(linear(), GREY, "pgd", {"linf": 0.05}, settings=FAST)
    net = linear()
    with mode():
        data = Dataset.from_arrays(GREY.images * 1, GREY.labels, GREY.name)
        trained = train(net, data, "pgd", {"linf": 0.05}, settings=FAST)
    assert same(trained.net.state_dict(), alone.net.state_dict())
