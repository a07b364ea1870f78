"""How often the host looks: what is found does not depend on it, and it does not wait in between."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from helpers_core import brief
from host_waits import Waits, by_dispatch, measured
from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import AttackRun, ProtocolName, Search
from robustatlas.common.host import (
    SYNC_INTERVAL,
    cached_tensor,
    constant_tensor,
    maybe_any,
    sync_every,
    sync_interval,
    to_host,
    true_rows,
)
from robustatlas.models.classifier import Precision
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.brendel_bethge import BrendelBethge
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes import Outcome
from robustatlas.threats.jpeg import JpegL1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_loop_waits_at_most_once_in_four_steps(precision: Precision) -> None:
    name = "jpeg-linf"
    model, data = ra.load_model("builtin:digits-linf", precision=precision), ra.load_dataset("digits")
    images = data.images[:8], data.labels[:8]
    ra.evaluate(model, images, name, samples=2, progress=False)  # constants are sent once
    waits, _ = measured(model, images, name, 8, SYNC_INTERVAL)
    count = sum(waits.lines.values())
    assert 0 < count <= waits.steps / 4, waits.lines.most_common(3)
    assert all("to_host(" in line for line in waits.lines), "only where it looks"


def test_what_waits_is_counted() -> None:
    waits, x = Waits(), torch.rand(5)

    def each(ask: object) -> int:
        waits.lines.clear()
        with by_dispatch(waits.note):
            ask()  # type: ignore[operator]
        return sum(waits.lines.values())

    for ask in (lambda: bool(x.any()), lambda: x.sum().item(), lambda: x.nonzero(), lambda: x[x > 0.5], x.tolist,
                lambda: torch.tensor([1.0]), x.cpu):  # fmt: skip
        assert each(ask) == 1
    assert each(lambda: torch.where(x > 0.5, 0.0, x)[torch.arange(3)]) == 0


STEPS = {
    "PGD in linf": ("linf", AttackRun(PGD(40), "cross-entropy"), 135),
    "PGD in l2": ("l2", AttackRun(PGD(40), "cross-entropy"), 139),
    "APGD in linf": ("linf", AttackRun(APGD(40), "dlr"), 216),
    "APGDL1 in l1": ("l1", AttackRun(APGDL1(40), "margin"), 366),
    "FMN in linf": ("linf", AttackRun(FMN(40), "margin"), 160),
    "FMN in l2": ("l2", AttackRun(FMN(40), "margin"), 163),
    "FMN in l1": ("l1", AttackRun(FMN(40, dense=True), "margin"), 228),
    "FAB in l2": ("l2", AttackRun(FAB(40), "margin", targets="logits"), 364),
    "BrendelBethge in l1": ("l1", AttackRun(BrendelBethge(40), "margin"), 173),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_launches_few_kernels_and_seldom_waits(name: str) -> None:
    """Launches of the network, some forty, are among them; where there are far fewer, the bound is to be lowered."""
    norm, run, most = STEPS[name]
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(16)
    attack = replace(
        catalogue()[norm], runs=(run,), search_order=(), strengths=(0.01 * catalogue()[norm].strengths[-1],)
    )
    images = data.images, data.labels
    ra.evaluate(model, images, attack, progress=False)  # constants are sent once
    waits, _ = measured(model, images, attack, 16, SYNC_INTERVAL)
    launches = waits.launches.count / waits.steps
    assert 0.9 * most <= launches <= most
    assert 0 < sum(waits.lines.values()) <= 0.3 * waits.steps, waits.lines.most_common(3)


@pytest.mark.parametrize("search", ["descent", "frontier"])
def test_margins_of_a_rough_search_are_the_same(search: Search) -> None:
    """However long they wait to be computed in full precision: looking seldom, eight steps' are entered together."""
    model, data = ra.load_model("builtin:digits-linf", precision="bfloat16"), ra.load_dataset("digits")
    attack = brief(catalogue()["linf"], (0.05, 0.1, 0.2))

    def found(steps: int) -> Outcome:
        with sync_every(steps):
            images = data.images[:4], data.labels[:4]
            return ra.evaluate(model, images, attack, search, batch_size=1, progress=False).outcome("linf")

    always, seldom = found(1), found(8)
    np.testing.assert_array_equal(always.margins, seldom.margins)
    np.testing.assert_array_equal(always.minimal_size, seldom.minimal_size)
    assert np.isfinite(always.margins[:, -1]).all()


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(196, 3)).double()


@pytest.mark.parametrize(
    ("name", "protocol"),
    [("lpips", "default"), ("snow", "default"), ("patch", "default"), ("lpips", "paper"), ("jpeg-l1", "paper")],
)
def test_images_are_attacked_alike(network: nn.Module, name: str, protocol: ProtocolName) -> None:
    x = torch.rand(2, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    data = x, network(x).argmax(1)
    attack = brief(catalogue(protocol)[name])
    attack = replace(attack, strengths=tuple(strength / 2 for strength in attack.strengths))

    def found(steps: int) -> ra.Result:
        with sync_every(steps):
            return ra.evaluate(network, data, attack, batch_size=1, progress=False)

    always, seldom = found(1).outcome(name), found(8).outcome(name)
    for column in ("minimal_strength", "found_class", "margins", "fooled"):
        np.testing.assert_array_equal(getattr(always, column), getattr(seldom, column), column)
    # snow's size is a mean, summed by another way in other layouts: equal up to the last digit
    np.testing.assert_allclose(always.minimal_size, seldom.minimal_size, 1e-15 if name == "snow" else 0)


@pytest.mark.parametrize("name", ["linf", "affine", "elastic"])
def test_looking_seldom_costs_few_passes(name: str) -> None:
    """Runs that rules end after a few steps do not wait for the next look until they are twice as long."""
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(4)

    def passes(steps: int) -> float:
        with sync_every(steps):
            return sum(ra.evaluate(model, data, name, diagnose=False, audit=0, progress=False).passes(name))

    assert passes(1) <= passes(SYNC_INTERVAL) <= 1.35 * passes(1)


def test_an_accelerator_is_looked_at_seldom_and_a_cpu_always() -> None:
    assert [sync_interval(torch.device(kind)) for kind in ("cpu", "cuda", "mps")] == [1, SYNC_INTERVAL, SYNC_INTERVAL]
    none = torch.zeros(3, dtype=torch.bool)
    assert not maybe_any(none) and maybe_any(~none)
    with sync_every(2):
        assert maybe_any(none), "not known without waiting"


def test_rows_come_in_their_order() -> None:
    mask = torch.rand(1000, generator=torch.Generator().manual_seed(5)) < 0.3
    (count,) = to_host(mask.sum())
    assert true_rows(mask, count).tolist() == mask.nonzero().squeeze(1).tolist()
    assert true_rows(mask, 0).tolist() == []


def test_constants_are_made_once_for_each_dtype_even_in_inference_mode() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    with torch.inference_mode():
        first = constant_tensor((0.1, 0.2), like)
    assert first is constant_tensor([0.1, 0.2], like) and not first.is_inference()
    assert constant_tensor((0.1, 0.2), like.float()).dtype == torch.float32
    assert first.tolist() == [0.1, 0.2]
    assert cached_tensor(torch.zeros, 2, like=like) is cached_tensor(torch.zeros, 2, like=like)
    x = torch.rand(1, 3, 16, 16)
    assert JpegL1().apply(x, JpegL1().neutral(x)).equal(x)
