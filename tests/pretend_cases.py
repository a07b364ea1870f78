"""What is done twice, on the CPU and on the pretend accelerator, in a process that has one; ``test_pretend.py``
compares the answers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

import pretend
import robustatlas as ra
from command_line import entered
from helpers_core import FEW, brief
from host_waits import Waits, waiting
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.host import SYNC_INTERVAL, sync_every
from robustatlas.engine import loop
from robustatlas.models.defenses import BitDepthReduction, Defended
from robustatlas.threats.features import load_features
from robustatlas.threats.imagenet_ua import latents
from robustatlas.threats.perceptual import PerceptualDistance
from robustatlas.training import RECIPES, Recipe, Settings, recipe_named

Arrays = dict[str, NDArray[Any]]
CLASSES = 3
LONG = {"steps": SYNC_INTERVAL - 1, "inner_steps": SYNC_INTERVAL - 1, "search_steps": 2, "restarts": 1}
"""Runs from look to look."""


@dataclass(frozen=True)
class Both:
    """What either device said; how often the host waited while runs of a kind were made, by line, in how many
    steps."""

    cpu: Arrays
    accelerator: Arrays
    waits: dict[str, int]
    steps: int


def begin() -> None:
    torch.set_num_threads(1)
    latents.DRAWS = 4  # here, as everywhere in this process, fewer draws to choose among
    pretend.install(waiting)


def on_both(answers: Callable[[str], Arrays]) -> Both:
    with sync_every(SYNC_INTERVAL):
        cpu = answers("cpu")
    waits, run_kind = Waits(pretend.heard), loop._run_kind

    def heard(*arguments: Any) -> None:
        with pretend.heard(waits.note):
            run_kind(*arguments)

    with mock.patch.object(loop, "_run_kind", heard), waits.counting_steps():
        accelerator = answers(pretend.NAME)
    return Both(cpu, accelerator, dict(waits.lines), waits.steps)


# --- models and data


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(196, CLASSES),
    ).eval()


class Drawing(nn.Module):
    """Adds noise to its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x + 0.1 * torch.randn_like(x))


