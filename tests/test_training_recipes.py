"""Every recipe against its loss and inner steps written out again, on a tiny network in float64."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import test_training_recipes_several as several
from bounds_by_hand import crown_ibp, ibp, kw, worst_loss
from recipes_by_hand import (
    BOUND,
    CLASSES,
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
    flat_norm,
    kl,
    l2_ascent,
    linf_ascent,
    losses,
    near,
    network,
    slope,
    start_l2,
    start_linf,
    trades_point,
)  # fmt: skip
from robustatlas.common.errors import UserError
from robustatlas.data import Dataset
from robustatlas.models.classifier import Classifier
from robustatlas.optimizers.crafting import craft_pair
from robustatlas.training import Settings, load_trained, network_for, read_card, train
from robustatlas.training.recipes import RECIPES, recipe_named

# --- the recipes


def test_standard() -> None:
    net, b = network(), batch()
    check(recipe_named("standard"), ce(net, b.x, b.labels), net, b)


def test_label_smoothing() -> None:
    net, b = network(), batch()
    log = net(b.x).log_softmax(1)
    smooth = torch.full_like(log, 0.1 / CLASSES).scatter_add(
        1, b.labels[:, None], torch.full((COUNT, 1), 0.9, dtype=torch.float64)
    )
    check(recipe_named("standard", label_smoothing=0.1), -(smooth * log).sum(1).mean(), net, b)


def test_pgd_linf() -> None:
    net, b = network(), batch()
    x = linf_ascent(losses(net, b.labels), b.x, start_linf(b.noise.child(0)))
    check(recipe_named("pgd", {"linf": LINF}, STEPS), ce(net, x, b.labels), net, b)


def test_pgd_l2_with_half_of_the_batch_and_rising_strength() -> None:
    net, b = network(), batch()
    x = l2_ascent(losses(net, b.labels), b.x, start_l2(b.noise.child(0), uniform=False))
    half = round(COUNT / 2)
    expected = ce(net, torch.cat([x[:half], b.x[half:]]), b.labels)
    check(recipe_named("pgd", {"l2": L2}, STEPS, attacked=0.5), expected, net, b)
    x = linf_ascent(losses(net, b.labels), b.x, start_linf(b.noise.child(0), 0.5 * LINF), 0.5 * LINF)
    check(recipe_named("pgd", {"linf": LINF}, STEPS, warmup=0.6), ce(net, x, b.labels), net, b)


def test_uniform() -> None:
    net, b = network(), batch()
    s = b.noise.child(1).uniform(dtype=torch.float64)
    targets = (b.labels + 1 + b.noise.child(2).integers(CLASSES - 1)) % CLASSES
    assert bool((targets != b.labels).all())
    epsilon = (s * LINF).view(-1, 1, 1, 1)
    x = linf_ascent(
        lambda point: -losses(net, targets)(point),
        b.x,
        start_linf(b.noise.child(0), epsilon),
        epsilon,
        1 / math.sqrt(STEPS),
    )
    check(recipe_named("uniform", {"linf": LINF}, STEPS), ce(net, x, b.labels), net, b)


def test_uniform_against_several() -> None:
    """UAR's joint training: strengths and targets of each attack's own, and the worse example of each image."""
    net, b = network(), batch()
    found = []
    for k, largest in enumerate((LINF, 2 * LINF)):
        start, scale, choice = (b.noise.child(3 * k + stream) for stream in range(3))
        targets = (b.labels + 1 + choice.integers(CLASSES - 1)) % CLASSES
        epsilon = (scale.uniform(dtype=torch.float64) * largest).view(-1, 1, 1, 1)
        away = lambda point, t=targets: -losses(net, t)(point)  # noqa: E731
        found.append(linf_ascent(away, b.x, start_linf(start, epsilon), epsilon, 1 / math.sqrt(STEPS)))
    value = losses(net, b.labels)
    worse = value(found[1]) > value(found[0])
    assert 0 < int(worse.sum()) < COUNT
    x = torch.where(worse.view(-1, 1, 1, 1), found[1], found[0])
    first, second = (recipe_named("uniform", {"linf": e}, STEPS).against[0] for e in (LINF, 2 * LINF))
    check(RECIPES["uniform"](against=(first, second)), ce(net, x, b.labels), net, b)


def test_uniform_in_l1() -> None:
    """Frank-Wolfe as UAR has it: the mean of the vertices, each filled coordinate by coordinate up to the box."""
    net, b = network(), batch()
    epsilon = b.noise.child(1).uniform(dtype=torch.float64) * L1
    targets = (b.labels + 1 + b.noise.child(2).integers(CLASSES - 1)) % CLASSES
    recipe = recipe_named("uniform", {"l1": L1}, STEPS)
    d, vertices = recipe.against[0].threat.start(b.x, epsilon, b.noise.child(0)), []
    for k in range(STEPS):
        g = slope(lambda point: -losses(net, targets)(point), b.x + d)
        vertices.append(border_step(b.x, torch.zeros_like(d), g, epsilon))
        d = sum(vertices) / (k + 1)
    check(recipe, ce(net, b.x + d, b.labels), net, b)


def test_trades() -> None:
    net, b = network(), batch()
    x = trades_point(net, b.x, b.noise.child(0))
    clean = net(b.x)
    expected = F.cross_entropy(clean, b.labels) + 6 * kl(clean, net(x)).mean()
    check(recipe_named("trades", {"linf": LINF}, STEPS, beta=6.0), expected, net, b)


def test_trades_in_l2_from_anywhere_in_the_ball() -> None:
    net, b = network(), batch()
    natural = net(b.x).detach()
    x = l2_ascent(lambda p: kl(natural, net(p)), b.x, start_l2(b.noise.child(0), uniform=True))
    clean = net(b.x)
    expected = F.cross_entropy(clean, b.labels) + 5 * kl(clean, net(x)).mean()
    check(recipe_named("trades", {"l2": L2}, STEPS, beta=5.0, start="random"), expected, net, b)


def test_mart() -> None:
    """The public code's loss (YisenWang/MART): its own numbers beside the probabilities too."""
    net, b = network(), batch()
    x = linf_ascent(losses(net, b.labels), b.x, near(b.noise.child(0)))
    p, q = net(b.x).softmax(1), net(x).softmax(1)
    order = q.argsort(1)[:, -2:]
    other = torch.where(order[:, 1] == b.labels, order[:, 0], order[:, 1])
    boosted = F.cross_entropy(net(x), b.labels) + F.nll_loss((1.0001 - q + 1e-12).log(), other)
    apart = (p * (p.log() - (q + 1e-12).log())).sum(1)
    own = p.gather(1, b.labels[:, None])[:, 0]
    expected = boosted + 6 * (apart * (1.0000001 - own)).mean()
    check(recipe_named("mart", {"linf": LINF}, STEPS), expected, net, b)


