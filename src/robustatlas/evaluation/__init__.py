"""``evaluate``: attacks x samples -> the table of a run, with progress and resume."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from robustatlas.attacks.definition import Effort, ProtocolName, Search
from robustatlas.evaluation.auditing import evaluated_and_audited
from robustatlas.evaluation.forecast import Expected, Forecast, forecasted
from robustatlas.evaluation.preparation import DEFAULT_BATCH
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.request import Attacks, Data, Pixels, Request, Samples, Strengths
from robustatlas.evaluation.throughput import DeviceThroughput
from robustatlas.evaluation.workers import Cluster
from robustatlas.models.classifier import Classifier
from robustatlas.results.result import Result
from robustatlas.threats.everyday.change import Border

__all__ = [
    "DEFAULT_BATCH",
    "Cluster",
    "Expected",
    "Forecast",
    "evaluate",
    "forecast",
]


def evaluate(
    model: Classifier | nn.Module | Callable[[torch.Tensor], Any],
    data: Data,
    attacks: Attacks | None = None,
    search: Search | None = None,
    protocol: ProtocolName = "default",
    strengths: Strengths | None = None,
    samples: Samples = None,
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | Literal["auto"] | None = None,
    *,
    effort: Effort = "default",
    pixels: Pixels = "any",
    border: Border | None = None,
    exclude: Sequence[str] = (),
    shard_size: int | None = None,
    keep_adversarial: bool = False,
    diagnose: bool = True,
    audit: int | None = None,
    progress: bool | Progress | None = None,
    part: str | tuple[int, int] | None = None,
    workers: int | Literal["auto"] | None = "auto",
    devices: Sequence[str] | None = None,
    ray: bool | str | Cluster | None = None,
) -> Result:
    """Find, for each sample and attack, the smallest strength at which the model errs.

    Args:
        model: a :class:`Classifier`, or a network from inputs in [0, 1] to logits.
        data: a :class:`Dataset`, images ``[N, ...]`` in [0, 1] and labels ``[N]``, or a ``torch.utils.data.Dataset``.
        attacks: names of the catalogue, names of suites, or :class:`Attack` objects. What a suite has and the data
            cannot take (colour attacks on grey images) is left out with a warning. Default: ``"linf"`` and ``"l2"``;
            of a model that can only be asked, those that its answers allow.
        search: for all attacks; default: what each asks for. ``"descent"``: whole curves for about the price of one
            point. ``"bisection"``: as MultiRobustBench. ``"every"``: each strength by itself. ``"frontier"``: lowest
            margins, for the hypervolume. ``"minimum"``: smallest sizes, for curves without a grid.
        protocol: ``"default"`` (sound threat models, strong search) or ``"paper"`` (each attack as its source ran it).
        strengths: increasing strengths per attack (falling ones of ``jpeg-quality`` and ``resolution``, as people type
            them); default: the catalogue's grid.
        samples: how many, their positions, or a mask; default: all. So many are the first ones; of data that are sorted
            by class they are drawn by ``seed`` with the classes in their proportions, unless ``run`` was begun with the
            first ones.
        seed: of all random numbers. Results depend on it and on nothing like batch size, order, parts or resume.
        run: directory to write to. What is in it is kept and never computed again: an interrupted run goes on, and a
            finished one can be given more attacks, samples and strengths. ``None``: in memory.
        batch_size: samples at work at once. By default 256, and fewer where memory runs out; ``"auto"`` tries what
            the device is fast with.
        effort: ``"low"`` (fewer passes), ``"default"``, or ``"high"`` (several times as many, for the numbers
            of a paper); of the default protocol.
        pixels: which inputs count as found: ``"any"`` in [0, 1], or ``"8bit"``, those alone that an 8-bit file can
            hold.
        border: what everyday changes that move or blur an image show beyond its edges: ``"reflect"`` (the default),
            ``"black"`` or ``"grey"``.
        exclude: names of attacks to leave out of the suites.
        shard_size: samples per file, the most that a crash can lose (default: about 45 seconds of work).
        keep_adversarial: keep the smallest adversarial example of each sample.
        diagnose: look at samples before the work, and at where their searches ended after it, to tell whether the
            numbers can be trusted (see :func:`robustatlas.diagnose`): at 32, or as many as cost a twentieth of the
            passes.
        audit: so many samples, drawn at random, are searched again by every kind of attack that fits, at high effort;
            :meth:`Result.audited` says what that would leave on all. By default 50 where they cost at most a tenth of
            the passes, and none elsewhere; 0: none.
        progress: show a progress bar (default: where standard error is a terminal), or an object of your own.
        part: ``"I/N"`` with I from 0 to N-1: only every N-th of the samples, from the I-th on. The run's plan covers
            all of them, so that N machines that know nothing of each other fill one directory, or several to be merged.
            One evaluation at a time works on each part of a directory.
        workers: processes that share the work; what they find is what one finds. ``"auto"`` measures in the first
            seconds whether they pay, on a processor, of as many cores as torch may use (``torch.set_num_threads``).
        devices: where the workers compute, such as ``["cuda:0", "cuda:1"]``; default: where the model is.
        ray: work on a cluster of Ray: ``True`` for one on this machine (with ``workers``), the address of a running
            one, or a :class:`Cluster`. What is found comes back here; no disk needs to be shared.

    Returns:
        the attacks, samples (of the part) and strengths asked for; :func:`load_result` reads all that a run directory
        holds.

    Raises:
        UserError: what was given does not fit, or another evaluation is at work on the directory; in one sentence.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1]))
        >>> result = evaluate(net, data, attacks="linf", strengths={"linf": [0.1, 0.5]})
        >>> result.minimal_size("linf").shape
        (5,)
    """
    request = Request(
        attacks=attacks,
        search=search,
        protocol=protocol,
        strengths=strengths,
        samples=samples,
        seed=seed,
        run=run,
        batch_size=batch_size,
        effort=effort,
        pixels=pixels,
        border=border,
        exclude=exclude,
        shard_size=shard_size,
        keep_adversarial=keep_adversarial,
        diagnose=diagnose,
        audit=audit,
        progress=progress,
        part=part,
        workers=workers,
        devices=devices,
        ray=ray,
    )
    return evaluated_and_audited(model, data, request)


def forecast(
    model: Classifier | nn.Module | Callable[[torch.Tensor], Any],
    data: Data,
    attacks: Attacks | None = None,
    search: Search | None = None,
    protocol: ProtocolName = "default",
    strengths: Strengths | None = None,
    samples: Samples = None,
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | Literal["auto"] | None = None,
    *,
    effort: Effort = "default",
    pixels: Pixels = "any",
    border: Border | None = None,
    exclude: Sequence[str] = (),
    keep_adversarial: bool = False,
    progress: bool | Progress | None = None,
    part: str | tuple[int, int] | None = None,
    workers: int | Literal["auto"] | None = "auto",
    devices: Sequence[str] | None = None,
    budget: float = 5.0,
    device_throughput: str | None = None,
) -> Forecast:
    """Forecast what :func:`evaluate` would do with these arguments, and how long it would take. Nothing is written.

    Passes are counted from the plans of the attacks, for the samples that ``run`` lacks. What a pass takes is measured
    by trying each attack for ``budget`` seconds; the other arguments are those of :func:`evaluate`.

    Args:
        model: as of :func:`evaluate`.
        data: as of :func:`evaluate`.
        attacks, search, protocol, strengths, samples, seed, effort, pixels, border, exclude: as of :func:`evaluate`.
        run, batch_size, keep_adversarial, progress, part, workers, devices: as of :func:`evaluate`.
        budget: seconds for which each attack is tried, about.
        device_throughput: instead of a trial, passes of one image a second (such as ``"2000"``), or the name of a
            device with published speeds, such as ``"rtx3090"``.

    Returns:
        passes, seconds and bytes on disk, attack by attack.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1]))
        >>> [(each.name, each.number) for each in forecast(net, data, "linf").expected]
        [('linf', 5)]
    """
    request = Request(
        attacks=attacks,
        search=search,
        protocol=protocol,
        strengths=strengths,
        samples=samples,
        seed=seed,
        run=run,
        batch_size=batch_size,
        effort=effort,
        pixels=pixels,
        border=border,
        exclude=exclude,
        keep_adversarial=keep_adversarial,
        progress=progress,
        part=part,
        workers=workers,
        devices=devices,
    )
    return forecasted(model, data, request, budget, DeviceThroughput.parse_optional(device_throughput))