class Scoring(nn.Module):
    """Returns a score of rejection too."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, float]:
        logits = self.net(x)
        return logits, -logits.amax(1), 10.0


MODELS: dict[str, Callable[[str], ra.Classifier]] = {
    "plain": lambda device: ra.Classifier(network(), mean=(0.4, 0.5, 0.6), std=0.5, device=device),
    "drawing": lambda device: ra.Classifier(Drawing(), draws=4, device=device),
    "rejecting by class": lambda device: ra.Classifier(network(), rejection="class", device=device),
    "rejecting by score": lambda device: ra.Classifier(Scoring(), rejection="score", device=device),
    "labels alone": lambda device: ra.Classifier(network(), knowledge="labels", device=device),
    "defended": lambda device: ra.Classifier(Defended(network(), BitDepthReduction(4)), device=device),
}


def samples(model: ra.Classifier, count: int, side: int = 16) -> tuple[Tensor, Tensor]:
    """Images, labelled as the model answers, but for the last."""
    x = torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(4))
    with torch.no_grad(), model.evaluating():
        logits = model.logits(x.to(model.device)).cpu()
    labels = logits[:, : CLASSES - (model.rejection == "class")].argmax(1)
    labels[-1] = (labels[-1] + 1) % 2
    return x, labels


def columns(result: ra.Result) -> Arrays:
    found = {"clean": result.clean}
    for attack in result.attacks:
        outcome = result.outcome(attack)
        known = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
        found |= {f"{attack} {name}": each for name, each in known.items() if isinstance(each, np.ndarray)}
    return found


def pictures(result: ra.Result) -> Arrays:
    return {f"{attack} examples": result.adversarial(attack)[1] for attack in result.attacks}


# --- evaluations


def sparing(attack: Attack) -> Attack:
    """The attack with fewer draws to choose among, where it says itself how many."""
    drawn = getattr(attack.threat, "draws", 0)
    return replace(attack, threat=replace(attack.threat, draws=drawn // 4)) if drawn else attack


def evaluated(
    attacks: Sequence[str],
    protocol: str = "default",
    model: str = "plain",
    side: int = 16,
    most: Mapping[str, int] = FEW,
    count: int = 4,
    runs: int = 2,
    diagnose: bool = False,
    **options: Any,
) -> Both:
    """A few steps of each attack, on so many samples."""

    def answers(device: str) -> Arrays:
        given = MODELS[model](device)
        short = [brief(sparing(attack_named(name, protocol)), most=most, runs=runs) for name in attacks]
        asked = {"keep_adversarial": True, "diagnose": diagnose, "progress": False} | options
        result = ra.evaluate(given, samples(given, count, side), short, **asked)
        return columns(result) | pictures(result)

    return on_both(answers)


def further(attack: str) -> Both:
    """Waits and steps on the accelerator of four more samples than the four that are at work at once: those of the
    loop, and not what an evaluation takes to begin and end."""
    given, known = MODELS["plain"](pretend.NAME), catalogue()[attack]
    lengthy = brief(known, [known.strengths[0] / 8], LONG)
    x, labels = samples(given, 9)

    def waited(count: int) -> Any:
        waits = Waits(pretend.heard)
        with waits.counting():
            ra.evaluate(given, (x[:count], labels[:count]), lengthy, batch_size=4, progress=False)
        return waits

    few, many = waited(4), waited(8)
    many.lines.subtract(few.lines)
    return Both({}, {}, dict(many.lines), many.steps - few.steps)


def behind_a_defense() -> Both:
    def answers(device: str) -> Arrays:
        given = MODELS["defended"](device)
        suite = [brief(attack, attack.strengths[:2]) for attack in resolve_attacks("input-transformation")]
        return columns(ra.evaluate(given, samples(given, 3), suite, progress=False))

    return on_both(answers)


def by_features_of_a_file(folder: Path) -> Both:
    """The perceptual distance by a network that is read to the CPU."""
    distance = PerceptualDistance(load_features("alexnet_cifar", weights_of_a_backbone(folder)))
    attack = catalogue()["lpips"]
    compared = brief(replace(attack, threat=replace(attack.threat, distance=distance)))

    def answers(device: str) -> Arrays:
        given = MODELS["plain"](device)
        return columns(ra.evaluate(given, samples(given, 3), compared, progress=False))

    return on_both(answers)


def weights_of_a_backbone(folder: Path) -> Path:
    """Weights of no meaning for ``alexnet_cifar``."""
    torch.manual_seed(5)
    sizes = {0: (64, 3, 3), 3: (192, 64, 3), 6: (384, 192, 3), 8: (256, 384, 3), 10: (256, 256, 3)}
    weights = {}
    for number, (width, channels, kernel) in sizes.items():
        weights[f"features.{number}.weight"] = torch.randn(width, channels, kernel, kernel) / (channels**0.5 * kernel)
        weights[f"features.{number}.bias"] = torch.zeros(width)
    file = folder / "backbone.safetensors"
    save_file(weights, file)
    return file


def resumed(folder: Path) -> tuple[Arrays, Arrays]:
    """A run that the CPU began and the accelerator ends, and one of the CPU alone."""
    attack = brief(catalogue()["linf"])
    cpu, there = MODELS["plain"]("cpu"), MODELS["plain"](pretend.NAME)
    data = samples(cpu, 6)
    with sync_every(SYNC_INTERVAL):
        whole = columns(ra.evaluate(cpu, data, attack, progress=False))
        ra.evaluate(cpu, data, attack, samples=3, run=folder / "run", progress=False)
    return whole, columns(ra.evaluate(there, data, attack, run=folder / "run", progress=False))


def verified() -> Both:
    """Other people's examples, judged."""

    def answers(device: str) -> Arrays:
        given = MODELS["plain"](device)
        x, labels = samples(given, 6)
        result = ra.evaluate(given, (x, labels), brief(catalogue()["linf"]), progress=False)
        images = x.lerp(x.flip(0), torch.linspace(0, 1, 6).view(-1, 1, 1, 1)).numpy()
        found = ra.verify(result, {"images": images}, "a rival", model=given, data=(x, labels))
        return columns(found.result) | {"verified": found.verified}

    return on_both(answers)