def test_hat(tmp_path: Path) -> None:
    """Helper points 3.5 times as far out, labelled by a network of standard training."""
    data = Dataset.from_arrays(torch.rand(40, 1, 8, 8), torch.arange(40) % CLASSES, "random")
    train(network_for("digits-cnn", data), data, settings=Settings(epochs=1), out=tmp_path, architecture="digits-cnn")
    helper = load_trained(tmp_path).net
    net, b = network_for("digits-cnn", data, seed=1), batch()
    given = replace(b, x=torch.rand(COUNT, 1, 8, 8))
    natural, d = net(given.x).detach(), 0.001 * given.noise.child(0).normal(1, 8, 8)
    for _ in range(STEPS):
        g = slope(lambda p: kl(natural, net(p)), (given.x + d).clamp(0, 1))
        d = boxed(given.x, (d + 2.5 / STEPS * LINF * g.sign()).clamp(-LINF, LINF))
    x, clean = given.x + d, net(given.x)
    helped = F.cross_entropy(net(given.x + 3.5 * d), helper(x).argmax(1))
    expected = F.cross_entropy(clean, b.labels) + 2.5 * kl(clean, net(x)).mean() + 0.5 * helped
    recipe = recipe_named("hat", {"linf": LINF}, STEPS, helper=f"trained:{tmp_path}")
    assert recipe.helper_sha256 == read_card(tmp_path).weights_sha256  # type: ignore[attr-defined]
    assert float(recipe.update(net, given, {}).loss.detach()) == pytest.approx(float(expected.detach()), abs=1e-5)


