"""Records of the samples under one attack: what is known of them, and what it cost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.common.bundle import Tree, put, take
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.engine.numerics import CLEAN
from robustatlas.models.classifier import Classifier
from robustatlas.models.objectives import margin_of


@dataclass
class Records:
    """Knowledge about N samples under one attack.

    Of the smallest verified example: ``best_size`` [N] (inf: none), its parameter ``best_theta`` (none: the neutral
    one), its prediction ``found_class``, and ``found_run``, the leg of the plan that found it (-1: none). ``mistakes``
    of ``drawn`` [N] forward passes judged it, or the clean input where that is misclassified.

    Other sizes, [N]: ``possible_size``, the smallest that is not certainly none (of randomised models); ``true_size``,
    the smallest that runs through the network's own gradients came to.

    Of the clean input: ``ranking`` [N, C], wrong classes by their logits, largest first; ``clean_margin`` [N], of
    softmax.

    By strength: ``margins`` [N, S + 1], lowest softmax margin seen with a size within it, and beyond all; ``fooled``
    int8 [N, S], how runs at that very strength ended (1 fooled, 0 survived, -1 none); ``queries`` int64 [N, S], forward
    passes when the first misclassified input within it was seen (-1: none), or [N, 0] where that is not asked.

    Counts, [N]: ``forward`` and ``backward`` passes; ``rejected`` candidates, which verification refused; ``saved``, at
    most how many passes of runs were left out because nothing can be found. ``finite`` []: whether all logits were
    (looked at where the loop waits for the device anyway, by :func:`check_finite`).
    """

    x: Tensor
    labels: Tensor
    strengths: Tensor
    noise: Noise
    clean_prediction: Tensor
    clean_margin: Tensor
    ranking: Tensor
    best_size: Tensor
    best_theta: Tree
    possible_size: Tensor
    true_size: Tensor
    found_class: Tensor
    found_run: Tensor
    mistakes: Tensor
    drawn: Tensor
    margins: Tensor
    fooled: Tensor
    forward: Tensor
    backward: Tensor
    queries: Tensor
    rejected: Tensor
    finite: Tensor
    saved: Tensor


def open_records(
    model: Classifier, attack: Attack, x: Tensor, labels: Tensor, noise: Noise, strengths: Tensor, slots: int
) -> Records:
    """Return the records after one clean pass."""
    with torch.no_grad():
        rows = torch.split(torch.arange(len(x), device=x.device), slots)
        judged = [model.judge(x[part], labels[part], noise.take(part).child(CLEAN)) for part in rows]
        logits = torch.cat([verdict.logits for verdict in judged])
        wrong, possible, mistakes, drawn = (
            torch.cat([getattr(verdict, name) for verdict in judged])
            for name in ("wrong", "possible", "mistakes", "drawn")
        )
    n, s = len(x), len(strengths)
    clean_margin = margin_of(logits.softmax(1), labels)
    ranking = logits.scatter(1, labels[:, None], -torch.inf).argsort(dim=1, descending=True, stable=True)
    return Records(
        x=x,
        labels=labels,
        strengths=strengths,
        noise=noise,
        clean_prediction=torch.cat([verdict.prediction for verdict in judged]),
        clean_margin=clean_margin,
        ranking=ranking,
        best_size=torch.full((n,), torch.inf, dtype=x.dtype, device=x.device),
        best_theta=_neutral(attack, x, rows),
        possible_size=torch.where(possible, 0.0, torch.inf).to(x.dtype),
        true_size=torch.full((n,), torch.inf, dtype=x.dtype, device=x.device),
        found_class=torch.full((n,), -1, device=x.device),
        found_run=torch.full((n,), -1, device=x.device),
        mistakes=mistakes * wrong,
        drawn=drawn * wrong,
        margins=torch.full((n, s + 1), torch.inf, dtype=x.dtype, device=x.device),
        fooled=torch.full((n, s), -1, dtype=torch.int8, device=x.device),
        forward=drawn.clone(),
        backward=torch.zeros(n, dtype=torch.int64, device=x.device),
        queries=torch.full((n, s if _counts_queries(model, attack) else 0), -1, device=x.device),
        rejected=torch.zeros(n, dtype=torch.int64, device=x.device),
        finite=logits.isfinite().all(),
        saved=torch.zeros(n, dtype=torch.int64, device=x.device),
    )


def _counts_queries(model: Classifier, attack: Attack) -> bool:
    """Return if queries are counted: the model only answers, and an example counts at all larger strengths."""
    return model.knowledge != "gradients" and attack.nested and not attack.judges_last


def _neutral(attack: Attack, x: Tensor, rows: Sequence[Tensor]) -> Tree:
    """The neutral theta of ``x`` [N, ...] in memory of its own, a batch of ``rows`` at a time: whole it would be there
    twice for a moment."""
    theta = take(attack.threat.neutral(x[:1]), x.new_zeros(len(x), dtype=torch.int64))
    for part in rows:
        put(theta, part, attack.threat.neutral(x[part]))
    return theta


def check_finite(attack: Attack, finite: bool) -> None:
    """Raise :class:`UserError` unless all logits were finite: of others no class can be told."""
    if not finite:
        raise UserError(
            f"The model returned NaN or infinite logits during the attack {attack.name!r}, at inputs inside [0, 1]. "
            "Look for divisions or logarithms in the model that overflow, or run it in float32."
        )


@contextmanager
def charge_passes(model: Classifier, records: Records, rows: Tensor) -> Iterator[None]:
    """Charge the passes made inside to ``rows``, in equal parts.

    Whatever runs the network is counted by the classifier; a batch that some of its rows use less (the projections of
    perceptual attacks) is shared, the remainder going to the first rows, so that no pass is lost.
    """
    with model.counting() as passes:
        yield
    held = len(rows)
    for column, count in ((records.forward, passes.forward), (records.backward, passes.backward)):
        if count:
            share, rest = divmod(count, max(held, 1))
            column.index_add_(0, rows, torch.full_like(rows, share))
            if rest:
                column[rows[:rest]] += 1
