"""Typical accuracies of an attack: the share of its draws that a model withstands, beside the searched worst case."""

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.common.noise import Noise
from robustatlas.engine.numerics import JUDGED, TYPICAL
from robustatlas.engine.records import Records
from robustatlas.models.classifier import Classifier
from robustatlas.threats.levels import shown


def typical_accuracies(model: Classifier, attack: Attack, records: Records, slots: int) -> Tensor:
    """``[N, S]``: the share of the draws of each sample at each strength that are classified correctly, also of samples
    that are misclassified clean; ``slots`` draws at once. Passes are charge_passes.

    A draw depends on the sample, its strength and its number, and on no other strength.
    """
    threat, draws, model = attack.threat, attack.typical, model.channels_last()
    samples, levels = records.forward.shape[0], len(records.strengths)
    strength_bits = records.strengths.float().view(torch.int32).long()
    right = torch.zeros(samples * levels, dtype=torch.float64, device=records.x.device)
    for part in torch.split(torch.arange(samples * levels * draws, device=records.x.device), slots):
        cell, draw = part // draws, part % draws
        row, level = cell // levels, cell % levels
        noise: Noise = records.noise.take(row).child(TYPICAL).child(strength_bits[level]).child(draw)
        x, labels = records.x[row], records.labels[row]
        with torch.no_grad():
            theta = threat.typical(x, records.strengths[level], noise)
            changed = shown(threat, x, theta, attack.eight_bit)
            verdict = model.judged(changed, labels, noise.child(JUDGED))
        right.index_add_(0, cell, (~verdict.wrong).to(right.dtype))
        records.forward.index_add_(0, row, verdict.drawn)
        records.finite &= verdict.logits.isfinite().all()
    return (right / draws).view(samples, levels)
