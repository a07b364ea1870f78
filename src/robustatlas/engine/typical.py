"""Random draws of an attack: the share that a model withstands is typical, and mistakes among them count as found."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree
from robustatlas.common.noise import Noise
from robustatlas.engine.evidence import enter_examples, is_inside
from robustatlas.engine.execution import Execution
from robustatlas.engine.numerics import JUDGED, NUMERICS, TYPICAL, VERIFIED
from robustatlas.models.classifier.draws import Verdict
from robustatlas.models.objectives import margin_of
from robustatlas.threats.levels import shown

_KEPT_FOR_SEARCH = 2
"""Queries that draws leave to the search, of a model that may be asked only so often: one, and one that verifies."""


@dataclass(frozen=True)
class Draws:
    """Answers of a model to random points of N samples at S strengths.

    ``right`` float64 [N, S]: share of the points that are classified correctly. ``mistakes``: points that a second look
    confirmed as misclassified.
    """

    right: Tensor
    mistakes: tuple[Mistakes, ...]


@dataclass(frozen=True)
class Mistakes:
    """Verified mistakes of B samples, one of each.

    ``rows`` [B] into the records. ``level`` [B]: of the strength. ``verdict`` of the second look; ``good`` [B]: it is
    that they are misclassified.
    """

    rows: Tensor
    level: Tensor
    theta: Tree
    size: Tensor
    verdict: Verdict
    good: Tensor


@dataclass(frozen=True)
class _Points:
    """Random points of samples ``rows`` [B] at the strengths ``level`` [B]: ``theta``, its ``size`` [B], the input
    ``changed`` [B, ...], and ``noise``, the stream of each point."""

    rows: Tensor
    level: Tensor
    theta: Tree
    size: Tensor
    changed: Tensor
    noise: Noise


def look_at_draws(execution: Execution) -> Draws:
    """Draw points of each sample at each strength, also of samples that are misclassified clean, and look at them.

    A point depends on the sample, its strength and its number, and on no other strength.
    """
    records, count = execution.records, execution.attack.typical
    shape = (records.forward.shape[0], len(records.strengths), count)
    places = torch.arange(shape[0] * shape[1] * count, device=records.x.device)
    wrong, sizes = torch.zeros_like(places, dtype=torch.bool), torch.zeros_like(places, dtype=records.x.dtype)
    model = execution.model.channels_last()
    for part in torch.split(places, execution.slots):
        points = _draw(execution, part)
        with torch.no_grad():
            verdict = model.judge(points.changed, records.labels[points.rows], points.noise.child(JUDGED))
        wrong[part], sizes[part] = verdict.wrong, points.size
        records.forward.index_add_(0, points.rows, verdict.drawn)
        records.finite &= verdict.logits.isfinite().all()
    right = (~wrong).view(shape).double().sum(2) / count
    candidates = sizes.masked_fill(~wrong, torch.inf).view(shape)
    candidates = candidates.masked_fill(execution.schedule.done[:, None, None], torch.inf)
    return Draws(right, tuple(_verify(execution, candidates)))


def _draw(execution: Execution, places: Tensor) -> _Points:
    """Return the points at ``places`` [B], which number all points by sample, then by strength."""
    records, attack = execution.records, execution.attack
    cell, number = places // attack.typical, places % attack.typical
    rows, level = cell // len(records.strengths), cell % len(records.strengths)
    x, epsilon = records.x[rows], records.strengths[level]
    bits = epsilon.float().view(torch.int32).long()
    noise = records.noise.take(rows).child(TYPICAL).child(bits).child(number)
    with torch.no_grad():
        theta = attack.threat.typical(x, epsilon, noise)
        changed = shown(attack.threat, x, theta, attack.eight_bit)
        measured = changed - x if attack.eight_bit and attack.threat.additive else theta
        size = attack.threat.size(x, measured)
    if attack.threat.has_whole_sizes:  # said as the next whole number, if that is within the strength
        size = torch.minimum((size - NUMERICS.tolerance).ceil(), epsilon)
    return _Points(rows, level, theta, size, changed, noise)


def _verify(execution: Execution, candidates: Tensor) -> list[Mistakes]:
    """Look at the smallest mistake of each sample again, by itself; where that refuses it, at the next.

    ``candidates`` [N, S, D]: sizes of draws that were misclassified, else inf. Where strengths say nothing of each
    other, each strength of a sample is looked at by itself.
    """
    records, (samples, levels, count) = execution.records, candidates.shape
    alone = is_judged_by_itself(execution)
    sizes = candidates.reshape(samples * levels, count) if alone else candidates.reshape(samples, levels * count)
    found: list[Mistakes] = []
    while True:
        groups = sizes.isfinite().any(1).nonzero().squeeze(1)
        places = groups * sizes.shape[1] + sizes[groups].argmin(1)
        rows = places // (levels * count)
        one_each = torch.cat([torch.ones_like(rows[:1]), rows.diff()]) != 0  # of a sample
        groups, places, rows = groups[one_each], places[one_each], rows[one_each]
        if (most := execution.schedule.query_limit) is not None:
            allowed = records.forward[rows] + 1 + _KEPT_FOR_SEARCH <= most.queries
            groups, places = groups[allowed], places[allowed]
        if not len(places):
            return found
        for part, group in zip(torch.split(places, execution.slots), torch.split(groups, execution.slots), strict=True):
            points = _draw(execution, part)
            with torch.no_grad():
                verdict = execution.model.judge(
                    points.changed, records.labels[points.rows], points.noise.child(JUDGED).child(VERIFIED)
                )
            records.forward.index_add_(0, points.rows, verdict.drawn)
            records.finite &= verdict.logits.isfinite().all()
            good = verdict.wrong & is_inside(points.changed)
            records.rejected.index_add_(0, points.rows, (~good).long())
            found.append(Mistakes(points.rows, points.level, points.theta, points.size, verdict, good))
            sizes.view(-1)[part] = torch.inf
            sizes[group[good]] = torch.inf


def enter_draws(execution: Execution, draws: Draws) -> None:
    """Enter the mistakes of draws after a search, which they do not change.

    What a run has seen broken within a strength counts as broken there.
    """
    records, schedule = execution.records, execution.schedule
    reach = records.strengths * (1 + NUMERICS.tolerance)
    for found in draws.mistakes:
        rows, verdict, before = found.rows, found.verdict, records.best_size[found.rows]
        enter_examples(execution, rows, found.theta, found.size, found.good, verdict, torch.full_like(rows, -1))
        is_smallest = records.best_size[rows] != before
        records.found_run[rows] = torch.where(is_smallest, -1, records.found_run[rows])
        seen = torch.where(found.good, found.size, torch.inf)
        for known in (records.possible_size, records.true_size):
            known[rows] = torch.minimum(known[rows], seen)
        within = (seen[:, None] <= reach) & found.good[:, None]
        if is_judged_by_itself(execution):
            within &= torch.arange(len(reach), device=rows.device) == found.level[:, None]
            records.fooled[rows] = torch.where(within, 1, records.fooled[rows])
        else:
            records.fooled[rows] = torch.where(within & (records.fooled[rows] == 0), 1, records.fooled[rows])
        margin = margin_of(verdict.logits.to(records.margins.dtype).softmax(1), records.labels[rows])
        lowest = torch.where(found.good, margin, torch.inf)
        column = found.level if not schedule.monotone else torch.searchsorted(reach, found.size)
        place = rows * records.margins.shape[1] + column
        records.margins.view(-1).scatter_reduce_(0, place, lowest, "amin")
        if records.queries.shape[1]:
            asked = records.forward[rows][:, None]
            records.queries[rows] = torch.where(within & (records.queries[rows] < 0), asked, records.queries[rows])


def is_judged_by_itself(execution: Execution) -> bool:
    """Return if a mistake at one strength says nothing of the others."""
    return not execution.schedule.monotone or execution.attack.judges_last