@pytest.mark.parametrize("base", ["pgd", "trades"])
def test_awp(base: str) -> None:
    """The gradient at the weights moved by gamma of their norm, applied to the weights themselves (csdongxian/AWP)."""
    net, b = network(), batch()
    x = linf_ascent(losses(net, b.labels), b.x, start_linf(b.noise.child(0)))
    if base == "trades":
        x = trades_point(net, b.x, b.noise.child(0))

    def loss(of: nn.Module) -> Tensor:
        clean = of(b.x)
        far = F.cross_entropy(clean, b.labels) + 6 * kl(clean, of(x)).mean()
        return far if base == "trades" else ce(of, x, b.labels)

    slopes = torch.autograd.grad(loss(net), list(net.parameters()))
    moved = copy.deepcopy(net)
    with torch.no_grad():
        for p, g in zip(moved.parameters(), slopes, strict=True):
            if p.dim() > 1:
                p.add_(0.01 * p.norm() / g.norm() * g)
    expected = loss(moved)
    wanted = torch.autograd.grad(expected, list(moved.parameters()))
    update = recipe_named("awp", {"linf": LINF}, STEPS, base=base).update(net, b, {})
    assert float(update.loss.detach()) == pytest.approx(float(expected.detach()), abs=BOUND)
    for a, c in zip(torch.autograd.grad(update.loss, list(net.parameters())), wanted, strict=True):
        assert float((a - c).abs().max()) < BOUND
    later = recipe_named("awp", {"linf": LINF}, STEPS, base=base, first_epoch=3)
    check(later, loss(net), net, b)


@pytest.mark.parametrize("points", ["union", "adversarial", "replace"])
@pytest.mark.parametrize("anchored", [False, True])
def test_ascending(points: str, anchored: bool) -> None:
    net, b = network(), batch()
    epsilon = 2 / 4 * LINF

    def low_margin(point: Tensor) -> Tensor:
        p = net(point).softmax(1)
        own = p.gather(1, b.labels[:, None])[:, 0]
        return p.masked_fill(F.one_hot(b.labels, CLASSES).bool(), -1).amax(1) - own

    low = linf_ascent(low_margin, b.x, start_linf(b.noise.child(0), epsilon), epsilon)
    around_low = trades_point(net, low, b.noise.child(2 if points == "union" else 1), epsilon)
    around_x = trades_point(net, b.x, b.noise.child(1), epsilon)
    if anchored:
        around_low = b.x + boxed(b.x, (around_low - b.x).clamp(-epsilon, epsilon))
    x, inner, y = {
        "union": (torch.cat([b.x, low]), torch.cat([around_x, around_low]), torch.cat([b.labels] * 2)),
        "adversarial": (low, around_low, b.labels),
        "replace": (b.x, low, b.labels),
    }[points]
    clean = net(x)
    expected = F.cross_entropy(clean, y) + 5 * kl(clean, net(inner)).mean()
    check(recipe_named("ascending", {"linf": LINF}, STEPS, points=points, anchored=anchored), expected, net, b)


def test_ascending_strengths() -> None:
    recipe, b = recipe_named("ascending", {"linf": 0.2}), batch()
    found = [float(recipe.strength(recipe.against[0], replace(b, epoch=t, epochs=5))[0]) for t in range(5)]
    assert found == pytest.approx([0.04, 0.08, 0.12, 0.16, 0.2])
    constant = recipe_named("ascending", {"linf": 0.2}, ascending=False)
    assert float(constant.strength(constant.against[0], b)[0]) == 0.2


