"""Recipes against several threat models, as test_training_recipes has those against one."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recipes_by_hand import (
    BOUND,
    COUNT,
    L1,
    L2,
    LINF,
    SIZE,
    STEPS,
    batch,
    border_step,
    boxed,
    ce,
    check,
    each,
    flat_norm,
    l2_ascent,
    l2_step,
    linf_ascent,
    losses,
    network,
    slope,
    start_l2,
    start_linf,
)  # fmt: skip
from robustatlas.common.noise import Noise
from robustatlas.optimizers.crafting import ball_point
from robustatlas.threats import lp
from robustatlas.training.recipes import Batch, Memory, recipe_named


def both(net: nn.Module, b: Batch) -> tuple[Tensor, Tensor]:
    value = losses(net, b.labels)
    return (
        linf_ascent(value, b.x, start_linf(b.noise.child(0))),
        l2_ascent(value, b.x, start_l2(b.noise.child(1), uniform=True)),
    )


def test_avg() -> None:
    net, b = network(), batch()
    first, second = both(net, b)
    expected = (ce(net, first, b.labels) + ce(net, second, b.labels)) / 2
    check(recipe_named("avg", {"linf": LINF, "l2": L2}, STEPS), expected, net, b)
    sequential = recipe_named("avg", {"linf": LINF, "l2": L2}, STEPS, sequential=True)
    assert sequential.updates == 2
    check(sequential, ce(net, second, b.labels), net, replace(b, part=1))


def test_max() -> None:
    net, b = network(), batch()
    first, second = both(net, b)
    value = losses(net, b.labels)
    worst = torch.where((value(second) > value(first)).view(-1, 1, 1, 1), second, first)
    assert 0 < int((worst == second).flatten(1).all(1).sum()) < COUNT
    check(recipe_named("max", {"linf": LINF, "l2": L2}, STEPS), ce(net, worst, b.labels), net, b)


@pytest.mark.parametrize("against", [{"linf": LINF, "l2": L2}, {"linf": LINF, "l1": L1}])
def test_msd(against: dict[str, float]) -> None:
    net, b = network(), batch()
    value, d = losses(net, b.labels), torch.zeros_like(b.x)
    best, highest = d, torch.full((COUNT,), -math.inf, dtype=torch.float64)
    for _ in range(STEPS):
        g = slope(value, b.x + d)
        linf = boxed(b.x, (d + 2.5 / STEPS * LINF * g.sign()).clamp(-LINF, LINF))
        steps = {"l2": l2_step, "l1": l1_step}
        candidates = [linf, *(step(b.x, d, g) for name, step in steps.items() if name in against)]
        reached = [value(b.x + c).detach() for c in candidates]
        d = torch.where((reached[1] >= reached[0]).view(-1, 1, 1, 1), candidates[1], candidates[0])
        now = torch.maximum(*reached)
        best = torch.where((now > highest).view(-1, 1, 1, 1), d, best)
        highest = torch.maximum(now, highest)
    check(recipe_named("msd", against, STEPS), ce(net, b.x + best, b.labels), net, b)


def l1_step(x: Tensor, d: Tensor, g: Tensor) -> Tensor:
    return l1_point(x, border_step(x, d, g, each(2.5 / STEPS * L1)))


def l1_point(x: Tensor, d: Tensor) -> Tensor:
    """The nearest point of ball and box: all coordinates shrink by one amount, found by halving, and are clipped."""
    low, high = each(0.0).view(-1, 1, 1, 1), flat_norm(d, math.inf)

    def shrunk(by: Tensor) -> Tensor:
        return boxed(x, d.sign() * (d.abs() - by).clamp_min(0))

    fits = flat_norm(shrunk(low), 1) <= L1
    for _ in range(60):
        middle = (low + high) / 2
        far = flat_norm(shrunk(middle), 1) > L1
        low, high = torch.where(far, middle, low), torch.where(far, high, middle)
    return torch.where(fits, boxed(x, d), shrunk(high))


def auto_pgd_l1(net: nn.Module, b: Batch) -> tuple[Tensor, Tensor]:
    """As fra31/robust-finetuning trains: the last point, and the one of highest loss. A review follows every move."""
    value, size = losses(net, b.labels), SIZE**2
    d, g, reached = torch.zeros_like(b.x), slope(value, b.x), value(b.x).detach()
    best, best_slope, highest, last = d, g, reached, d
    share, length = each(0.05), each(L1).view(-1, 1, 1, 1)
    support = each(float(size))
    for _ in range(STEPS):
        ranked = g.abs().flatten(1).sort(1).values
        least = ranked.gather(1, ((1 - share) * size).long().clamp(0, size - 1)[:, None]).view(-1, 1, 1, 1)
        signs = g.sign() * (g.abs() >= least)
        d = last = l1_point(b.x, d + length * signs / flat_norm(signs, 1))
        reached, g = value(b.x + d).detach(), slope(value, b.x + d)
        better = reached > highest
        best = torch.where(better.view(-1, 1, 1, 1), d, best)
        best_slope = torch.where(better.view(-1, 1, 1, 1), g, best_slope)
        highest = torch.maximum(highest, reached)
        now = (best != 0).flatten(1).sum(1).double()
        back = (now / support < 0.95).view(-1, 1, 1, 1)
        share, support = now / size / 1.5, now
        length = torch.where(back, torch.full_like(length, L1), (length / 1.5).clamp_min(L1 / 10))
        d, g = torch.where(back, best, d), torch.where(back, best_slope, g)
    return b.x + last, b.x + best


def test_l1_is_crafted_by_auto_pgd_from_the_image() -> None:
    """As Croce and Hein (2022) craft, whatever the recipe; what is trained on is the last point, in E-AT the best."""
    net, b = network(), batch()
    last, best = auto_pgd_l1(net, b)
    check(recipe_named("pgd", {"l1": L1}, STEPS), ce(net, last, b.labels), net, b)
    memory = {"seen": torch.tensor([90.0, 90.0]).double(), "survived": torch.tensor([90.0, 0.0]).double()}
    check(recipe_named("e-at", {"linf": LINF, "l1": L1}, STEPS), ce(net, best, b.labels), net, b, memory)


def test_sat() -> None:
    net, b = network(), batch()
    examples = both(net, b)
    drawn = int(b.shared.integers(2))
    check(recipe_named("sat", {"linf": LINF, "l2": L2}, STEPS), ce(net, examples[drawn], b.labels), net, b)
    each = b.noise.child(2).integers(2)
    assert 0 < int(each.sum()) < COUNT
    mixed = torch.where((each == 1).view(-1, 1, 1, 1), examples[1], examples[0])
    check(recipe_named("sat", {"linf": LINF, "l2": L2}, STEPS, per="sample"), ce(net, mixed, b.labels), net, b)


def test_e_at() -> None:
    net, b = network(), batch()
    recipe = recipe_named("e-at", {"linf": LINF, "l1": L1}, STEPS)
    value, y = losses(net, b.labels), b.labels
    # Auto-PGD of 3 steps reviews its step after moves 1, 2 and 3 (windows of at least one).
    step = torch.full((COUNT, 1, 1, 1), 2 * LINF, dtype=torch.float64)

    def projected(d: Tensor) -> Tensor:
        return boxed(b.x, d.clamp(-LINF, LINF))

    d = previous = torch.zeros_like(b.x)
    reached, g = value(b.x), slope(value, b.x)
    best, best_value, best_slope = d, reached, g
    fooled = net(b.x).argmax(1) != y
    last, halved = torch.zeros(COUNT, dtype=torch.float64), torch.ones(COUNT, dtype=torch.bool)
    reviewed = reached
    for k in range(STEPS):
        ahead = projected(d + step * g.sign())
        moved = ahead if k == 0 else projected(d + 0.75 * (ahead - d) + 0.25 * (d - previous))
        previous, d = d, moved
        reached, g = value(b.x + d), slope(value, b.x + d)
        fooled |= net(b.x + d).argmax(1) != y
        better = reached > best_value
        best = torch.where(better.view(-1, 1, 1, 1), d, best)
        best_slope = torch.where(better.view(-1, 1, 1, 1), g, best_slope)
        best_value = torch.maximum(best_value, reached)
        rises = (reached > (torch.zeros_like(last) if k == 0 else last)).long()
        halve = (rises <= 0.75) | (~halved & (reviewed >= best_value))
        step = torch.where(halve.view(-1, 1, 1, 1), step / 2, step)
        d = torch.where(halve.view(-1, 1, 1, 1), best, d)
        g = torch.where(halve.view(-1, 1, 1, 1), best_slope, g)
        halved, reviewed, last = halve, best_value, reached
    memory = {"seen": torch.tensor([90.0, 90.0]).double(), "survived": torch.tensor([0.0, 90.0]).double()}
    assert recipe.probabilities(memory).tolist() == [1.0, 0.0]
    expected = ce(net, b.x + best.detach(), y)
    check(recipe, expected, net, b, memory)
    after = recipe.update(net, b, memory).memory
    assert after["seen"].tolist() == [90.0 + COUNT, 90.0]
    assert after["survived"].tolist() == [float((~fooled).sum()), 90.0]


def generator(memory: Memory, z: Tensor) -> Tensor:
    h = z
    for layer in "1234":
        h = F.conv2d(h, memory[f"generator.{layer}.weight"], memory[f"generator.{layer}.bias"])
        h = h if layer == "4" else torch.where(h > 0, h, 0.01 * h)
    return h + z[:, :, 1:-1, 1:-1]


def test_mng_ac() -> None:
    """Two updates: the generator's steps have momentum."""
    net, b = network(), batch()
    recipe = recipe_named("mng-ac", {"linf": LINF}, STEPS)
    memory, noise = dict(recipe.remember(net, b.x, b.shared)), b.noise.child(1)
    weights = {n: t for n, t in memory.items() if n.startswith("generator")}
    momenta = {n: torch.zeros_like(w) for n, w in weights.items()}
    x_adv = linf_ascent(losses(net, b.labels), b.x, start_linf(b.noise.child(0)))

    def augmented(weights: Memory, stream: Noise) -> Tensor:
        z = stream.normal(1, SIZE + 2, SIZE + 2, dtype=torch.float64)
        return b.x + boxed(b.x, generator(weights, z).clamp(-LINF, LINF))

    for _ in range(2):
        weights = {n: w.detach().requires_grad_() for n, w in weights.items()}
        slopes = torch.autograd.grad(
            ce(net, augmented(weights, noise.child(0)), b.labels), list(net.parameters()), create_graph=True
        )
        moved = {n: p - 0.05 * s for (n, p), s in zip(net.named_parameters(), slopes, strict=True)}
        outer = F.cross_entropy(torch.func.functional_call(copy.deepcopy(net), moved, (x_adv,)), b.labels)
        gradients = torch.autograd.grad(outer, list(weights.values()))
        for (n, w), g in zip(weights.items(), gradients, strict=True):
            momenta[n] = 0.9 * momenta[n] + g + 5e-4 * w.detach()
        before, weights = weights, {n: w.detach() - 0.05 * momenta[n] for n, w in weights.items()}
        p = [net(x).softmax(1) for x in (b.x, x_adv, augmented(weights, noise.child(1)))]
        mean = sum(p) / 3
        js = sum((q * (q.log() - mean.log())).sum(1).mean() for q in p) / 3
        check(recipe, ce(net, x_adv, b.labels) + 12 * js, net, b, memory)
        memory = dict(recipe.update(net, b, memory).memory)
        assert all(float((memory[n] - w).abs().max()) < BOUND for n, w in weights.items())
    assert float((weights["generator.2.weight"] - before["generator.2.weight"]).abs().detach().max()) > 1e-6


