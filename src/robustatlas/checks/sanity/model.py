"""Sanity checks of the model: outputs, gradients, side effects and accuracy."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import scipy  # which imports its parts where they are used: special takes long
import torch
from torch import Tensor

from robustatlas.checks.sanity.gradients import REMEDY, first_part_without_gradient, flat_operations, watched_margin
from robustatlas.common.errors import UserError
from robustatlas.common.wording import some
from robustatlas.data import Rows
from robustatlas.models.architectures import IMAGENET_MEAN, IMAGENET_STD
from robustatlas.models.classifier import Classifier, kind_of_outputs, seeded
from robustatlas.models.classifier.modes import hold_eval_mode, names_of_changes, state_of
from robustatlas.models.classifier.probing import BackwardError, input_gradient, raw_output

_PROBE = 8
GRADIENTS = 32
"""Number of samples whose gradients are looked at."""
_SAME = 1e-3
"""Largest relative difference between two runs on the same input that rounding explains."""


_SINGLE = {
    "logit": "the logit of class 1",
    "probability": "the probability of class 1 (after a sigmoid); better return the logit, before it",
}
_WARNED = {
    "probabilities": (
        "The model's outputs are non-negative and sum to 1: they look like probabilities. Saturated probabilities "
        "hide gradients; return logits instead, or give Classifier(net, outputs='probabilities'), which takes their "
        "logarithm (--set outputs=probabilities of onnx: and export:)."
    ),
    "sigmoids": (
        "The model's outputs lie in [0, 1] and do not sum to 1: they look like one sigmoid a class. Saturated sigmoids "
        "hide gradients; return the numbers before them. What counts here is the largest output: a model of several "
        "labels a sample is not measured by that."
    ),
}


def check_model(model: Classifier, images: Tensor | Rows, labels: Tensor) -> list[str]:
    """Probe the model with a few samples. An error means that no honest number can come out.

    Warnings are about the gradient (missing, or ending on the way, as after rounding); the outputs (several, of which
    the first is taken, or such as look like probabilities); the forward pass (random, writing into its input, or
    dependent on the rest of the batch); and an accuracy of chance.

    Args:
        model: to probe.
        images: [N, ...] in [0, 1], of which a few are taken.
        labels: [N] class numbers.

    Returns:
        warnings, one sentence each.

    Raises:
        UserError: no samples, output not [B, C >= 2], not finite, labels beyond the classes.

    Example:
        >>> from robustatlas import load_dataset, load_model
        >>> data = load_dataset("digits").take(64)
        >>> check_model(load_model("builtin:digits-linf"), data.images, data.labels)
        []
    """
    if len(images) == 0:
        raise UserError("There are no samples; expected at least one image.")
    x = images[:_PROBE].to(model.device, model.dtype)
    with torch.no_grad(), seeded(0, model.device):
        returned, rejecting, shapes = raw_output(model, x)
    kind = kind_of_outputs(returned)
    if model.outputs == "logits" and kind in _SINGLE and len(returned) == len(x):
        raise UserError(
            f"The model returns one number a sample (shape {tuple(returned.shape)}); expected logits [B, C] with at "
            f"least 2 classes. For two classes, give Classifier(net, outputs={kind!r}): {_SINGLE[kind]}."
        )
    logits = _seeded_logits(model, x, 0)
    check_logits(logits, len(x), labels)
    classes = logits.shape[1]
    found = [_WARNED[kind]] if kind in _WARNED and model.outputs == "logits" and model.knowledge != "labels" else []
    if rejecting and model.rejection is None:
        found.append(
            "The model returns (logits, one number a sample, one number): it looks like one that rejects. Only its "
            "logits are used here; give Classifier(net, rejection='score') to count as errors what is accepted and "
            "wrong."
        )
    else:
        found += multiple_output_warnings(model, shapes)
    if model.knowledge == "gradients":
        found += _gradient_warnings(model, images[:_PROBE], labels[:_PROBE])
    found += writing_warnings(model, x) + _repetition_warnings(model, x, logits)
    return found + accuracy_warnings(model, images, labels, classes)


def multiple_output_warnings(model: Classifier, shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """Return a warning if a model returns several tensors, of which the first is taken for the logits.

    Args:
        model: that returns them.
        shapes: their shapes; empty if it returns one.

    Returns:
        one warning or none.

    Example:
        >>> multiple_output_warnings(Classifier(torch.nn.Linear(4, 2)), ())
        []
    """
    if not shapes or model.rejection == "score":
        return []
    return [
        f"The model returns {len(shapes)} tensors, of shapes {' and '.join(map(str, shapes))}; the first is taken for "
        "the logits. Where another one holds them, give a function that returns it alone."
    ]


def check_logits(logits: Tensor, count: int, labels: Tensor) -> None:
    """Refuse logits of ``count`` clean samples that cannot be compared with labels [N].

    Args:
        logits: of the model.
        count: number of samples.
        labels: [N] class numbers, of these or more samples.

    Raises:
        UserError: not [B, C >= 2], not finite, labels beyond the classes.

    Example:
        >>> check_logits(torch.zeros(2, 3), 2, torch.tensor([0, 2]))
    """
    if logits.dim() != 2 or len(logits) != count or logits.shape[1] < 2:
        raise UserError(
            f"The model returns shape {tuple(logits.shape)} for a batch of {count}; expected logits [B, C] with at "
            f"least 2 classes."
        )
    if not bool(logits.isfinite().all()):
        if not bool((logits.isnan() | (logits == torch.inf)).any()):
            lacking = (logits == -torch.inf).any(0).nonzero().flatten().tolist()
            raise UserError(
                f"The model returns logits of -inf for class {lacking[0]} on some of the clean samples, as the "
                "logarithm of a probability of 0 is; return the logits before the softmax. A class that is never right "
                "may have -inf throughout."
            )
        raise UserError(
            "The model returns NaN or infinite logits on clean samples; expected finite logits. Check its weights and "
            "mean/std."
        )
    classes = logits.shape[1]
    if int(labels.max()) >= classes:
        raise UserError(
            f"Labels go up to {int(labels.max())}, but the model has {classes} classes (0 to {classes - 1})."
        )


def _seeded_logits(model: Classifier, x: Tensor, seed: int) -> Tensor:
    with torch.no_grad(), seeded(seed, model.device):
        return model.logits(x, verifying=True)


def _repetition_warnings(model: Classifier, x: Tensor, logits: Tensor) -> list[str]:
    """Return a warning if outputs depend on more than their own input; ``logits`` were drawn with seed 0."""
    same = max(_SAME, 4 * torch.finfo(model.network_dtype).eps) * logits.abs().amax().clamp_min(1e-6)
    if changed := _changes_with_state(model, x, float(same)):
        return [
            f"The model gives different outputs for the same input because each forward pass changes its state "
            f"({some(changed)}), in eval mode too: what is found depends on the order of the passes. Freeze that "
            "state before you evaluate; of quantisation-aware training by "
            "net.apply(torch.ao.quantization.disable_observer). The network is left as it was."
        ]
    repeated, redrawn, alone = _seeded_logits(model, x, 0), _seeded_logits(model, x, 1), _seeded_logits(model, x[:1], 0)
    meaning = (
        "The model gives different outputs for the same input: it is randomised, so attacks that take one sample of "
        "its gradient overestimate its robustness, and a success is one draw, not the rule; give "
        "Classifier(net, draws=20)."
    )
    if bool((repeated - logits).abs().amax() > same):
        return [f"{meaning} Its noise does not come from torch's seeded generator, so another run gives other numbers."]
    if bool((redrawn - logits).abs().amax() > same):
        return [f"{meaning} The same seed repeats it."]
    if bool((alone - logits[:1]).abs().amax() > same):
        return [
            "A sample's output depends on the other samples of its batch (batch normalisation in training mode?); "
            "results then depend on the batch size."
        ]
    return []


def _changes_with_state(model: Classifier, x: Tensor, same: float) -> list[str]:
    """Return the names of the state that passes change in the network, if its outputs change with it; else nothing.

    Inputs of a wider range follow ``x`` [B, ...], because observers change only then. Buffers are restored after an
    evaluation; a copy of all parameters would cost as much memory as the network, so a pass that writes into one is
    refused.

    Raises:
        UserError: a pass writes into a parameter.
    """
    if not isinstance(model.net, torch.nn.Module):
        return []
    with hold_eval_mode(model.net):
        before, first = state_of(model.net), _seeded_logits(model, x, 0)
        for other in (x, 1 - x, x.round()):
            _seeded_logits(model, other, 0)
        changed = names_of_changes(model.net, before)
        parameters = {name for name, _ in model.net.named_parameters()}
        if written := [name for name in changed if name in parameters]:
            raise UserError(
                f"A forward pass of the model writes into its parameters ({some(written)}), in eval mode too, so that "
                "an evaluation would change the network. Keep what changes in a buffer, which is restored, and load "
                "the network again: the passes so far have changed it."
            )
        differs = bool(changed) and bool((_seeded_logits(model, x, 0) - first).abs().amax() > same)
    return changed if differs else []


def _gradient_warnings(model: Classifier, images: Tensor, labels: Tensor) -> list[str]:
    x, margin = watched_margin(model, images, labels)
    ends = None
    try:
        slopes = input_gradient(margin, x)
    except BackwardError as failed:
        return [
            f"The backward pass of the model fails ({failed}), so that attacks by gradients find nothing. {REMEDY}."
        ]
    if slopes is None:
        ends = first_part_without_gradient(model, x)
    if ends is not None:
        return [f"The gradient of the model ends in {ends}, which is not differentiable. {REMEDY}."]
    if slopes is None:
        return [
            "The model's output carries no gradient with respect to its input (no_grad, detach, a Parameter or a "
            "conversion to numpy inside?), so that attacks by gradients find nothing. Wrap what is not differentiable "
            "in straight_through(function), or give from_predictions(function) a model that has no gradient at all."
        ]
    if rounding := flat_operations(margin):
        return [
            f"The model computes {' and '.join(rounding)} of what depends on the input, whose gradient is zero. "
            f"{REMEDY}."
        ]
    return []


def writing_warnings(model: Classifier, x: Tensor) -> list[str]:
    """Return a warning for each part of a model that changes its input ``x`` [B, ...] unseen by autograd.

    Such a change is ``x.detach().mul_(...)``. Each pass gets a copy, so that data stay as they are, but gradients do
    not see the change. Operations in place that autograd follows, such as ``nn.ReLU(inplace=True)``, are no faults.
    """
    guilty: list[str] = []

    def watched(part: Callable[[Tensor], Any], name: str) -> Callable[[Tensor], Any]:
        def run(given: Tensor) -> Any:
            before, node = given.detach().clone(), given.grad_fn
            answer = part(given)
            if given.grad_fn is node and not torch.equal(given.detach(), before):
                guilty.append(name)
            return answer

        return run

    prepare = None if model.prepare is None else watched(model.prepare, "its prepare")
    with suppress(UserError), seeded(0, model.device), torch.enable_grad():  # a failure is told by the other checks
        Classifier(model, prepare=prepare).answer(x.clone().requires_grad_(), watched(model.net, "the network"))
    return [
        f"The model writes into its input ({name}: an operation in place on a detached tensor, or inside no_grad). "
        "Every pass gets a copy, so the data stay as they are, but gradients do not see the change: write "
        "x = x * factor instead of x.detach().mul_(factor)."
        for name in dict.fromkeys(guilty)
    ]


_SAMPLES = 64
_BATCH = 8
_FEWEST = 10
"""Number of samples below which nothing is said about accuracy."""
_CHANCE = 0.05
"""Level of the test: the model is no better than a guesser who would do as well more often than this."""


def accuracy_warnings(model: Classifier, images: Tensor | Rows, labels: Tensor, classes: int) -> list[str]:
    """Return a warning if the model is right no more often than a guesser, on up to 64 samples spread over all.

    Common mistakes are undone on the same samples, and the warning names those that would explain the accuracy.
    """
    chosen = torch.linspace(0, len(images) - 1, min(_SAMPLES, len(images))).round().long()
    x, truth = images[chosen].to(model.device, model.dtype), labels[chosen].to(model.device)
    if len(x) < _FEWEST:
        return []
    predicted = _predictions(model, x)
    right = int((predicted == truth).sum())
    if not _is_like_guessing(right, len(x), classes):
        return []
    shown = f"The model is right on {right} of {len(x)} clean samples, no better than chance ({classes} classes)"
    better = [
        f"{what} ({count} right)"
        for what, count in _count_right_without_mistake(model, x, truth, predicted)
        if 2 * count > len(x)
    ]
    if better:
        return [f"{shown}; it would be right more often with {', or '.join(better)}."]
    return [
        f"{shown}. Likely causes: weights that were not loaded (--weights), a missing mean and std, classes numbered "
        "from 1 or in another order, channels in another order."
    ]


def _is_like_guessing(right: int, count: int, classes: int) -> bool:
    return right == 0 or float(scipy.special.bdtrc(right - 1, count, 1 / classes)) > _CHANCE


def _predictions(model: Classifier, x: Tensor, change: Callable[[Tensor], Tensor] = lambda part: part) -> Tensor:
    with torch.no_grad(), seeded(0, model.device):
        return torch.cat([model.logits(change(part), verifying=True).argmax(1) for part in torch.split(x, _BATCH)])


def _count_right_without_mistake(
    model: Classifier, x: Tensor, truth: Tensor, predicted: Tensor
) -> list[tuple[str, int]]:
    """Return for each common mistake of inputs or labels how many samples are right once it is undone."""
    inputs: dict[str, Callable[[Tensor], Tensor]] = {
        "pixels from 0 to 255": lambda part: part * 255,
        "pixels from -1 to 1 (mean=0.5, std=0.5)": lambda part: part * 2 - 1,
    }
    if x.dim() == 4 and x.shape[1] == 3:
        mean, std = (torch.tensor(values).to(x).view(-1, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
        inputs |= {
            f"ImageNet's mean={IMAGENET_MEAN} and std={IMAGENET_STD}": lambda part: (part - mean) / std,
            "its channels reversed (BGR)": lambda part: part.flip(1),
        }
    counts = []
    for what, change in inputs.items():
        with suppress(UserError):  # a network may refuse such inputs
            counts.append((what, int((_predictions(model, x, change) == truth).sum())))
    return [
        ("labels one higher", int((predicted == truth + 1).sum())),
        ("labels one lower", int((predicted == truth - 1).sum())),
        *counts,
    ]