def test_pat() -> None:
    net, b = network(), batch()
    recipe = recipe_named("pat", {"lpips": 0.5}, STEPS)
    bound = recipe.against[0].threat.for_model(Classifier(net))
    recipe = replace(recipe, against=(replace(recipe.against[0], threat=bound),))

    def phi(x: Tensor) -> Tensor:
        a = net[1](net[0](x)).flatten(2)
        return (a / ((a.norm(dim=1, keepdim=True) + 1e-10) * math.sqrt(a.shape[2]))).flatten(1)

    reference = phi(b.x).detach()
    z = net(b.x)
    right = z.argmax(1) == b.labels
    assert 0 < int(right.sum()) < COUNT
    d = boxed(b.x, 0.01 * b.noise.child(0).normal(1, SIZE, SIZE, dtype=torch.float64))
    for i in range(STEPS):
        s, lam = 0.5 * 0.1 ** (i / STEPS), 10 * 0.1 ** (1 - i / STEPS)

        def lagrangian(point: Tensor, lam: float = lam) -> Tensor:
            logits = net(point)
            own = logits.gather(1, b.labels[:, None])[:, 0]
            other = logits.masked_fill(F.one_hot(b.labels, CLASSES).bool(), -math.inf).amax(1)
            return -(other - own) + lam * F.relu((phi(point) - reference).norm(dim=1) - 0.5)

        g = slope(lagrangian, b.x + d)
        g = g / (flat_norm(g, 2) + 1e-8)
        m = (phi(b.x + d) - phi(b.x + d - 0.1 * g)).norm(dim=1).view(-1, 1, 1, 1) / 0.1
        d = boxed(b.x, (d - g * s / (m + 1e-4)).detach())
    x = torch.where(right.view(-1, 1, 1, 1), b.x + d, b.x)
    check(recipe, ce(net, x, b.labels), net, b)


def test_variation_on_pat() -> None:
    """Fast-LPA's examples as in test_pat, and a pair in the perceptual set."""
    net, b = network(), batch()
    plain = recipe_named("pat", {"lpips": 0.5}, STEPS)
    bound = plain.against[0].threat.for_model(Classifier(net))
    examples = replace(plain, against=(replace(plain.against[0], threat=bound),)).update(net, b, {}).loss
    recipe = recipe_named("variation", {"lpips": 0.5}, STEPS, base="pat")
    opponent = replace(recipe.against[0], threat=bound)
    pair = craft_pair(
        net, opponent, b.x, b.labels, torch.full((COUNT,), 0.5).double(), b.noise.child(1),
        lambda first, second: (first - second).norm(dim=1),
    )  # fmt: skip
    assert max(float(bound.size(b.x, x - b.x).max()) for x in pair) <= 0.5 * (1 + 1e-5)
    apart = (net(pair[0]) - net(pair[1])).norm(dim=1).mean()
    check(replace(recipe, against=(opponent,)), examples + 0.1 * apart, net, b)


@pytest.mark.parametrize("base", ["pgd", "trades"])
def test_variation(base: str) -> None:
    net, b = network(), batch()
    pair = [boxed(b.x, start_linf(b.noise.child(1).child(k))) for k in range(2)]
    for _ in range(STEPS):
        first, second = (b.x + d for d in pair)
        slopes = (
            slope(lambda p, other=second: (net(p) - net(other)).norm(dim=1), first),
            slope(lambda p, other=first: (net(other) - net(p)).norm(dim=1), second),
        )
        pair = [
            boxed(b.x, (d + 2.5 / STEPS * LINF * g.sign()).clamp(-LINF, LINF))
            for d, g in zip(pair, slopes, strict=True)
        ]
    apart = (net(b.x + pair[0]) - net(b.x + pair[1])).norm(dim=1).mean()
    if base == "trades":
        x = trades_point(net, b.x, b.noise.child(0))
        clean = net(b.x)
        expected = F.cross_entropy(clean, b.labels) + 6 * kl(clean, net(x)).mean()
    else:
        expected = ce(net, linf_ascent(losses(net, b.labels), b.x, start_linf(b.noise.child(0))), b.labels)
    check(recipe_named("variation", {"linf": LINF}, STEPS, base=base), expected + 0.1 * apart, net, b)


