"""Updates of the trainer made again by hand where what is minimised are bounds or distances, and nothing is crafted."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from bounds_by_hand import crown_ibp, ibp, kw, pieces, worst_loss
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.data import Dataset
from robustatlas.training import recipe_named, train
from robustatlas.training.presets import preset_named
from robustatlas.training.recipes.base import Batch
from training_loops import PRINTED, RATES, Seen, ce, followed, same, seen

__all__ = ["seen"]
pytestmark = pytest.mark.filterwarnings("ignore:The network has learned nothing")

CLASSES, EPSILON, UPDATES = 10, 0.05, len(RATES)
DUAL = {"linf": 1.0, "l2": 2.0, "l1": math.inf}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return ra.load_dataset("digits", "train").take(24)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), nn.Linear(12, CLASSES)
    ).double()  # fmt: skip


def risen(update: int, begin: float, end: float) -> float:
    """Linear between two numbers of updates."""
    return min(1.0, max(0.0, update - begin) / (end - begin))


# --- from the network, a batch and the number of the update to the loss, as the public codes compute it


def by_intervals(net: nn.Sequential, b: Batch, update: int) -> Tensor:
    """kappa falls while epsilon rises, from the third update to the ninth."""
    share = risen(update, 3, 9)
    kappa = 1 - 0.5 * share
    return kappa * ce(net, b.x, b.labels) + (1 - kappa) * worst_loss(ibp(net, b, share * EPSILON), b.labels)


def by_lines(net: nn.Sequential, b: Batch, update: int) -> Tensor:
    """CROWN-IBP with kappa from 1 to .5 and beta from 1 to 0, as its code has them: (1 - share) of the strength."""
    share = risen(update, 3, 9)
    margins = share * ibp(net, b, share * EPSILON) + (1 - share) * crown_ibp(net, b, share * EPSILON)
    return (1 - share / 2) * ce(net, b.x, b.labels) + share / 2 * worst_loss(margins, b.labels)


def by_lines_alone(net: nn.Sequential, b: Batch, update: int) -> Tensor:
    share = risen(update, 3, 9)
    if share == 0:  # there the code trains on images
        return ce(net, b.x, b.labels)
    margins = share * ibp(net, b, share * EPSILON) + (1 - share) * crown_ibp(net, b, share * EPSILON)
    return worst_loss(margins, b.labels)


def by_the_dual(net: nn.Sequential, b: Batch, update: int) -> Tensor:
    return worst_loss(kw(net, b, EPSILON), b.labels)


def by_margins(radii: dict[str, float], weights: dict[str, float], first: float, last: float, rise: int) -> Any:
    """MMR: n_rb and n_db of the code, its numbers of the epochs and its sums."""

    def rule(net: nn.Sequential, b: Batch, update: int) -> Tensor:
        epoch = update // 3 + 1
        *units, (logits, slope) = pieces(net, b.x)
        count = sum(z.shape[1] for z, _ in units)
        begin, end = int(first * count), int(last * count)
        nearest = int((end - begin) / 4 * epoch + begin)
        y, loss = b.labels, F.cross_entropy(net(b.x), b.labels)
        own, other = torch.arange(len(y)), F.one_hot(y, CLASSES) == 0
        far = {p: torch.cat([z.abs() / v.norm(DUAL[p], dim=2) for z, v in units], 1) for p in radii}
        taken = torch.zeros_like(next(iter(far.values())), dtype=torch.bool)
        for d in far.values():
            taken |= d <= d.sort(1).values[:, nearest - 1 : nearest]
        for p, radius in radii.items():
            region = (taken * (1 - far[p] / radius).relu()).sum(1) / nearest
            lead, apart = logits[own, y][:, None] - logits, (slope[own, y][:, None] - slope).norm(DUAL[p], dim=2)
            decision = (1 - lead[other] / apart[other] / radius).relu().view(len(y), -1).sum(1) / CLASSES
            loss = loss + min(epoch / rise, 1.0) * weights[p] * (region + decision).mean()
        return loss

    return rule


RISING = {"clean": 3 / 12, "warmup": 9 / 12}
MARGINS = {"rise": 3, "first": 0.2, "last": 0.05}
UNIVERSAL = {"linf": 0.1, "l1": 1.0}
RULES: dict[str, tuple[Callable[..., Tensor], dict[str, float], dict[str, Any]]] = {
    "ibp": (by_intervals, {"linf": EPSILON}, RISING),
    "crown-ibp": (by_lines_alone, {"linf": EPSILON}, RISING),
    "crown-ibp with images": (by_lines, {"linf": EPSILON}, RISING | {"kappa_first": 1.0, "kappa": 0.5}),
    "kw": (by_the_dual, {"linf": EPSILON}, {}),
    "mmr linf": (by_margins({"linf": 0.1}, {"linf": 2.0}, 0.2, 0.05, 3), {"linf": 0.1}, MARGINS | {"weight": 2.0}),
    "mmr l2": (by_margins({"l2": 0.5}, {"l2": 1.0}, 0.2, 0.05, 3), {"l2": 0.5}, MARGINS),
    "mmr universal": (
        by_margins(UNIVERSAL, {"linf": 2.0, "l1": 0.5}, 0.2, 0.05, 3), UNIVERSAL, MARGINS | {"weight": (2.0, 0.5)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_updates_are_those_of_the_public_code(name: str, data: Dataset, seen: Seen) -> None:
    """Weights after four epochs of three batches, whose rate falls while strengths and weights move."""
    rule, against, options = RULES[name]
    recipe = recipe_named(name.split(" ")[0], against, **options)
    found = train(network(), data, recipe, settings=PRINTED).net
    expected, number = network(), iter(range(UPDATES))
    followed(expected, seen, PRINTED, RATES, lambda net, b, _: rule(net, b, next(number)))
    same(found, expected)
    assert (found[0].weight - network()[0].weight).abs().max() > 1e-3


def test_mmr_with_adversarial_training_takes_both_terms_at_the_attacked_half() -> None:
    """train.py of Croce et al. 2019: x is the batch whose first half is attacked, in the loss and in the distances."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x, labels = torch.rand(6, 1, 3, 3, dtype=torch.float64), torch.arange(6) % 3
    noise = Noise.for_samples(0, torch.arange(6), "x")
    batch = Batch(x, labels, noise, noise.take(torch.tensor([0])), epoch=3, epochs=4)
    both = recipe_named("mmr", {"linf": 0.1}, 5, 0.4, attacked=0.5)
    crafted = both.craft(net, batch).x
    mixed = replace(batch, x=torch.cat([crafted[:3], x[3:]]))
    assert not torch.equal(mixed.x, x)
    expected = recipe_named("mmr", {"linf": 0.1}).update(net, mixed, {}).loss
    torch.testing.assert_close(both.update(net, batch, {}).loss, expected)
    with pytest.raises(UserError, match="above 0 only against one norm"):
        recipe_named("mmr", {"linf": 0.1, "l1": 1.0}, attacked=0.5)


def test_presets_of_the_robustness_curves_train_as_the_code_of_their_networks() -> None:
    """Adam, 100 epochs of 128 images, .001, a tenth of it for the last tenth; 40 steps of 2 epsilon / 40 on MNIST."""
    for name, kind, share in (
        ("", "pgd", 0.5), ("-kw", "kw", None), ("-mmr", "mmr", 0.0), ("-mmr-at", "mmr", 0.5),
        ("-mmr-universal", "mmr", 0.0),
    ):  # fmt: skip
        preset = preset_named(f"robustness-curves{name}")
        recipe, settings = preset.recipe(), preset.settings
        found = (settings.optimizer, settings.epochs, settings.batch_size, settings.learning_rate, settings.schedule)
        assert found == ("adam", 100, 128, 1e-3, "step:90")
        assert (recipe.name, getattr(recipe, "attacked", None)) == (kind, share)
        first = recipe.against[0]
        assert (first.name, first.epsilon, first.optimizer.steps) == ("linf", 0.1, 40)
        assert first.optimizer.rate == pytest.approx(0.05)  # type: ignore[attr-defined]
