"""The judgement of given examples: validity, sizes, and predictions of the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.common.bundle import Fixed, flatten, optimised_tensors, per_sample
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.evaluation.examples import Arrays
from robustatlas.evaluation.verification.asked import Case, is_size_from_images
from robustatlas.models.objectives import margin_of
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.levels import round_to_levels

_OUTSIDE = 1e-6
"""Pixels outside of [0, 1] by less than this are rounding, and are moved to the border before anything is judged."""
_SAME_THETA = 1e-4
"""A parameter is a point of a set where drawing it into the set moves it, relative to its largest entry, less."""

REFUSALS = (
    "the label is not that of the data",
    "the clean image is misclassified already",
    "not a finite number",
    "outside of [0, 1]",
    "not an input that the attack may make",
    "classified correctly",
)
"""Reasons for which an example does not count; of several the first is told."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """Judgement of M examples of N samples.

    Attributes:
        refusal: ``[M]``, position in :data:`REFUSALS`, -1 where the example counts.
        sizes: attack -> ``[M]``.
        found: ``[M]``, predicted class.
        margin: ``[M]``, softmax margin.
        images: ``[M, ...]``, as they were judged.
        mistakes, drawn: ``[M]``, misclassified forward passes of how many.
        clean_prediction, clean_margin: ``[N]``.
    """

    refusal: NDArray[np.int64]
    sizes: dict[str, NDArray[np.float64]]
    found: NDArray[np.int64]
    margin: NDArray[np.float64]
    images: NDArray[np.float32]
    mistakes: NDArray[np.int64]
    drawn: NDArray[np.int64]
    clean_prediction: NDArray[np.int64]
    clean_margin: NDArray[np.float32]

    def smallest(self, attack: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the smallest valid example of each of the samples ``rows`` [M] that has one."""
        size = np.where(self.refusal < 0, self.sizes[attack], np.inf)
        order = np.lexsort((size, rows))
        first = order[np.unique(rows[order], return_index=True)[1]]
        return first[np.isfinite(size[first])]


def judge(case: Case, batch: int) -> Judgement:
    """All examples of a case, ``batch`` at a time."""
    clean = [_clean(case, part) for part in torch.split(torch.arange(len(case.work.labels)), batch)]
    prediction, clean_margin = (torch.cat(parts) for parts in zip(*clean, strict=True))
    pieces = [_judge_part(case, part, prediction) for part in torch.split(torch.arange(len(case.given)), batch)]
    whole = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    sizes = {name: whole.pop(f"size of {name}") for name in case.wanted}
    return Judgement(
        sizes=sizes, clean_prediction=prediction.numpy(), clean_margin=clean_margin.float().numpy(), **whole
    )


def _clean(case: Case, part: Tensor) -> tuple[Tensor, Tensor]:
    """Prediction and softmax margin of the samples ``part``."""
    x, labels = case.work.load(case.model, part)
    verdict = case.model.judge(x, labels, Noise.for_samples(0, _positions(case, part, x), "verify clean"))
    return verdict.prediction.cpu(), margin_of(verdict.logits.softmax(1), labels).cpu()


def _positions(case: Case, rows: Tensor, x: Tensor) -> Tensor:
    return torch.from_numpy(case.work.index[rows.numpy()]).to(x.device)


