"""A tiny network and batch, and attacks written out again, without the package's threat models and optimizers."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.common.noise import Noise
from robustatlas.training.recipes import Batch, Memory, Recipe

SIZE, CLASSES, COUNT = 6, 4, 7
LINF, L2, L1, STEPS = 0.12, 0.7, 2.5, 3
BOUND = 1e-9


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    ).double()


def batch() -> Batch:
    torch.manual_seed(2)
    noise = Noise.for_samples(3, torch.arange(COUNT), "training")
    shared = Noise.for_samples(3, torch.tensor([5]), "batch")
    x = torch.rand(COUNT, 1, SIZE, SIZE, dtype=torch.float64)
    return Batch(x, torch.randint(CLASSES, (COUNT,)), noise, shared, epoch=1, epochs=4, done=0.3, learning_rate=0.05)


def check(recipe: Recipe, expected: Tensor, net: nn.Module, given: Batch, memory: Memory | None = None) -> None:
    """The loss and its gradients are those expected, and nothing is left on the network by crafting."""
    names = [name for name, _ in net.named_parameters()]
    wanted = torch.autograd.grad(expected, list(net.parameters()))
    net.train()
    update = recipe.update(net, given, memory or recipe.remember(net, given.x, given.shared))
    assert all(p.grad is None for p in net.parameters())
    assert net.training
    assert abs(float(update.loss.detach()) - float(expected.detach())) < BOUND
    found = torch.autograd.grad(update.loss, list(net.parameters()))
    for name, a, b in zip(names, found, wanted, strict=True):
        assert float((a - b).abs().max()) < BOUND, name


def ce(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y)


def slope(value: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    point = point.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(value(point).sum(), point)
    return gradient


def flat_norm(v: Tensor, p: float) -> Tensor:
    return v.flatten(1).norm(p, dim=1).view(-1, 1, 1, 1)


def each(value: float) -> Tensor:
    return torch.full((COUNT,), value, dtype=torch.float64)


def start_linf(noise: Noise, epsilon: float | Tensor = LINF) -> Tensor:
    return noise.symmetric(1, SIZE, SIZE, dtype=torch.float64) * epsilon


def start_l2(noise: Noise, uniform: bool) -> Tensor:
    g = noise.child(0).normal(1, SIZE, SIZE, dtype=torch.float64)
    r = noise.child(1).uniform(dtype=torch.float64).view(-1, 1, 1, 1)
    return L2 * (r ** (1 / SIZE**2) if uniform else r) * g / flat_norm(g, 2)


def boxed(x: Tensor, d: Tensor) -> Tensor:
    return (x + d).clamp(0, 1) - x


def linf_ascent(
    value: Callable[[Tensor], Tensor], x: Tensor, d: Tensor, epsilon: float | Tensor = LINF, rate: float | None = None
) -> Tensor:
    rate = 2.5 / STEPS if rate is None else rate
    d = boxed(x, d)
    for _ in range(STEPS):
        d = d + rate * epsilon * slope(value, x + d).sign()
        d = boxed(x, torch.minimum(torch.maximum(d, -epsilon * torch.ones_like(d)), epsilon * torch.ones_like(d)))
    return x + d


def l2_step(x: Tensor, d: Tensor, g: Tensor, rate: float = 2.5 / STEPS) -> Tensor:
    d = d + rate * L2 * g / flat_norm(g, 2)
    return boxed(x, d * (L2 / flat_norm(d, 2)).clamp_max(1))


def l2_ascent(value: Callable[[Tensor], Tensor], x: Tensor, d: Tensor) -> Tensor:
    d = boxed(x, d)
    for _ in range(STEPS):
        d = l2_step(x, d, slope(value, x + d))
    return x + d


def losses(net: nn.Module, y: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda point: F.cross_entropy(net(point), y, reduction="none")


def kl(natural: Tensor, logits: Tensor) -> Tensor:
    p = natural.softmax(1)
    return (p * (p.log() - logits.softmax(1).log())).sum(1)


def near(noise: Noise) -> Tensor:
    return 0.001 * noise.normal(1, SIZE, SIZE, dtype=torch.float64)


def trades_point(net: nn.Module, x: Tensor, noise: Noise, epsilon: float = LINF) -> Tensor:
    """From x + noise; what of it lies outside of the box is clipped before the network sees it."""
    natural, d = net(x).detach(), near(noise)
    for _ in range(STEPS):
        g = slope(lambda p: kl(natural, net(p)), (x + d).clamp(0, 1))
        d = boxed(x, (d + 2.5 / STEPS * epsilon * g.sign()).clamp(-epsilon, epsilon))
    return x + d


def border_step(x: Tensor, d: Tensor, g: Tensor, length: Tensor) -> Tensor:
    """Coordinate by coordinate, largest gradients first, each as far as the box allows."""
    moved = d.clone()
    for n in range(len(x)):
        left, flat = float(length[n]), moved[n].view(-1)
        for k in g[n].flatten().abs().argsort(descending=True).tolist():
            up = float(g[n].view(-1)[k]) > 0
            here = float(x[n].view(-1)[k] + flat[k])
            step = min(left, 1 - here if up else here)
            flat[k] += step if up else -step
            left -= step
    return moved
