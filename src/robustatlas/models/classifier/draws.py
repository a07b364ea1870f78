"""Randomised networks: the sample that each draw belongs to, and the rule by which a sample is misclassified.

Random numbers that a network draws with torch come from the streams of its samples: each row of a random tensor
[B, ...] from its sample's own. So results repeat, whatever the batch, its order or the device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import scipy  # which imports its parts where they are used: special takes long
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.outcomes.outcome import LOOKS

_ERROR = 1e-3
"""Probability that a sample at the threshold is taken for certain, all looks together."""

_aten = torch.ops.aten


@dataclass(frozen=True)
class Verdict:
    """The answer of a model to B inputs, judged apart from any search.

    Attributes:
        logits: ``[B, C]``; of a randomised model their mean.
        prediction: ``[B]``; of a randomised model the label, or, where it is wrong, the most frequent other class.
        wrong: ``[B]``: misclassified; of a randomised model certainly more often than the threshold.
        possible: ``[B]``: misclassified, or not certainly less often than the threshold.
        mistakes, drawn: ``[B]``: how many of how many forward passes were misclassified.

    Example:
        >>> from robustatlas import Classifier
        >>> noise = Noise.for_samples(0, torch.arange(1), "verify")
        >>> verdict = Classifier(torch.nn.Identity()).judge(torch.tensor([[0.2, 0.7]]), torch.tensor([0]), noise)
        >>> verdict.prediction.item(), verdict.wrong.item()
        (1, True)
    """

    logits: Tensor
    prediction: Tensor
    wrong: Tensor
    possible: Tensor
    mistakes: Tensor
    drawn: Tensor


def decide(mistakes: Tensor, drawn: int, threshold: float) -> tuple[Tensor, Tensor]:
    """Decide by the exact binomial test which samples are certainly more, and certainly less often wrong.

    Both are [B], held against the ``threshold``.

    >>> decide(torch.tensor([50, 25, 10]), 50, 0.5)
    (tensor([ True, False, False]), tensor([False, False,  True]))
    """
    counts, level = mistakes.cpu().numpy(), _ERROR / len(LOOKS)
    above = torch.from_numpy(scipy.special.bdtrc(counts - 1, drawn, threshold) <= level)
    below = torch.from_numpy(scipy.special.bdtr(counts, drawn, threshold) <= level)
    return above.to(mistakes.device), below.to(mistakes.device)


def judge_by_draws(
    draw: Callable[[Tensor, Noise, int], Tensor], labels: Tensor, noise: Noise, threshold: float
) -> Verdict:
    """Judge inputs with these ``labels`` [B] by as many fresh draws as it takes to be certain.

    At most the last of :data:`~robustatlas.outcomes.outcome.LOOKS` are made. ``draw(rows, streams, count)`` returns the
    logits [count, b, C] of ``rows`` [b] in ``count`` draws from their ``streams`` [b].
    """
    open_, taken = torch.arange(len(labels), device=labels.device), 0
    total = votes = torch.zeros(0)
    counts, wrong, possible = torch.zeros_like(labels), *(torch.zeros_like(labels, dtype=torch.bool) for _ in "ab")
    for look in LOOKS:
        logits = draw(open_, noise.take(open_).child(taken), look - taken)
        if not len(votes):
            total = torch.zeros(len(labels), logits.shape[2], dtype=logits.dtype, device=labels.device)
            votes = torch.zeros_like(total)
        total[open_] += logits.sum(0)
        votes[open_] += torch.nn.functional.one_hot(logits.argmax(2), logits.shape[2]).sum(0).to(votes.dtype)
        counts[open_], taken = look, look
        mistakes = look - votes[open_].gather(1, labels[open_, None]).squeeze(1).long()
        above, below = decide(mistakes, look, threshold)
        wrong[open_], possible[open_] = above, ~below
        open_ = open_[~above & ~below]
        if not len(open_):
            break
    others = votes.scatter(1, labels[:, None], -1).argmax(1)
    mistaken = counts - votes.gather(1, labels[:, None]).squeeze(1).long()
    return Verdict(total / counts[:, None], torch.where(wrong, others, labels), wrong, possible, mistaken, counts)


class Drawing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """torch's random numbers from the streams of B samples, while it is entered."""

    def __init__(self, noise: Noise) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._noise, self._used = noise, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if (drawn := _DRAWN.get(func)) is not None:
            return drawn(self, *args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise UserError(
                f"The model draws by {func}, whose numbers cannot be told apart by sample; draw by torch.rand, randn, "
                "randint, bernoulli, dropout, normal_ or uniform_ of tensors [B, ...]."
            )
        return func(*args, **(kwargs or {}))

    def uniform(self, shape: Any, like: Tensor | None = None, **made: Any) -> Tensor:
        """Uniform on [0, 1), of ``shape`` [B, ...]."""
        return self._filled("uniform", shape, like, made)

    def normal(self, shape: Any, like: Tensor | None = None, **made: Any) -> Tensor:
        """Standard normal, of ``shape`` [B, ...]."""
        return self._filled("normal", shape, like, made)

    def _filled(self, kind: str, shape: Any, like: Tensor | None, made: dict[str, Any]) -> Tensor:
        shape, rows = tuple(shape), len(self._noise.keys)
        self._used += 1
        stream = self._noise.child(self._used)
        dtype = made.get("dtype") or (like.dtype if like is not None else torch.get_default_dtype())
        device = made.get("device") or (like.device if like is not None else torch.get_default_device())
        if shape[:1] == (rows,):
            values: Tensor = getattr(stream, kind)(*shape[1:], dtype=torch.float64)
        elif rows == 1:
            values = getattr(stream, kind)(*shape, dtype=torch.float64)[0]
        else:
            raise UserError(
                f"The model draws numbers of shape {shape} that all {rows} samples of a batch share; draw [B, ...], or "
                "give Classifier(net, draws=..., batch_size=1)."
            )
        return values.to(device, dtype)


def _normal_(mode: Drawing, at: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    return at.copy_(mode.normal(at.shape, at) * std + mean)


def _uniform_(mode: Drawing, at: Tensor, low: float = 0, high: float = 1, *, generator: Any = None) -> Tensor:
    return at.copy_(mode.uniform(at.shape, at) * (high - low) + low)


def _normal_of(mode: Drawing, mean: Any, std: Any, *, generator: Any = None) -> Tensor:
    like = mean if isinstance(mean, Tensor) else std
    scaled: Tensor = torch.zeros_like(like) + mean * std  # of the shape of both
    drawn: Tensor = mode.normal(scaled.shape, like) * std + mean
    return drawn


def _dropout(mode: Drawing, x: Tensor, share: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = mode.uniform(x.shape, x) >= share
    return x * kept / (1 - share) if share < 1 else torch.zeros_like(x), kept


def _integers(mode: Drawing, low: int, high: int, shape: Any, **made: Any) -> Tensor:
    dtype = made.pop("dtype", None) or torch.int64
    return (mode.uniform(shape, dtype=torch.float64, **made) * (high - low) + low).floor().to(dtype)


_DRAWN: dict[Any, Callable[..., Any]] = {
    _aten.rand.default: lambda mode, shape, **made: mode.uniform(shape, **made),
    _aten.randn.default: lambda mode, shape, **made: mode.normal(shape, **made),
    _aten.rand_like.default: lambda mode, like, **made: mode.uniform(like.shape, like, **made),
    _aten.randn_like.default: lambda mode, like, **made: mode.normal(like.shape, like, **made),
    _aten.normal_.default: _normal_,
    _aten.uniform_.default: _uniform_,
    _aten.normal.Tensor_Tensor: _normal_of,
    _aten.normal.Tensor_float: lambda mode, mean, std=1.0, **made: _normal_of(mode, mean, std, **made),
    _aten.normal.float_Tensor: _normal_of,
    _aten.bernoulli.default: lambda mode, p, **_: (mode.uniform(p.shape, p) < p).to(p.dtype),
    _aten.bernoulli.p: lambda mode, like, p, **_: (mode.uniform(like.shape, like) < p).to(like.dtype),
    _aten.bernoulli_.float: lambda mode, at, p=0.5, **_: at.copy_(
        mode.uniform(at.shape, dtype=torch.float64, device=at.device) < p
    ),
    _aten.bernoulli_.Tensor: lambda mode, at, p, **_: at.copy_(
        mode.uniform(at.shape, dtype=torch.float64, device=at.device) < p
    ),
    _aten.native_dropout.default: _dropout,
    _aten.randint.default: lambda mode, high, shape, **made: _integers(mode, 0, high, shape, **made),
    _aten.randint.low: _integers,
    _aten.randint_like.default: lambda mode, like, high, **made: _integers(
        mode, 0, high, like.shape, **{"dtype": like.dtype, "device": like.device} | made
    ),
    _aten.randint_like.low_dtype: lambda mode, like, low, high, **made: _integers(
        mode, low, high, like.shape, **{"dtype": like.dtype, "device": like.device} | made
    ),
}


Single = Callable[[Tensor, Tensor | None], Tensor]
"""Logits of one draw on inputs ``[B, ...]`` with their labels ``[B]``."""

_ROWS = 1024
"""Rows of a batch up to which several draws go through a network together."""


def draw_logits(
    single: Single, x: Tensor, labels: Tensor | None, noise: Noise, count: int, *, one_by_one: bool
) -> list[Tensor]:
    """Return the logits ``[B, C]`` of each of ``count`` draws.

    ``one_by_one`` passes sample by sample, for networks that draw one number for a whole batch.
    """
    if not one_by_one:
        return _draw_batch(single, x, labels, noise, count, max(1, _ROWS // len(x)))
    truth = torch.split(labels, 1) if labels is not None else [None] * len(x)
    rows = [noise.take(torch.tensor([k], device=x.device)) for k in range(len(x))]
    each = [
        _draw_batch(single, part, label, row, count, 1)
        for part, label, row in zip(torch.split(x, 1), truth, rows, strict=True)
    ]
    return [torch.cat(draws) for draws in zip(*each, strict=True)]


def _draw_batch(
    single: Single, x: Tensor, labels: Tensor | None, noise: Noise, count: int, at_once: int
) -> list[Tensor]:
    found: list[Tensor] = []
    for numbers in torch.split(torch.arange(count, device=x.device), at_once):
        streams = Noise(noise.keys.repeat(len(numbers))).child(numbers.repeat_interleave(len(x)))
        truth = None if labels is None else labels.repeat(len(numbers))
        with Drawing(streams):
            logits = single(x.repeat(len(numbers), *(1,) * (x.dim() - 1)), truth)
        found += logits.chunk(len(numbers))
    return found
