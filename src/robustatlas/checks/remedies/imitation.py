"""A model with estimated gradients, and a network that imitates a model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier

Scores = Callable[[Tensor], Tensor]
SPREAD = 8 / 255
"""Standard deviation of the neighbourhood that estimated gradients are averaged over (Tramèr et al. 2020)."""
PAIRS = 24
"""Antithetic pairs of an estimated gradient."""
_WIDTH, _BATCH = 128, 64


def model_with_estimated_gradient(model: Classifier) -> Classifier:
    """Return the model with gradients by antithetic finite differences over a Gaussian neighbourhood.

    Evolution strategies take such gradients: they see jumps and need no backward pass (Salimans et al. 2017; Tramèr et
    al. 2020 on k-winners-take-all).
    """

    def estimated_scores(x: Tensor) -> Tensor:
        estimate: Tensor = _Estimated.apply(x, scores_of(model))  # type: ignore[no-untyped-call]
        return estimate

    return model.with_stand_in(estimated_scores, f"estimated@{PAIRS}")


class _Estimated(torch.autograd.Function):
    """The scores; backward multiplies by differences along random directions that belong to the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scores: Scores) -> Tensor:
        noise = _noise_of(x)
        differences = []
        for pair in range(PAIRS):
            step = SPREAD * noise.child(pair).normal(*x.shape[1:], dtype=x.dtype)
            differences.append(scores((x + step).clamp(0, 1)) - scores((x - step).clamp(0, 1)))
        ctx.noise, ctx.shape = noise, x.shape
        ctx.save_for_backward(torch.stack(differences))
        return scores(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (differences,) = ctx.saved_tensors
        weights = (differences * gradient).sum(2)  # [pairs, B]
        total = torch.zeros(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        for pair in range(PAIRS):
            step = ctx.noise.child(pair).normal(*ctx.shape[1:], dtype=gradient.dtype)
            total += per_sample(weights[pair], step) * step
        return total / (2 * SPREAD * PAIRS), None


def _noise_of(x: Tensor) -> Noise:
    """Return streams [B] that belong to the pixels, so that no sample's directions depend on its batch."""
    bits = flat(x.detach().float()).contiguous().view(torch.int32).long()
    places = torch.arange(1, bits.shape[1] + 1, device=x.device) * 0x9E3779B1
    return Noise((bits * places).sum(1)).child(0)


def scores_of(model: Classifier) -> Scores:
    """Return a function that computes the outputs of a model without a gradient."""

    def scores(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model.logits(x, verifying=True)

    return scores


def distill(model: Classifier, images: Tensor, epochs: int = 30) -> nn.Module:
    """Return a small network that learned the outputs of the model at ``images`` [N, ...] and around them."""
    x = images.to(model.device, model.dtype)
    with torch.no_grad():
        outputs = torch.cat([model.logits(part, verifying=True) for part in torch.split(x, _BATCH)])
    targets = (outputs / outputs.std().clamp_min(1e-12)).float()
    student = nn.Sequential(
        nn.Flatten(), nn.Linear(flat(x).shape[1], _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH), nn.GELU(),
        nn.Linear(_WIDTH, targets.shape[1]),
    ).to(model.device)  # fmt: skip
    noise = Noise.of(0, torch.arange(len(x), device=model.device), "distillation")
    optimizer = torch.optim.Adam(student.parameters(), 2e-3)
    with torch.enable_grad():
        for epoch in range(epochs):
            noisy = (x + SPREAD * noise.child(epoch).normal(*x.shape[1:], dtype=x.dtype)).clamp(0, 1).float()
            order = torch.argsort(noise.child(epoch).uniform())
            for rows in torch.split(order, _BATCH):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(student(noisy[rows]), targets[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return student.eval().requires_grad_(False)
