"""Target classes of runs: in the order of the logits, by distance, or at random."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.bundle import dot, gradient, require_gradient
from robustatlas.engine.numerics import CLEAN, NUMERICS, TARGET
from robustatlas.engine.records import Records, charge_passes
from robustatlas.models.classifier import Classifier


@dataclass
class TargetClasses:
    """``ranking`` [N, C]: wrong classes by their logits, largest first, and ``nearest`` [N, C] by their linearised
    distance (None until it is asked for)."""

    ranking: Tensor
    nearest: Tensor | None = None

    def classes(self, records: Records, run: AttackRun, rows: Tensor, numbers: Tensor) -> Tensor:
        """``[B]``: the class of execution number ``numbers`` [B] of a run, -1: untargeted."""
        if run.targets == "random":
            classes = self.ranking.shape[1]
            return (records.labels[rows] + 1 + records.noise.take(rows).child(TARGET).integers(classes - 1)) % classes
        if run.targets is None:
            return torch.full_like(rows, -1)
        order = self.nearest if run.targets == "distance" and self.nearest is not None else self.ranking
        return order[rows].gather(1, numbers[:, None]).squeeze(1)

    def order_by_distance(self, model: Classifier, attack: Attack, records: Records, todo: Iterable[Tensor]) -> None:
        """Find ``nearest`` of the samples ``todo``, a batch at a time."""
        self.nearest = self.ranking.clone()
        for rows in todo:
            self.nearest[rows] = _classes_by_distance(model, attack, records, self.ranking[rows], rows)


def _classes_by_distance(model: Classifier, attack: Attack, records: Records, ranking: Tensor, rows: Tensor) -> Tensor:
    """``[B, C]``: the wrong classes by the linearised distance to their boundary (DeepFool's choice of class), among
    those with the largest logits; the others follow by their logits."""
    count = min(NUMERICS.nearest, ranking.shape[1] - 1)
    x, labels = records.x[rows], records.labels[rows]
    theta = require_gradient(attack.threat.neutral(x))
    distances = []
    with charge_passes(model, records, rows):
        noise = records.noise.take(rows).child(CLEAN).child(0)
        logits = model.logits(attack.threat.apply(x, theta), labels=labels, noise=noise)
        records.finite &= logits.detach().isfinite().all()
        for k in range(count):
            gap = (logits.gather(1, labels[:, None]) - logits.gather(1, ranking[:, k, None])).squeeze(1)
            uphill = gradient(gap, theta, retain_graph=k < count - 1)
            slope = dot(uphill, attack.threat.steepest(x, uphill))
            distances.append(gap.detach() / slope.clamp_min(1e-12))
    order = torch.stack(distances, 1).argsort(dim=1, stable=True)
    return torch.cat([ranking[:, :count].gather(1, order), ranking[:, count:]], 1)
