"""On a GPU as on a processor: what is found, certified and trained there, how often the host waits for it, and what
happens when its memory runs out. Skipped where there is none."""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import brief
from host_waits import Waits
from robustatlas.attacks.catalogue import catalogue
from robustatlas.common.host import SYNC_INTERVAL, sync_every
from robustatlas.models.classifier import Precision
from robustatlas.training import RECIPES, recipe_named, train
from test_training import FAST, against, convolutional

GPU = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU, or hidden: make test-gpu shows it")


def network() -> nn.Module:
    """In double precision: what rounding decides otherwise is decided alike on every device."""
    torch.manual_seed(3)
    layers = nn.Conv2d(3, 6, 3, stride=2), nn.GELU(), nn.Conv2d(6, 8, 3, stride=2), nn.GELU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(392, 4)).double().eval()


def images(net: nn.Module, count: int = 6) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        return x, net(x).argmax(1)


def digits(device: str, precision: Precision = "float32") -> ra.Classifier:
    return ra.load_model("builtin:digits-linf", device=device, precision=precision)


def differing(one: ra.Result, other: ra.Result, strength: float) -> int:
    """Samples that linf of this strength fools in one result alone."""
    first, second = (result.minimal_size("linf") <= strength for result in (one, other))
    return int((first != second).sum())


@pytest.mark.parametrize("name", [name for name in catalogue() if name != "lpips"])
def test_every_attack_finds_there_what_it_finds_here(name: str) -> None:
    net = network()
    attack = brief(catalogue()[name].on_images((32, 32)))

    def found(device: str) -> ra.Result:
        model = ra.Classifier(copy.deepcopy(net), device=device, name="net")
        with sync_every(SYNC_INTERVAL):
            return ra.evaluate(model, images(net), attack, diagnose=False, audit=0, progress=False)

    here, there = found("cpu").outcome(attack.name), found(GPU).outcome(attack.name)
    np.testing.assert_array_equal(there.fooled, here.fooled)
    np.testing.assert_allclose(there.minimal_size, here.minimal_size, rtol=1e-6)


@pytest.mark.parametrize("search", ["descent", "bisection", "every", "frontier", "minimum"])
def test_every_search_works_there(search: ra.attacks.definition.Search) -> None:
    data, strengths = ra.load_dataset("digits").take(24), {"linf": [0.05, 0.1, 0.2]}
    here, there = (
        ra.evaluate(digits(device), data, "linf", search, strengths=strengths, diagnose=False, audit=0, progress=False)
        for device in ("cpu", GPU)
    )
    assert differing(here, there, 0.1) <= 1


def test_the_batch_changes_nothing() -> None:
    net = network()
    model = ra.Classifier(net, device=GPU)

    def sizes(batch: int) -> np.ndarray:
        found = ra.evaluate(
            model, images(network(), 12), ["linf", "l2", "elastic"], batch_size=batch, audit=0, progress=False
        )
        return np.stack([found.minimal_size(name) for name in found.attacks])

    np.testing.assert_allclose(sizes(5), sizes(256), rtol=1e-6)


def test_what_began_there_goes_on_here(tmp_path: Path) -> None:
    data = ra.load_dataset("digits").take(12)
    begun = ra.evaluate(digits(GPU), data, "linf", samples=6, run=tmp_path, audit=0, progress=False)
    whole = ra.evaluate(digits("cpu"), data, "linf", run=tmp_path, audit=0, progress=False)
    assert len(whole.index) == 12
    np.testing.assert_array_equal(whole.minimal_size("linf")[:6], begun.minimal_size("linf"))


def test_what_is_found_there_fools_here() -> None:
    data = ra.load_dataset("digits").take(16)
    result = ra.evaluate(digits(GPU), data, ["linf", "l2"], keep_adversarial=True, audit=0, progress=False)
    model = digits("cpu")
    for name in ("linf", "l2"):
        index, found = result.adversarial(name)
        labels = data.labels[torch.as_tensor(index)]
        with torch.no_grad():
            said = model.logits(torch.as_tensor(found)).argmax(1)
        assert len(index) > 0
        assert (said != labels).double().mean() > 0.9  # rounding decides the rest: they lie at the border