def test_noise_of_a_generator_in_l2_reaches_the_border_in_spite_of_the_box() -> None:
    """What eta stretches and the box clips has length epsilon; eta by halving."""
    x, direction = batch().x, 3 * torch.randn(COUNT, 1, SIZE, SIZE, dtype=torch.float64)
    low, high = each(0.0).view(-1, 1, 1, 1), each(100.0).view(-1, 1, 1, 1)
    for _ in range(80):
        middle = (low + high) / 2
        far = flat_norm(boxed(x, middle * direction), 2) > L2
        low, high = torch.where(far, low, middle), torch.where(far, middle, high)
    found = ball_point(lp.L2(), x, direction, each(L2))
    assert float((found - x - boxed(x, high * direction)).abs().max()) < BOUND


def test_generator_has_the_published_size() -> None:
    recipe = recipe_named("mng-ac", {"linf": LINF})
    memory = recipe.remember(
        network(), torch.rand(1, 3, 8, 8), Noise.for_samples(0, torch.zeros(1, dtype=torch.int64), "m")
    )
    assert sum(t.numel() for n, t in memory.items() if n.startswith("generator")) == 4183


def test_generator_begins_with_the_published_variances() -> None:
    """Normal with variance 2 / (k^2 x channels out): over 400 draws of 20 x 20 x 3 x 3 and of 3 x 20 weights."""
    recipe, samples = recipe_named("mng-ac", {"linf": LINF}), torch.zeros(1, dtype=torch.int64)
    memories = [
        recipe.remember(network(), torch.rand(1, 3, 8, 8), Noise.for_samples(s, samples, "m")) for s in range(400)
    ]
    for layer, variance in (("2", 2 / (9 * 20)), ("4", 2 / 3)):
        drawn = torch.stack([memory[f"generator.{layer}.weight"] for memory in memories]).double()
        assert float(drawn.var()) == pytest.approx(variance, rel=0.03)
        assert float(drawn.mean()) == pytest.approx(0, abs=0.03 * math.sqrt(variance))
        assert float((drawn / math.sqrt(variance)).pow(4).mean()) == pytest.approx(3, rel=0.06)
    assert not any(bool(t.any()) for n, t in memories[0].items() if n.endswith("bias") or n.startswith("momentum"))


@pytest.mark.parametrize("threat", [lp.Linf(), lp.L2(), lp.L1()])
def test_noise_of_a_generator_at_strength_0(threat: lp.Lp) -> None:
    """Where strengths rise from 0 the first batch has none: no change, and a gradient that is a number."""
    x, direction = torch.rand(2, 1, 4, 4), torch.randn(2, 1, 4, 4, requires_grad=True)
    moved = ball_point(threat, x, direction, torch.zeros(2))
    assert torch.equal(moved.detach(), x)
    assert torch.autograd.grad(moved.square().sum(), direction)[0].isfinite().all()
