"""Does a sample's output depend on the rest of its batch?"""

from __future__ import annotations

import torch

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.checks.indicators.randomness import differences, tolerance, varying
from robustatlas.models.classifier import seeded


class BatchDependence(Indicator):
    """Difference of the logits between two batches, in which a sample has other company."""

    name = "batch"
    needs = "scores"
    means = "a sample's output depends on the other samples of its batch"
    remedy = "Put normalisation over the batch into eval mode; otherwise numbers depend on the batch size"
    source = "ours"
    limit = "more than 0.001 of the largest logit, where the same batch gives the same"

    def measure(self, look: LookedAt) -> Measured:
        half, others = -(-len(look.x) // 2), []
        with torch.no_grad(), seeded(0, look.model.device):
            for rows in torch.split(torch.arange(len(look.x), device=look.x.device), half):
                x, labels = look.x[rows], look.labels[rows]
                company = torch.cat([x, x.flip(-1) if x.dim() > 2 else 1 - x])
                streams = look.noise.child(0).take(torch.cat([rows, rows]))
                logits = look.model.logits(company, labels=labels.repeat(2), noise=streams, verifying=True)
                others.append(logits[: len(rows)])
        values = differences(look.clean, torch.cat(others))
        return Measured.of(values, values > tolerance(look), varying(look) <= tolerance(look))