@contextmanager
def by_waiting(note: Callable[[], None]) -> Iterator[None]:
    """Calls ``note`` where torch says that the host waits for the device."""

    def heard(message: object, category: object, *rest: object, **named: object) -> None:
        if "synchronizing CUDA operation" in str(message):
            note()

    with warnings.catch_warnings(), mock.patch.object(warnings, "showwarning", heard):
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ["linf", "l1", "elastic", "snow"])
def test_the_loop_waits_at_most_once_in_three_steps(name: str) -> None:
    net = network().float()
    model, attack = ra.Classifier(net, device=GPU), catalogue()[name].on_images((32, 32))
    x, labels = images(network(), 16)
    data = x.float(), labels
    ra.evaluate(model, data, attack, samples=2, progress=False)  # constants are sent once
    waits = Waits(by_waiting)
    with waits.counting():
        ra.evaluate(model, data, attack, batch_size=8, shard_size=16, diagnose=False, audit=0, progress=False)
    assert 0 < sum(waits.lines.values()) <= waits.steps / 3, waits.lines.most_common(5)


class Wide(nn.Module):
    """Needs some 25 MB a sample, and four times as much on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.asked = digits("cpu").net, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(len(x))
        wide = x.flatten(1).repeat(1, 100_000)
        out: Tensor = self.net(x) + 0 * wide.square().mean(1, keepdim=True)
        return out


def test_half_the_batch_is_taken_where_memory_runs_out() -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    data = ra.load_dataset("digits").take(64)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((4 << 30) / total)
    try:
        wide = Wide().to(GPU).eval()
        model = ra.Classifier(wide)
        found = ra.evaluate(model, data, "linf", diagnose=False, audit=0, progress=False)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    usual = ra.evaluate(digits(GPU), data, "linf", diagnose=False, audit=0, progress=False)
    assert differing(found, usual, 0.1) <= 2
    assert max(wide.asked) == 64 and len(set(wide.asked)) > 1


def test_two_workers_share_a_device() -> None:
    data = ra.load_dataset("digits").take(16)
    alone = ra.evaluate(digits(GPU), data, "linf", audit=0, progress=False)
    shared = ra.evaluate(digits(GPU), data, "linf", devices=["cuda:0", "cuda:0"], audit=0, progress=False)
    np.testing.assert_allclose(shared.minimal_size("linf"), alone.minimal_size("linf"), rtol=1e-3)


@pytest.mark.parametrize("way", ["tf32", "bfloat16", "compiled"])
def test_other_ways_to_compute_find_about_the_same(way: Precision | Literal["compiled"]) -> None:
    data, usual = ra.load_dataset("digits").take(64), digits(GPU)
    other = ra.Classifier(usual.net, compiled=True) if way == "compiled" else digits(GPU, precision=way)
    found = [ra.evaluate(model, data, "linf", batch_size=64, audit=0, progress=False) for model in (usual, other)]
    assert differing(*found, 0.1) <= 6


def test_the_batch_is_chosen_there() -> None:
    data = ra.load_dataset("digits").take(40)
    found = ra.evaluate(digits(GPU), data, "linf", batch_size="auto", audit=0, progress=False)
    assert np.isfinite(found.minimal_size("linf")).any()


@pytest.mark.parametrize("name", ["interval", "crown", "beta-crown", "smoothing"])
def test_every_certificate_says_there_what_it_says_here(name: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)).double().eval()
    x = torch.rand(4, 1, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        data = x, net(x).argmax(1)
    asked = "l2" if name == "smoothing" else "linf"

    def sizes(device: str) -> np.ndarray:
        model = ra.Classifier(copy.deepcopy(net), device=device, name="net")
        certified = ra.certify(model, data, asked, method=name, progress=False).certified_sizes
        (row,) = certified.values()
        return row.sizes

    np.testing.assert_allclose(sizes(GPU), sizes("cpu"), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_trains_there(name: str) -> None:
    data = ra.load_dataset("digits", "train").take(128)
    helper = {"helper": "builtin:digits-standard"} if name == "hat" else {}
    recipe = recipe_named(name, against(name), steps=2, **helper)
    settings = replace(FAST, batch_size=32)
    net = convolutional()
    trained = train(net, data, recipe, settings=settings, device=GPU, progress=False)
    assert next(trained.net.parameters()).is_cuda
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]


def test_a_network_is_diagnosed_there() -> None:
    data = ra.load_dataset("digits").take(24)
    said = ra.diagnose(digits(GPU), data)
    here = ra.diagnose(digits("cpu"), data)
    assert (said.verdict, said.flags) == (here.verdict, here.flags)
