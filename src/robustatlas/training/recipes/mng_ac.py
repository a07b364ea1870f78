"""Meta noise generation with adversarial consistency."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from robustatlas.common.noise import Noise
from robustatlas.optimizers.crafting import ball_point, network_mode
from robustatlas.threats.lp import Lp
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, require_balls

_CHANNELS = 20
_LAYERS = (("1", 1), ("2", 3), ("3", 1), ("4", 1))
"""Name and kernel of the generator's convolutions."""


@dataclass(frozen=True)
class MngAc(Recipe):
    """SAT with noise from a generator that is trained to help, and consistent predictions (Madaan et al. 2021).

    For each batch an lp ball is drawn. x_adv comes from projected ascent, x_aug = x + the generator's noise brought to
    the ball. (1) The network makes a trial step on the cross-entropy at x_aug. (2) The generator makes a step (SGD, at
    the network's learning rate) that lowers the trial network's cross-entropy at x_adv. (3) x_aug is drawn again. (4)
    The network minimises the cross-entropy at x_adv + ``weight`` x the Jensen-Shannon divergence of its predictions on
    x, x_adv and x_aug.

    The generator sees normal noise alone, as in the public code: 1x1, 3x3, 1x1 and 1x1 convolutions with leaky ReLUs,
    added to the noise. Its first weights are normal with variance 2 / (k^2 x channels out), its biases 0. There
    examples are crafted on a copy in train mode: ``crafting="batch"`` here.
    """

    name: ClassVar[str] = "mng-ac"
    source: ClassVar[str] = "Madaan et al. 2021 (MNG-AC)"
    opponents: ClassVar[str] = "any"

    weight: float = 12.0
    generator_momentum: float = 0.9
    generator_decay: float = 5e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)

    def remember(self, net: nn.Module, x: Tensor, noise: Noise) -> Memory:
        channels = x.shape[1]
        widths = (channels, _CHANNELS, _CHANNELS, _CHANNELS, channels)
        generator: dict[str, Tensor] = {}
        for position, (layer, kernel) in enumerate(_LAYERS):
            drawn = noise.child(position).normal(widths[position + 1], widths[position], kernel, kernel, dtype=x.dtype)
            deviation = math.sqrt(2 / (kernel**2 * widths[position + 1]))
            generator[f"{layer}.weight"] = (deviation * drawn[0]).to(x.device)
            generator[f"{layer}.bias"] = torch.zeros(widths[position + 1], dtype=x.dtype, device=x.device)
        momentum = {f"momentum.{name}": torch.zeros_like(weights) for name, weights in generator.items()}
        return {f"generator.{name}": weights for name, weights in generator.items()} | momentum

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        which = int(batch.shared.integers(len(self.against)))
        opponent = self.against[which]
        epsilon = self.strength(opponent, batch)
        threat = opponent.threat
        assert isinstance(threat, Lp)
        with network_mode(net, batch.mode):
            x_adv = self.craft(net, batch, which).x
        noise = batch.noise.child(len(self.against))
        memory = self._generator_step(net, batch, memory, x_adv, threat, epsilon, noise.child(0))
        with torch.no_grad():
            x_aug = augmented(memory, threat, batch.x, epsilon, noise.child(1))
        logits = [net(x) for x in (batch.x, x_aug, x_adv)]  # in the order in which running statistics see them
        loss = self.cross_entropy(logits[2], batch.labels) + self.weight * jensen_shannon(logits)
        return Update(loss, accuracy(logits[2], batch.labels), memory)

    def _generator_step(
        self, net: nn.Module, batch: Batch, memory: Memory, x_adv: Tensor, threat: Lp, epsilon: Tensor, noise: Noise
    ) -> Memory:
        names = [name for name in memory if name.startswith("generator.")]
        weights = {name: memory[name].detach().requires_grad_() for name in names}
        parameters: dict[str, Tensor] = {name: p for name, p in net.named_parameters() if p.requires_grad}
        buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}  # a trial leaves no trace in them
        x_aug = augmented(weights, threat, batch.x, epsilon, noise)
        trial_loss = self.cross_entropy(functional_call(net, parameters | buffers, (x_aug,)), batch.labels)
        slopes = torch.autograd.grad(  # zero for parameters that the loss does not reach
            trial_loss, list(parameters.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )
        trial = {
            name: p - batch.learning_rate * slope for (name, p), slope in zip(parameters.items(), slopes, strict=True)
        }
        loss = self.cross_entropy(functional_call(net, trial | buffers, (x_adv,)), batch.labels)
        gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        moved = dict(memory)
        for name, gradient in zip(names, gradients, strict=True):
            layer = name.removeprefix("generator.")
            momentum = self.generator_momentum * memory[f"momentum.{layer}"] + gradient
            momentum = momentum + self.generator_decay * memory[name]
            moved[f"momentum.{layer}"] = momentum.detach()
            moved[name] = (memory[name] - batch.learning_rate * momentum).detach()
        return moved


def augmented(weights: Memory, threat: Lp, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
    """Return x + the generator's noise, in the ball and in [0, 1]; differentiable in ``weights``."""
    height, width = x.shape[-2:]
    z = noise.normal(x.shape[1], height + 2, width + 2, dtype=x.dtype)
    hidden = z
    for layer, _ in _LAYERS:
        hidden = F.conv2d(hidden, weights[f"generator.{layer}.weight"], weights[f"generator.{layer}.bias"])
        if layer != _LAYERS[-1][0]:
            hidden = F.leaky_relu(hidden, 0.01)
    return ball_point(threat, x, hidden + z[..., 1:-1, 1:-1], epsilon)


def jensen_shannon(logits: list[Tensor]) -> Tensor:
    """Return the scalar mean over the samples of (1/n) sum_i KL(p_i || m), m the mean of the n predictions, at
    least 1e-7.

    Example:
        >>> jensen_shannon([torch.zeros(1, 2), torch.zeros(1, 2)]).abs() < 1e-6
        tensor(True)
    """
    predictions = [z.softmax(1) for z in logits]
    log_mean = torch.stack(predictions).mean(0).clamp(1e-7, 1).log()
    parts = [F.kl_div(log_mean, p, reduction="batchmean") for p in predictions]
    return torch.stack(parts).mean()