def test_manifold() -> None:
    net, b = network(), batch()
    c = b.noise.sign(1, SIZE, SIZE, dtype=torch.float64)
    plus, minus = (b.x + LINF * c).clamp(0, 1), (b.x - LINF * c).clamp(0, 1)

    def inputs_of_relus(x: Tensor) -> list[Tensor]:
        u = net[0](x)
        return [u, net[3](F.relu(u).flatten(1))]

    flips = [
        (torch.tanh(5 * u) - torch.tanh(5 * v)).abs().mean() / 2
        for u, v in zip(inputs_of_relus(plus), inputs_of_relus(minus), strict=True)
    ]
    apart = (net(plus) - net(minus)).square().sum(1).mean()
    expected = ce(net, b.x, b.labels) + apart + sum(flips) / 2
    check(recipe_named("manifold", {"linf": LINF}), expected, net, b)


@pytest.mark.parametrize("wider", [1.0, 1.5])
@pytest.mark.parametrize("against", [{"linf": LINF}, {"l2": L2}, {"linf": LINF, "l1": L1}])
def test_mmr(against: dict[str, float], wider: float) -> None:
    """Slopes unit by unit by the backward mode; the universal regulariser counts the nearest of either norm in both.
    Hyperplanes count up to gamma, which is the strength or is given."""
    net, b = network(), batch()
    dual = {"linf": 1.0, "l2": 2.0, "l1": math.inf}
    hidden, logits = net[0](b.x).flatten(1), net(b.x)
    second = net[3](F.relu(hidden.view(COUNT, 3, 4, 4)).flatten(1))
    units = [lambda x: net[0](x).flatten(1), lambda x: net[3](net[2](net[1](net[0](x)))), net]
    jacobians = [
        torch.stack([torch.autograd.functional.jacobian(unit, b.x[n : n + 1], create_graph=True)[0, :, 0].flatten(1)
                     for n in range(COUNT)]) for unit in units
    ]  # fmt: skip
    both = torch.cat([hidden, second], 1).abs()
    slopes = torch.cat(jacobians[:2], 1)
    far = {name: both / slopes.norm(dual[name], dim=2) for name in against}
    counted = sum(d.argsort(1).argsort(1) < 8 for d in far.values()) > 0  # 11, 9.5, 8 of 56, 5 in the last epoch
    expected = F.cross_entropy(logits, b.labels)
    weights = dict(zip(against, (0.5, 0.3), strict=False))
    gammas = {name: wider * strength for name, strength in against.items()}
    for name, radius in gammas.items():
        weight = 0.2 * weights[name]  # the second of ten epochs
        expected = expected + weight * (counted * (1 - far[name] / radius).clamp_min(0)).sum() / (8 * COUNT)
        for n in range(COUNT):
            y = int(b.labels[n])
            for k in set(range(CLASSES)) - {y}:
                d = (logits[n, y] - logits[n, k]) / (jacobians[2][n, y] - jacobians[2][n, k]).norm(dual[name])
                expected = expected + weight * (1 - d / radius).clamp_min(0) / (COUNT * CLASSES)
    options = {"weight": tuple(weights.values()), "first": 0.2, "last": 0.1}
    options |= {"gamma": tuple(gammas.values())} if wider != 1 else {}
    check(recipe_named("mmr", against, **options), expected, net, b)


RISEN = (0.3 - 0.1) / (0.6 - 0.1)
RISING = {"clean": 0.1, "warmup": 0.6}


def test_ibp() -> None:
    """The loss of section 3 of Gowal et al. 2018, with the last layer in the specification."""
    net, b = network(), batch()
    kappa = 1 + RISEN * (0.5 - 1)
    expected = kappa * ce(net, b.x, b.labels) + (1 - kappa) * worst_loss(ibp(net, b, RISEN * LINF), b.labels)
    check(recipe_named("ibp", {"linf": LINF}, **RISING), expected, net, b)


def test_crown_ibp() -> None:
    """Zhang et al. 2020: lines of the margins over intervals of the layers, weighted with intervals."""
    net, b, epsilon = network(), batch(), RISEN * LINF
    margins = RISEN * ibp(net, b, epsilon) + (1 - RISEN) * crown_ibp(net, b, epsilon)
    check(recipe_named("crown-ibp", {"linf": LINF}, **RISING), worst_loss(margins, b.labels), net, b)


