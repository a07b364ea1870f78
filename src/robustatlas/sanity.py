"""Checks made once, before the work: would the numbers of this model on these samples mean anything?"""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.classifier import Classifier
from robustatlas.errors import UserError

_PROBE = 8
_SAME = 1e-3
"""Largest relative difference between two runs on the same input that rounding explains."""


def check_inputs(images: Tensor, labels: Tensor) -> None:
    """Raise :class:`UserError` unless ``images`` [N, ...] are finite and in [0, 1] and ``labels`` [N] are class
    numbers."""
    if len(images) == 0:
        raise UserError("There are no samples; expected at least one image. Check the data set or --samples.")
    if images.dim() < 2 or len(images) != len(labels) or labels.dim() != 1:
        raise UserError(
            f"Images have shape {tuple(images.shape)} and labels {tuple(labels.shape)}; expected [N, ...] and [N] "
            f"with the same N."
        )
    if not images.is_floating_point():
        raise UserError(f"Images are {images.dtype}; expected floating point in [0, 1]. Divide 8-bit images by 255.")
    if not bool(images.isfinite().all()):
        raise UserError("Images contain NaN or infinite values; expected numbers in [0, 1].")
    low, high = float(images.min()), float(images.max())
    if low < 0 or high > 1:
        hint = (
            "divide them by 255"
            if low >= 0 and high > 2
            else "undo the normalisation and give mean and std to Classifier"
        )
        raise UserError(f"Images lie in [{low:.4g}, {high:.4g}]; expected [0, 1]: {hint}.")
    if labels.is_floating_point() or bool((labels < 0).any()):
        raise UserError(f"Labels are {labels.dtype} from {labels.min().item()}; expected integers from 0.")


def check_model(model: Classifier, images: Tensor, labels: Tensor) -> list[str]:
    """Probe the model with a few samples; return warnings, raise :class:`UserError` where no honest number can come
    out.

    Errors: output not [B, C >= 2], not finite, labels beyond the classes, no gradient.
    Warnings: outputs look like probabilities; gradients all zero; the forward pass is random; a sample's output
    depends on the rest of the batch.
    """
    x = images[:_PROBE].to(model.device, model.dtype)
    with torch.no_grad():
        logits = model.logits(x, verifying=True)
    if logits.dim() != 2 or len(logits) != len(x) or logits.shape[1] < 2:
        raise UserError(
            f"The model returns shape {tuple(logits.shape)} for a batch of {len(x)}; expected logits [B, C] with at "
            f"least 2 classes. "
            "A single logit z per sample can be given as [0, z]."
        )
    if not bool(logits.isfinite().all()):
        raise UserError(
            "The model returns NaN or infinite logits on clean samples; expected finite logits. Check its weights and "
            "mean/std."
        )
    classes = logits.shape[1]
    if int(labels.max()) >= classes:
        raise UserError(
            f"Labels go up to {int(labels.max())}, but the model has {classes} classes (0 to {classes - 1})."
        )
    found = []
    if bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() < 1e-3).all()):
        found.append(
            "The model's outputs are non-negative and sum to 1: they look like probabilities. Saturated probabilities "
            "hide gradients; return logits instead."
        )
    found += _gradient_warnings(model, x, labels[:_PROBE].to(model.device))
    with torch.no_grad():
        again, alone = model.logits(x, verifying=True), model.logits(x[:1], verifying=True)
    scale = logits.abs().amax().clamp_min(1e-6)
    if bool((again - logits).abs().amax() > _SAME * scale):
        found.append(
            "The model gives different outputs for the same input: it is randomised, so robustness is overestimated "
            "by attacks that take one gradient sample."
        )
    elif bool((alone - logits[:1]).abs().amax() > _SAME * scale):
        found.append(
            "A sample's output depends on the other samples of its batch (batch normalisation in training mode?); "
            "results then depend on the batch size."
        )
    return found


def _gradient_warnings(model: Classifier, x: Tensor, labels: Tensor) -> list[str]:
    x = x.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(model.logits(x, verifying=True), labels)
    if not loss.requires_grad:
        raise UserError(
            "The model's output carries no gradient with respect to its input (no_grad, detach, or a conversion to "
            "numpy inside?); "
            "expected a differentiable model."
        )
    (gradient,) = torch.autograd.grad(loss, x, allow_unused=True)
    if gradient is None or not bool(gradient.any()):
        return [
            "The gradient of the loss with respect to the input is zero everywhere: gradient attacks cannot work, and "
            "robustness is overestimated. Use the attack 'square'."
        ]
    if not bool(gradient.isfinite().all()):
        return [
            "The gradient of the loss with respect to the input has NaN or infinite entries; gradient attacks will "
            "miss examples."
        ]
    return []