def _judge_part(case: Case, part: Tensor, clean_prediction: Tensor) -> Arrays:
    """Judge the examples ``part``."""
    given, threats = case.given, {name: threat for name, (_, threat) in case.wanted.items()}
    rows = torch.from_numpy(case.rows[part.numpy()])
    x, labels = case.work.load(case.model, rows)
    refused = dict.fromkeys(REFUSALS, torch.zeros(len(part), dtype=torch.bool, device=x.device))
    refused["the clean image is misclassified already"] = clean_prediction[rows].to(x.device) != labels
    if given.labels is not None:
        said = torch.from_numpy(given.labels[part.numpy()]).to(x.device)
        refused["the label is not that of the data"] = said != labels
    images, sizes, inside = _images_and_sizes(case, part, x)
    refused["not an input that the attack may make"] = ~inside
    finite = images.isfinite().flatten(1).all(1)
    refused["not a finite number"] = ~finite
    images = torch.where(per_sample(finite, images), images, x)
    outside = ((images < -_OUTSIDE) | (images > 1 + _OUTSIDE)).flatten(1).any(1)
    refused["outside of [0, 1]"] = outside
    images = images.clamp(0, 1)
    if case.eight_bit:
        images = round_to_levels(images)
    noise = Noise.for_samples(0, _positions(case, rows, x), "verify").child(part.to(x.device))
    verdict = case.model.judge(images, labels, noise)
    refused["classified correctly"] = ~verdict.wrong
    sizes |= {
        name: threat.size(x.double(), images.double() - x.double())
        for name, threat in threats.items()
        if is_size_from_images(threat)
    }
    reasons = torch.stack([refused[reason] for reason in REFUSALS])
    judged = {
        "refusal": torch.where(reasons.any(0), reasons.long().argmax(0), -1),
        "found": verdict.prediction,
        "margin": margin_of(verdict.logits.softmax(1), labels).double(),
        "images": images.float(),
        "mistakes": verdict.mistakes,
        "drawn": verdict.drawn,
    }
    judged |= {f"size of {name}": size.double() for name, size in sizes.items()}
    return {name: values.cpu().numpy() for name, values in judged.items()}


def _images_and_sizes(case: Case, part: Tensor, x: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """The examples ``part`` of the samples ``x``: their images, sizes where they are given as theta, and whether that
    is a point of its set."""
    given, name = case.given, str(case.given.attack)
    if not given.theta or name not in case.wanted:
        assert given.images is not None  # what has no images has theta
        return _shaped(given.images[part.numpy()], x), {}, torch.ones(len(x), dtype=torch.bool, device=x.device)
    _, threat = case.wanted[name]
    theta = _theta(threat, x, [leaf[part.numpy()] for leaf in given.theta], name)
    size = threat.size(x, theta)
    return threat.apply(x, theta), {name: size}, _is_point_of_set(threat, x, theta, size)


def _shaped(images: NDArray[Any], x: Tensor) -> Tensor:
    """``images`` [B, ...] like ``x`` [B, ...]; the channels may stand last, or be left out where there is one."""
    given = torch.from_numpy(np.ascontiguousarray(images)).to(x)
    if given.dim() == 4 and given.shape != x.shape and given.permute(0, 3, 1, 2).shape == x.shape:
        return given.permute(0, 3, 1, 2).contiguous()
    if given.dim() == 3 and given[:, None].shape == x.shape:
        return given[:, None]
    if given.shape != x.shape:
        raise UserError(
            f"The examples have shape {tuple(given.shape[1:])}, and the images of the data {tuple(x.shape[1:])}."
        )
    return given


def _theta(threat: ThreatModel, x: Tensor, leaves: Sequence[NDArray[Any]], attack: str) -> Any:
    """The parameters as the set has them."""
    like = threat.neutral(x)
    nodes, structure = pytree.tree_flatten(like, is_leaf=lambda node: isinstance(node, Fixed))
    if any(isinstance(node, Fixed) for node in nodes):
        raise UserError(
            f"Some of theta of {attack!r} is drawn at random, and whether given numbers could have been drawn cannot "
            "be checked; examples of this attack are not taken."
        )
    shapes = [tuple(leaf.shape[1:]) for leaf in optimised_tensors(like)]
    if [leaf.shape[1:] for leaf in leaves] != shapes:
        raise UserError(
            f"theta of {attack!r} has the shapes {', '.join(map(str, shapes))} a sample; given "
            f"{', '.join(str(leaf.shape[1:]) for leaf in leaves)}."
        )
    filled = iter(torch.from_numpy(np.ascontiguousarray(leaf)).to(x) for leaf in leaves)
    return pytree.tree_unflatten([next(filled) if isinstance(node, Tensor) else node for node in nodes], structure)


def _is_point_of_set(threat: ThreatModel, x: Tensor, theta: Any, size: Tensor) -> Tensor:
    """``[B]``: theta is a point of the set of its own size."""
    drawn = threat.project(x, theta, size * (1 + STRENGTH_TOLERANCE))
    inside = size.isfinite()
    for here, there in zip(optimised_tensors(theta), optimised_tensors(drawn), strict=True):
        moved, scale = flatten(here - there).abs().amax(1), flatten(here).abs().amax(1)
        inside &= moved <= _SAME_THETA * scale
    return inside
