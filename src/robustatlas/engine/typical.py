"""What is typical of an attack: how often draws of it fool a model, beside the worst case that is searched."""

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.common.noise import Noise
from robustatlas.engine.ledger import Ledger
from robustatlas.engine.numerics import JUDGED, TYPICAL
from robustatlas.models.classifier import Classifier
from robustatlas.threats.levels import shown


def typical_of(model: Classifier, attack: Attack, ledger: Ledger, lanes: int) -> Tensor:
    """``[N, S]``: the share of the draws of each sample at each strength that are classified correctly, also of samples
    that are misclassified clean; ``lanes`` draws at once. Passes are charged.

    A draw depends on the sample, its strength and its number, and on no other strength.
    """
    threat, draws, model = attack.threat, attack.typical, model.channels_last()
    samples, levels = ledger.forward.shape[0], len(ledger.strengths)
    strength_bits = ledger.strengths.float().view(torch.int32).long()
    right = torch.zeros(samples * levels, dtype=torch.float64, device=ledger.x.device)
    for part in torch.split(torch.arange(samples * levels * draws, device=ledger.x.device), lanes):
        cell, draw = part // draws, part % draws
        row, level = cell // levels, cell % levels
        noise: Noise = ledger.noise.take(row).child(TYPICAL).child(strength_bits[level]).child(draw)
        x, labels = ledger.x[row], ledger.labels[row]
        with torch.no_grad():
            theta = threat.typical(x, ledger.strengths[level], noise)
            changed = shown(threat, x, theta, attack.eight_bit)
            verdict = model.judged(changed, labels, noise.child(JUDGED))
        right.index_add_(0, cell, (~verdict.wrong).to(right.dtype))
        ledger.forward.index_add_(0, row, verdict.drawn)
        ledger.finite &= verdict.logits.isfinite().all()
    return (right / draws).view(samples, levels)