MODEL_FILE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pretend_cases import network
"""


def gallery(folder: Path) -> Both:
    """The picture that the command line draws, whose perceptual distance is by features of a file."""
    code, data, weights = folder / "model.py", folder / "data.npz", weights_of_a_backbone(folder)
    code.write_text(MODEL_FILE)
    x, labels = samples(MODELS["plain"]("cpu"), 3)
    np.savez(data, images=x.numpy(), labels=labels.numpy())

    def answers(device: str) -> Arrays:
        picture = folder / f"{device}.png"
        command = ["gallery", f"{code}:network", "--data", str(data), "--attacks", "linf,lpips", "--columns", "1"]
        entered(*command, "--features", f"alexnet_cifar={weights}", "--device", device, "-o", picture)
        return {"picture": np.frombuffer(picture.read_bytes(), np.uint8)}

    return on_both(answers)


# --- training


def trained(recipe: str, settings: Mapping[str, Any] | None = None) -> Both:
    """The weights after two epochs, and what the card says; waits and forward passes inside the recipe's updates."""
    data = ra.load_dataset("digits", "train").take(60)
    given = Settings(**{"epochs": 2, "batch_size": 20, "learning_rate": 0.01, "held_out": 12} | dict(settings or {}))

    def answers(device: str) -> Arrays:
        torch.manual_seed(1)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
        steps = net.register_forward_pre_hook(lambda *_: made.update(steps=made["steps"] + 1))
        done = ra.train(net, data, opposed(recipe), settings=given, device=device, progress=False)
        steps.remove()
        weights = {name: value.cpu().numpy() for name, value in done.net.state_dict().items()}
        return weights | {name: np.array(share) for name, share in done.card.accuracies.items()}

    made: Counter[str] = Counter()
    with sync_every(SYNC_INTERVAL):
        cpu = answers("cpu")
    made.clear()
    waits, kind = Waits(pretend.heard), RECIPES[recipe]
    update = kind.update

    def counted(*arguments: Any) -> Any:
        before = made["steps"]
        with pretend.heard(waits.note):
            answer = update(*arguments)
        waits.steps += made["steps"] - before
        return answer

    with mock.patch.object(kind, "update", counted):
        accelerator = answers(pretend.NAME)
    return Both(cpu, accelerator, dict(waits.lines), waits.steps)


def opposed(name: str) -> Recipe:
    """The recipe against as many and such threat models as it takes."""
    more = {"helper": "builtin:digits-standard"} if name == "hat" else {}
    for against in ({}, {"linf": 0.1}, {"lpips": 0.5}, {"linf": 0.1, "l1": 5.0}):
        with suppress(ra.UserError):
            return recipe_named(name, against or None, 4, **more)
    raise AssertionError(f"{name} takes none of the threat models tried here")


# --- what belongs to the device itself


def said_by_the_device() -> dict[str, int]:
    """Waits of single operations."""
    x = torch.arange(6.0, device=pretend.NAME).view(2, 3)
    asked: dict[str, Callable[[], Any]] = {
        "item": lambda: x.sum().item(),
        "bool": lambda: bool((x > 0).any()),
        "tolist": x.tolist,
        "cpu": x.cpu,
        "to": lambda: torch.zeros(3).to(pretend.NAME),
        "copy_": lambda: x.copy_(torch.ones(2, 3)),
        "tensor": lambda: torch.tensor([1.0], device=pretend.NAME),
        "nonzero": lambda: x.nonzero(),
        "mask": lambda: x[x > 2],
        "arithmetic": lambda: torch.where(x > 2, x * 2, x + torch.tensor(1.0)).matmul(x.T).cumsum(1),
        "index": lambda: x[torch.arange(2, device=pretend.NAME)],
        "dtype": lambda: x.double(),
        "made": lambda: torch.eye(3, device=pretend.NAME) + torch.randperm(3, device=pretend.NAME),
    }
    counts: Counter[str] = Counter()
    for name, ask in asked.items():
        with pretend.heard(lambda name=name: counts.update([name])):
            ask()
    return {name: counts[name] for name in asked}


def refused_by_the_device() -> list[str]:
    """What mixing devices raises."""
    here, cpu = torch.ones(3, device=pretend.NAME), torch.ones(3)
    attempts = [
        lambda: here + cpu, lambda: cpu * here, lambda: torch.cat([here, cpu]), lambda: here.add_(cpu),
        lambda: cpu.mul_(here), lambda: torch.where(cpu > 0, here, here), lambda: here.numpy(),
    ]  # fmt: skip
    messages = []
    for attempt in attempts:
        try:
            attempt()
            messages.append("")
        except RuntimeError as error:
            messages.append(str(error))
    return messages


def kept_generators() -> Arrays:
    """The device's random state before and after an evaluation and a training that draw."""
    module = torch.get_device_module(pretend.NAME)
    given = MODELS["plain"](pretend.NAME)
    data = samples(given, 2)
    module.manual_seed(7)
    before = module.get_rng_state().numpy()
    ra.evaluate(given, data, brief(catalogue()["linf"]), progress=False)
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))
    digits = ra.load_dataset("digits", "train").take(20)
    ra.train(net, digits, settings=Settings(epochs=1, held_out=0), device=pretend.NAME, progress=False)
    return {"before": before, "after": module.get_rng_state().numpy()}