def test_kw() -> None:
    """Wong and Kolter 2018, eq. 14."""
    net, b = network(), batch()
    check(recipe_named("kw", {"linf": LINF}), worst_loss(kw(net, b, LINF), b.labels), net, b)


def test_every_recipe_is_tested_here() -> None:
    tested = {name.removeprefix("test_").split("_linf")[0].replace("_", "-") for name in (*globals(), *vars(several))}
    assert set(RECIPES) <= tested | {"pgd"}


# --- what does not fit


@pytest.mark.parametrize(
    ("name", "against", "settings", "message"),
    [
        ("pdg", {"linf": 0.1}, {}, "did you mean 'pgd'"),
        ("pgd", {"linff": 0.1}, {}, "did you mean 'linf'"),
        ("pgd", {"linf": 8}, {}, "for 8 of 255 give 8/255"),
        ("pgd", {"l2": -1.0}, {}, "expected a positive number"),
        ("pgd", {"elastic": 5000}, {}, "more than 100 times"),
        ("pgd", {"linf": 0.1, "l2": 1.0}, {}, "trains against one threat model"),
        ("pgd", None, {}, "one threat model, given: none"),
        ("standard", {"linf": 0.1}, {}, "no threat model"),
        ("msd", {"linf": 0.1}, {}, "at least two"),
        ("msd", {"linf": 0.1, "elastic": 0.5}, {}, "'elastic' is none"),
        ("pat", {"linf": 0.1}, {}, "perceptual distance lpips"),
        ("manifold", {"l2": 0.1}, {}, "takes linf"),
        ("mmr", {"l0": 3.0}, {}, "takes linf, l2 and l1"),
        ("mmr", {"linf": 0.1}, {"first": 3}, "shares of the ReLUs"),
        ("mmr", {"linf": 0.1, "l1": 1.0}, {"weight": (1.0, 2.0, 3.0)}, "one for each norm"),
        ("mmr", {"linf": 0.1, "l1": 1.0}, {"gamma": (1.0, -2.0)}, "positive distance"),
        ("ibp", {"l0": 3.0}, {}, "takes linf, l2 and l1"),
        ("ibp", {"linf": 0.1}, {"clean": 0.5}, "clean at most warmup"),
        ("crown-ibp", {"linf": 0.1}, {"beta": 2.0}, "shares between 0 and 1"),
        ("trades", {"linf": 0.1}, {"betta": 3}, "did you mean 'beta'"),
        ("trades", {"linf": 0.1}, {"beta": -3}, "positive weight"),
        ("pgd", {"linf": 0.1}, {"steps": 0}, "at least 1"),
        ("pgd", {"linf": 0.1}, {"rate": -0.1}, "positive share"),
        ("sat", {"linf": 0.1, "l2": 1.0}, {"per": "epoch"}, "batch or sample"),
        ("ascending", {"linf": 0.1}, {"points": "both"}, "union, adversarial or replace"),
        ("pgd", {"linf": 0.1}, {"warmup": 2.0}, "warmup in"),
        ("pgd", {"linf": 0.1}, {"attacked": 0}, "share of a batch"),
        ("variation", {"linf": 0.1}, {"base": "mart"}, "pgd, trades or pat"),
        ("variation", {"linf": 0.1}, {"base": "pat"}, "perceptual distance lpips"),
        ("mart", {"linf": 0.1}, {"beta": 0}, "positive weight"),
        ("awp", {"linf": 0.1}, {"gamma": 0.0}, "positive share"),
        ("awp", {"linf": 0.1}, {"base": "pat"}, "pgd or trades"),
        ("hat", {"linf": 0.1}, {}, "name one"),
        ("hat", {"linf": 0.1}, {"helper": "trained:nowhere"}, "no model card"),
        ("pat", {"lpips": 0.1}, {"features": "alexnet"}, "expected ARCHITECTURE=FILE"),
    ],
)
def test_wrong_recipes(name: str, against: dict[str, float] | None, settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe_named(name, against, **settings)  # type: ignore[arg-type]
