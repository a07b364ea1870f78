"""The feature-squeezing detector (Xu et al. 2018): an input is suspect when squeezing it changes the prediction."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError

_BATCH = 512


class FeatureSqueezing(nn.Module):
    """Scores of inputs: the largest l1 distance, over the squeezers, between the predicted probabilities of an input
    and of its squeezed copy. In [0, 2]; large is suspect.

    Differentiable by whatever gradient the squeezers give, so that an attack on the detector sees through them.

    Args:
        net: images ``[B, ...]`` in [0, 1] to logits ``[B, C]``.
        squeezers: transformations of such images.

    Example:
        >>> import robustatlas as ra
        >>> from robustatlas.models.defenses import BitDepthReduction, MedianSmoothing
        >>> net = ra.load_model("builtin:digits-standard").net
        >>> detector = FeatureSqueezing(net, BitDepthReduction(1), MedianSmoothing(2))
        >>> threshold = detection_threshold(detector, ra.load_dataset("digits", "train").images)
        >>> suspect = detector(ra.load_dataset("digits").images) > threshold
        >>> 2 < 100 * suspect.float().mean() < 10  # of clean test images, for 5 % of those the threshold comes from
        tensor(True)
    """

    def __init__(self, net: nn.Module, *squeezers: nn.Module) -> None:
        super().__init__()
        if not squeezers:
            raise UserError("A feature-squeezing detector needs at least one squeezer, such as BitDepthReduction(4).")
        self.net = net
        self.squeezers = nn.ModuleList(squeezers)

    def forward(self, x: Tensor) -> Tensor:
        """``[B]``: the scores of ``x`` ``[B, ...]``."""
        own = self.net(x).softmax(1)
        distances = [(own - self.net(squeeze(x)).softmax(1)).abs().sum(1) for squeeze in self.squeezers]
        return torch.stack(distances).amax(0)


def detection_threshold(
    detector: Callable[[Tensor], Tensor], images: Tensor, false_positives: float = 5.0, batch_size: int = _BATCH
) -> float:
    """The score above which an input is rejected: the one that ``false_positives`` percent of clean ``images`` exceed.

    Of N sorted scores number ceil((1 - share) N), counted from 1. Choose it on training images.

    Args:
        detector: images ``[B, ...]`` to scores ``[B]``.
        images: ``[N, ...]`` in [0, 1], clean.
        false_positives: in percent, from 0 (the largest score) to below 100.
        batch_size: images scored at once.

    Example:
        >>> detection_threshold(lambda x: x[:, 0], torch.arange(200.0)[:, None], false_positives=5.0)
        189.0
    """
    if not 0 <= false_positives < 100:
        raise UserError(f"false_positives={false_positives}; expected a share in percent, from 0 to below 100.")
    if not len(images):
        raise UserError("A threshold is chosen on clean images; none is given.")
    with torch.no_grad():
        scores = torch.cat([detector(part) for part in torch.split(images, batch_size)]).sort().values
    kept = math.ceil(len(scores) * (1 - false_positives / 100) - 1e-9)
    return float(scores[max(kept, 1) - 1])
