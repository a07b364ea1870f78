"""Branch and bound over the signs of ReLUs: what one bound leaves open is decided on parts of the ball."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.activations import Activation, Lines
from robustatlas.certificates.balls import Crown, Verdicts
from robustatlas.certificates.base import Samples, Subject
from robustatlas.certificates.bounds import Bounds, Plane, Relaxation
from robustatlas.certificates.crossing import crossing
from robustatlas.certificates.network import Network
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.windowed import Windowed

# alpha-beta-CROWN, the public code of the source, takes 100 steps before the first branch, 20 to 50 after each, and a
# rate of 0.1. On 40 balls that CROWN leaves open, of digits-l2, digits-standard and both fully connected networks of
# benchmarks/certificates.py, its values (100, 20 and 0.1) and those below decide the same 38, in 31 and in 19 processor
# seconds.
_STEPS = 20
"""Steps of the ascent on slopes before the first branch."""
_STEPS_OF_BRANCHES = 8
"""Steps of the ascent on slopes and multipliers after each branch."""
_STEPS_OF_LEAVES = 200
"""Steps where no neuron is left without a sign, so that the bound is exact in the end."""
_RATE = 0.2
"""Rate of Adam, of slopes and of multipliers alike, as both are relative."""
_CANDIDATES = 3
"""Neurons whose branches are bounded, without ascent, before one is chosen: the default of alpha-beta-CROWN (k-FSB)."""
_NUMBERS_KEPT = 1 << 26
"""Numbers of open subproblems that are kept, half a gigabyte; a sample that needs more is not decided."""
_FIRST = 1.2
"""Factor between sizes while none has failed. After a failure the search halves on a logarithmic scale, so that another
factor costs or saves a proof or two."""
_CLOSE = 1.01
"""Upper over lower end of a certified size below which its search ends; the sides count as closed then."""


class Decision(Enum):
    """The end of a proof on a ball."""

    PROVEN = "no example"
    REFUTED = "an example"
    OPEN = "not decided"


@dataclass(frozen=True)
class Subproblems:
    """K parts of a ball, on each of which some of all N neurons keep a sign, and a margin to bound there.

    Attributes:
        row: ``[K]``, which margin.
        signs: ``[K, N]``, 1 or -1 of a neuron whose input is >= 0 or <= 0 on the part; 0: it may be both.
        slopes: ``[K, N]`` between 0 and 1, of the lower line of a neuron without a sign, from its left to its right
            piece.
        multipliers: ``[K, N]`` >= 0, of the constraint on the sign, relative to the scale of the layer's coefficients.
        bound: ``[K]``, the best lower bound of the margin.
    """

    row: Tensor
    signs: Tensor
    slopes: Tensor
    multipliers: Tensor
    bound: Tensor

    def select(self, places: Tensor) -> Subproblems:
        """Return the subproblems at ``places``."""
        columns = (self.row, self.signs, self.slopes, self.multipliers, self.bound)
        return Subproblems(*(column[places] for column in columns))

    def join(self, other: Subproblems) -> Subproblems:
        """Return these subproblems and the ``other`` ones."""
        mine = (self.row, self.signs, self.slopes, self.multipliers, self.bound)
        others = (other.row, other.signs, other.slopes, other.multipliers, other.bound)
        return Subproblems(*(torch.cat(pair) for pair in zip(mine, others, strict=True)))

    def branch(self, neuron: Tensor) -> Subproblems:
        """Return both branches of each subproblem: its ``neuron`` [K] active in the first K, inactive in the others."""
        both = self.select(torch.arange(len(self.row), device=neuron.device).repeat(2))
        sign = torch.ones_like(both.signs[:, 0])
        sign[len(neuron) :] = -1
        signs = both.signs.scatter(1, neuron.repeat(2)[:, None], sign[:, None])
        return Subproblems(both.row, signs, both.slopes, both.multipliers, both.bound)


@dataclass(frozen=True)
class _Layer:
    """One activation of two straight pieces that meet in 0: its position, its neurons among all, the shape, the slopes
    of both pieces, bounds [1, n] of its input, and the scale of coefficients of its output."""

    position: int
    neurons: slice
    shape: tuple[int, ...]
    pieces: tuple[float, float]
    low: Tensor
    high: Tensor
    scale: float


class BranchAndBound:
    """The proof for one sample on one ball.

    Source: Wang et al. 2021, Beta-CROWN, section 3: a sign z >= 0 of a neuron's input is a constraint, whose multiplier
    beta >= 0 is subtracted from its coefficient; slopes and multipliers are found by ascent. Bounds of hidden layers
    stay those of the ball, but for the neurons with a sign.
    """

    def __init__(self, bounds: Bounds, label: Tensor, closed: Tensor, errs: Callable[[Tensor], bool]) -> None:
        """Begin with what is known of one sample.

        Args:
            bounds: of its ball.
            label: ``[1]``.
            closed: ``[C]``, margins that are proven.
            errs: returns if the model errs on one of some inputs [P, ...].
        """
        assert isinstance(bounds.region, NormBall)
        self.bounds, self.network, self.ball, self.errs = bounds, bounds.network, bounds.region, errs
        rows, _, place = bounds.margin_rows(label)
        self.rows = rows[~closed[place]]
        self.layers = self._read_layers()
        count = sum(layer.low.shape[1] for layer in self.layers)
        like = self.rows.new_zeros(len(self.rows), count)
        adaptive = [(layer.high > -layer.low).double().expand(len(self.rows), -1) for layer in self.layers]
        slopes = torch.cat(adaptive, 1) if adaptive else like
        row = torch.arange(len(self.rows), device=like.device)
        self.root = Subproblems(row, like.to(torch.int8), slopes, like, like.new_full((len(row),), -torch.inf))
        self._per_batch = max(2, self.network.rows_at_once)
        self.layers = self._scaled_layers()

    def decide(self, deadline: float) -> Decision:
        """Prove all margins or find an example before the ``deadline`` of ``time.perf_counter``."""
        if not self.layers:
            return Decision.OPEN if len(self.rows) else Decision.PROVEN
        pool = _open_ones(self._ascended(self.root, _STEPS))
        while len(pool.row):
            if time.perf_counter() > deadline or pool.signs.numel() > _NUMBERS_KEPT:
                return Decision.OPEN
            count = len(pool.row)
            batch = pool.select(torch.arange(max(0, count - self._per_batch // 2), count, device=pool.row.device))
            pool = pool.select(torch.arange(count - len(batch.row), device=pool.row.device))
            _, plane = self._bound(batch, batch.slopes, batch.multipliers)
            assert plane.slope is not None
            if self.errs(self.ball.lowest_points(plane.slope, torch.zeros_like(batch.row))):
                return Decision.REFUTED
            neuron = self._neurons_to_branch(batch, plane)
            leaf = neuron < 0
            if bool(leaf.any()) and len(_open_ones(self._ascended(batch.select(leaf), _STEPS_OF_LEAVES)).row):
                return Decision.OPEN
            if not bool(leaf.all()):
                children = batch.select(~leaf).branch(neuron[~leaf])
                pool = pool.join(_open_ones(self._ascended(children, _STEPS_OF_BRANCHES)))
        return Decision.PROVEN

    def _read_layers(self) -> list[_Layer]:
        found: list[_Layer] = []
        graph, begin = self.network.graph, 0
        for k in sorted(self.network.nonlinear):
            operation = graph.nodes[k].operation
            pieces = operation.convex_pieces if isinstance(operation, Activation) else None
            if pieces is not None:
                given = self.bounds.nodes[graph.nodes[k].inputs[0]]
                end = begin + given.low[0].numel()
                sides = given.low.flatten(1), given.high.flatten(1)
                found.append(_Layer(k, slice(begin, end), graph.nodes[k].shape, pieces, *sides, 1.0))
                begin = end
        return found

    def _scaled_layers(self) -> list[_Layer]:
        """Return the layers with the mean size of the coefficients of their outputs, so that multipliers do not depend
        on factors between layers."""
        if not len(self.rows):
            return self.layers
        _, plane = self._bound(self.root, self.root.slopes, self.root.multipliers)
        scales = [float(plane.coefficients[layer.position].abs().mean()) for layer in self.layers]
        return [replace(layer, scale=scale) for layer, scale in zip(self.layers, scales, strict=True)]

    def _relaxations(self, parts: Subproblems, slopes: Tensor, multipliers: Tensor) -> dict[int, Relaxation]:
        found = {}
        for layer in self.layers:
            left, right = layer.pieces
            signs = parts.signs[:, layer.neurons]
            low = torch.where(signs > 0, layer.low.clamp_min(0), layer.low)
            high = torch.where(signs < 0, layer.high.clamp_max(0), layer.high)
            active, inactive = low >= 0, high <= 0
            chord = (right * high - left * low) / (high - low).clamp_min(torch.finfo(low.dtype).tiny)
            upper = torch.where(active, right, torch.where(inactive, left, chord))
            bias = torch.where(active | inactive, 0.0, (right - chord) * high)
            chosen = left + (right - left) * slopes[:, layer.neurons]
            lower = torch.where(active, right, torch.where(inactive, left, chosen))
            beta = -layer.scale * signs * multipliers[:, layer.neurons]
            shaped = (each.reshape(-1, *layer.shape) for each in (lower, torch.zeros_like(lower), upper, bias, beta))
            below, below_bias, above, above_bias, beta = shaped
            found[layer.position] = Relaxation(Lines(below, below_bias, above, above_bias), beta)
        return found

    def _bound(self, parts: Subproblems, slopes: Tensor, multipliers: Tensor) -> tuple[Tensor, Plane]:
        owner = torch.zeros_like(parts.row)
        plane = self.bounds.planes(
            self.network.graph.output,
            Windowed.full(self.rows[parts.row]),
            owner,
            relaxations=self._relaxations(parts, slopes, multipliers),
        )
        assert plane.slope is not None
        return plane.constant + self.bounds.region.lowest(plane.slope, owner), plane

    def _ascended(self, parts: Subproblems, steps: int) -> Subproblems:
        """Raise the bounds by ascent on slopes and multipliers; the best bound of all steps counts."""
        done = [self._ascended_batch(parts.select(some), steps) for some in self._batches(parts)]
        joined = done[0]
        for each in done[1:]:
            joined = joined.join(each)
        return joined

    def _batches(self, parts: Subproblems) -> tuple[Tensor, ...]:
        return torch.split(torch.arange(len(parts.row), device=parts.row.device), self._per_batch)

    def _ascended_batch(self, parts: Subproblems, steps: int) -> Subproblems:
        slopes, multipliers = (each.clone().requires_grad_() for each in (parts.slopes, parts.multipliers))
        optimizer = torch.optim.Adam([slopes, multipliers], _RATE, eps=1e-30)
        best = parts.bound
        for _ in range(steps):
            with torch.enable_grad():
                value, _ = self._bound(parts, slopes, multipliers)
                optimizer.zero_grad()
                if value.requires_grad:
                    (-value.sum()).backward()  # type: ignore[no-untyped-call]  # torch declares no types here
            best = torch.maximum(best, value.detach())
            if not value.requires_grad or bool((best > 0).all()):
                break
            optimizer.step()
            slopes.data.clamp_(0, 1)
            multipliers.data.clamp_min_(0)
        return Subproblems(parts.row, parts.signs, slopes.detach(), multipliers.detach(), best)

    def _neurons_to_branch(self, parts: Subproblems, plane: Plane) -> Tensor:
        """Return for each subproblem a neuron [K] without a sign, -1 where it has none: of those that lose most by
        their upper line the one whose branches have the best bounds."""
        relaxations = self._relaxations(parts, parts.slopes, parts.multipliers)
        lost = []
        for layer in self.layers:
            bias = relaxations[layer.position].lines.upper_bias
            lost.append((plane.coefficients[layer.position].abs() * bias).flatten(1))
        score = torch.cat(lost, 1)
        candidates, worth = score.topk(min(_CANDIDATES, score.shape[1]), 1), []
        for neuron in candidates.indices.unbind(1):
            branches = parts.branch(neuron)
            bound, _ = self._bound(branches, branches.slopes, branches.multipliers)
            worth.append(bound.clamp_max(0).view(2, -1).sum(0))
        merit = torch.where(candidates.values > 0, torch.stack(worth, 1), -torch.inf)
        chosen = candidates.indices.gather(1, merit.argmax(1, keepdim=True))[:, 0]
        return torch.where(score.amax(1) > 0, chosen, -1)


def _can_branch(network: Network) -> bool:
    operations = (network.graph.nodes[k].operation for k in network.nonlinear)
    return any(isinstance(each, Activation) and each.convex_pieces is not None for each in operations)


def _open_ones(parts: Subproblems) -> Subproblems:
    """Return the subproblems that are not proven, those with the best bounds last, which are branched first."""
    order = parts.bound.argsort()
    return parts.select(order[parts.bound[order] <= 0])


@dataclass(frozen=True)
class BetaCrown(Crown):
    """CROWN, and branch and bound over the signs of ReLUs where it leaves a margin open.

    What is proven is proven by bounds. The time limit makes how much depend on the machine.

    Attributes:
        seconds: of a sample at a strength; where they are over the sample is not decided. Without strengths, of the
            whole search for a size.

    Source: Wang et al. 2021, Beta-CROWN: Efficient Bound Propagation with Per-neuron Split Constraints for Complete and
    Incomplete Neural Network Robustness Verification.

    Example:
        >>> BetaCrown(seconds=10).seconds
        10
    """

    name: ClassVar[str] = "beta-crown"
    source: ClassVar[str] = "Wang et al. 2021 (beta-CROWN)"

    seconds: float = 30.0

    def seconds_at_most(self, subject: Subject, attack: Attack, x: Tensor) -> float:
        return super().seconds_at_most(subject, attack, x) + self.seconds * max(1, len(self.strengths))

    def prove(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Verdicts:
        """Bound the margins on all balls at once, then decide those that are left one by one."""
        verdicts = super().prove(subject, attack, samples, sizes)
        for row in (~verdicts.proven).nonzero().flatten():
            deadline = time.perf_counter() + self.seconds
            decision = self._decide(subject, attack, samples.select(row[None]), float(sizes[row]), deadline)
            verdicts.proven[row], verdicts.refuted[row] = decision is Decision.PROVEN, decision is Decision.REFUTED
        return verdicts

    def largest_sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        """Return sizes [B] between those of CROWN and those of the examples that a short attack finds."""
        sizes = super().largest_sizes(subject, attack, samples)
        if not _can_branch(subject.network):
            return sizes
        for row in sizes.isfinite().nonzero().flatten():
            one, deadline = samples.select(row[None]), time.perf_counter() + self.seconds
            low, high = float(sizes[row]), torch.inf
            size = low * _FIRST or attack.strengths[0]
            while low * _CLOSE < high and (left := deadline - time.perf_counter()) > 0:
                decision = self._decide(subject, attack, one, size, time.perf_counter() + left / 3)
                low, high = (size, high) if decision is Decision.PROVEN else (low, size)
                size = low * _FIRST if high == torch.inf else (low * high) ** 0.5 if low else high / 4
            sizes[row] = low
        return sizes

    def _decide(self, subject: Subject, attack: Attack, one: Samples, size: float, deadline: float) -> Decision:
        sizes = torch.tensor([size], dtype=torch.float64)
        if crossing(subject.model, attack, one, sizes, subject.seed).isfinite().all():
            return Decision.REFUTED
        bounds = self.bounds_on_balls(subject, attack, one, sizes)
        if bool(bounds.overflows):
            return Decision.OPEN
        closed = self.proven_margins(bounds, one.labels)[0]

        def errs(points: Tensor) -> bool:
            logits = subject.model.logits(points.to(subject.model.dtype), verifying=True)
            return bool((logits.argmax(1) != one.labels).any())

        return BranchAndBound(bounds, one.labels, closed, errs).decide(deadline)
