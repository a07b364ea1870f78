"""``evaluate``: attacks x samples -> outcomes, shard by shard, with progress and resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustatlas import engine
from robustatlas.attacks.definition import Attack, Procedure, describe
from robustatlas.attacks.suites import Search, attacks_of, search_of
from robustatlas.bundle import take
from robustatlas.classifier import Classifier
from robustatlas.datasets import Dataset
from robustatlas.errors import UserError
from robustatlas.noise import Noise
from robustatlas.outcomes import (
    AttackSettings,
    Context,
    DataSettings,
    Manifest,
    ModelSettings,
    Result,
    RunStore,
    SampleSettings,
    Settings,
    sha256_of_array,
    sha256_of_tensors,
)
from robustatlas.progress import Progress, progress_shown
from robustatlas.sanity import check_inputs, check_model
from robustatlas.search import TOLERANCE, search_named

Samples = int | Sequence[int] | NDArray[np.int64] | None

DEFAULT_BATCH = 256


@dataclass(frozen=True)
class _Work:
    """Everything that one shard needs besides its samples."""

    model: Classifier
    search: str
    seed: int
    batch_size: int
    keep_adversarial: bool


def evaluate(
    model: Classifier | nn.Module | Callable[[Tensor], Any],
    data: Dataset | tuple[Tensor, Tensor],
    attacks: str | Attack | Sequence[str | Attack] = ("linf", "l2"),
    search: Search | None = None,
    procedure: Procedure = "default",
    strengths: Mapping[str, Sequence[float]] | None = None,
    samples: Samples = None,
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | None = None,
    *,
    shard_size: int | None = None,
    keep_adversarial: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Find, for each sample and attack, the smallest strength at which the model errs.

    Args:
        model: a :class:`Classifier`, or a network from inputs in [0, 1] to logits.
        data: a :class:`Dataset`, or images ``[N, ...]`` in [0, 1] and labels ``[N]``.
        attacks: names of the catalogue, names of suites, or :class:`Attack` objects.
        search: ``"descent"`` (whole curves for about the price of one point), ``"bisection"`` (MultiRobustBench) or
            ``"every"`` (each strength by itself); default: descent, or what the suite or paper asks for.
        procedure: ``"default"`` (sound sets, strong search) or ``"paper"`` (each attack exactly as its source ran it).
        strengths: increasing strengths per attack; default: the catalogue's grid.
        samples: the first ``samples`` of the data, or their positions; default: all.
        seed: of all random numbers. Results depend on it and on nothing like batch size, order, shards or resume.
        run: directory to write to; an interrupted run in it is continued. ``None``: in memory.
        batch_size: samples at work at once (default 256); halve it where memory runs out.
        shard_size: samples per file, the most that a crash can lose (default: four batches, 512 at least).
        keep_adversarial: keep the smallest adversarial example of each sample.
        progress: show a progress bar (default: where standard error is a terminal), or an object of your own.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1]))
        >>> result = evaluate(net, data, attacks="linf", strengths={"linf": [0.1, 0.5]})
        >>> result.minimal_size("linf").shape
        (5,)
    """
    classifier = model if isinstance(model, Classifier) else Classifier(model)
    images, labels, positions, settings = _samples(data, samples)
    chosen = [
        replace(_with_strengths(attack, strengths), threat=attack.threat.bound_to(classifier))
        for attack in attacks_of(attacks, procedure)
    ]
    _check_names(chosen, strengths)
    search = search or search_of(attacks, procedure)
    schedule = search_named(search)
    size = batch_size or DEFAULT_BATCH
    if size < 1:
        raise UserError(f"batch_size={batch_size}; expected at least 1.")
    for attack in chosen:
        attack.threat.check(images[:1])
    with classifier.evaluating(), progress_shown(progress) as display:
        warnings = check_model(classifier, images, labels)
        for warning in warnings:
            display.warn(warning)
        manifest = Manifest(
            settings=Settings(
                model=_model_settings(classifier),
                data=settings,
                samples=SampleSettings(count=len(images), indices_sha256=sha256_of_array(positions)),
                attacks={a.name: _attack_settings(a, schedule is search_named("every")) for a in chosen},
                search=search,
                procedure=procedure,
                seed=seed,
                precision=classifier.precision if classifier.dtype == torch.float32 else "float64",
                keep_adversarial=keep_adversarial,
            ),
            context=Context.here(
                warnings=warnings,
                batch_size=size,
                threads=torch.get_num_threads(),
                machine={"device": str(classifier.device)},
            ),
            shard_size=shard_size or max(512, 4 * size),
        )
        store = RunStore.create_or_resume(run, manifest)
        work = _Work(classifier, search, seed, size, keep_adversarial)
        display.begin([a.name for a in chosen], len(images))
        try:
            for number, span in enumerate(store.shards):
                part = slice(span.start, span.stop)
                x = images[part].to(classifier.device, classifier.dtype)
                _shard(work, store, number, chosen, x, labels[part].to(classifier.device), positions[part], display)
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"{classifier.device} ran out of memory with {size} samples at work at once; run the same again with a "
                f"batch size of {max(1, size // 2)}. Finished shards of the run are kept."
            ) from error
    return store.result([a.name for a in chosen])


def _shard(
    work: _Work,
    store: RunStore,
    number: int,
    attacks: Sequence[Attack],
    x: Tensor,
    labels: Tensor,
    positions: NDArray[np.int64],
    display: Progress,
) -> None:
    """Fill what the store lacks of one shard."""
    for attack in attacks:
        if store.done(attack.name, number) and store.done_samples(number):
            columns = store.read(attack.name, number)
        else:
            begun = time.perf_counter()
            ledger = _attack(work, attack, x, labels, positions, partial(display.update, attack.name))
            columns = _columns(attack, ledger, positions) | {"seconds": _seconds(begun, len(x))}
            if not store.done_samples(number):
                store.write_samples(number, _sample_columns(ledger, positions))
            examples = _examples(attack, ledger, positions) if work.keep_adversarial else None
            store.write(attack.name, number, columns, examples)
        display.finish(attack.name, columns["minimal_strength"], attack.strengths)


def _attack(
    work: _Work, attack: Attack, x: Tensor, labels: Tensor, positions: NDArray[np.int64], report: Callable[[int], None]
) -> engine.Ledger:
    noise = Noise.of(work.seed, torch.from_numpy(positions).to(x.device), attack.name)
    strengths = torch.tensor(attack.strengths, dtype=x.dtype, device=x.device)
    ledger = engine.open_ledger(work.model, attack, x, labels, noise, strengths, work.batch_size)
    todo = torch.ones_like(labels, dtype=torch.bool) if attack.repairs else ledger.clean_prediction == labels
    schedule = search_named(work.search)(attack, strengths, ledger.ranking.shape[1], todo)
    return engine.run(work.model, attack, ledger, schedule, work.batch_size, report)


def _seconds(begun: float, count: int) -> NDArray[np.float64]:
    return np.full(count, (time.perf_counter() - begun) / count)


def _sample_columns(ledger: engine.Ledger, positions: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    return {
        "index": positions,
        "label": ledger.labels.cpu().numpy(),
        "clean_prediction": ledger.clean_prediction.cpu().numpy(),
        "clean_margin": ledger.clean_margin.float().cpu().numpy(),
    }


def _columns(attack: Attack, ledger: engine.Ledger, positions: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The outcome table of a finished ledger."""
    strengths = np.array(attack.strengths)
    size = ledger.best_size.double().cpu().numpy()
    prediction, labels = ledger.clean_prediction.cpu().numpy(), ledger.labels.cpu().numpy()
    wrong = prediction != labels
    judged = ledger.fooled.cpu().numpy()
    if attack.judges_last:
        reached = judged == 1
    else:
        reached = size[:, None] <= strengths * (1 + TOLERANCE)
        judged = np.where(reached, 1, judged).astype(np.int8)
    if not attack.repairs:
        reached[wrong], judged[wrong] = True, 1
    minimal = np.where(reached.any(1), strengths[reached.argmax(1)], np.inf)
    if not attack.repairs:
        minimal = np.where(wrong, 0.0, minimal)
    seen = ledger.margins[:, : len(strengths)].double().cpu().numpy()
    margins = np.minimum.accumulate(seen, axis=1)
    margins[wrong] = np.minimum(margins[wrong], ledger.clean_margin.double().cpu().numpy()[wrong, None])
    return {
        "index": positions,
        "minimal_strength": minimal,
        "minimal_size": np.where(wrong, 0.0, size),
        "found_class": np.where(wrong, prediction, ledger.found_class.cpu().numpy()),
        "forward": ledger.forward.cpu().numpy(),
        "backward": ledger.backward.cpu().numpy(),
        "margins": np.where(np.isfinite(margins), margins, np.nan).astype(np.float32),
        "fooled": judged,
    }


def _examples(
    attack: Attack, ledger: engine.Ledger, positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rows = ledger.best_size.isfinite().nonzero().squeeze(1)
    images = attack.threat.apply(ledger.x[rows], take(ledger.best_theta, rows)) if len(rows) else ledger.x[:0]
    return positions[rows.cpu().numpy()], images.float().cpu().numpy()


def _samples(
    data: Dataset | tuple[Tensor, Tensor], samples: Samples
) -> tuple[Tensor, Tensor, NDArray[np.int64], DataSettings]:
    if isinstance(data, Dataset):
        images, labels, name, index = data.images, data.labels, data.name, data.index
    elif isinstance(data, (tuple, list)) and len(data) == 2:
        images, labels, name = torch.as_tensor(data[0]), torch.as_tensor(data[1]), "arrays"
        index = torch.arange(len(images))
    else:
        raise UserError(
            f"data is a {type(data).__name__}; expected a Dataset (see load_dataset) or a pair (images, labels)."
        )
    check_inputs(images, labels)
    count = len(images)
    if samples is None:
        positions = np.arange(count)
    elif isinstance(samples, (int, np.integer)):
        if not 1 <= samples <= count:
            raise UserError(f"samples={samples}, but the data has {count}; expected a number from 1 to {count}.")
        positions = np.arange(samples)
    else:
        positions = np.asarray(samples, np.int64)
        if positions.ndim != 1 or not len(positions) or positions.min() < 0 or positions.max() >= count:
            raise UserError(f"samples must be positions from 0 to {count - 1}, at least one.")
    settings = DataSettings(
        name=name,
        images_sha256=sha256_of_array(images.contiguous().numpy()),
        labels_sha256=sha256_of_array(labels.long().numpy()),
    )
    taken = torch.from_numpy(positions)
    return images[taken].contiguous(), labels[taken].long(), index[taken].numpy(), settings


def _with_strengths(attack: Attack, strengths: Mapping[str, Sequence[float]] | None) -> Attack:
    if not strengths or attack.name not in strengths:
        return attack
    given = tuple(float(value) for value in strengths[attack.name])
    if not given or not all(0 < value < np.inf for value in given) or any(a >= b for a, b in pairwise(given)):
        raise UserError(
            f"The strengths of {attack.name!r} are {list(given)}; expected positive, increasing numbers "
            f"({attack.unit})."
        )
    return replace(attack, strengths=given)


def _check_names(attacks: Sequence[Attack], strengths: Mapping[str, Sequence[float]] | None) -> None:
    names = [attack.name for attack in attacks]
    if len(set(names)) < len(names):
        raise UserError(f"Some attack is named twice in {', '.join(names)}; name each once.")
    unknown = [name for name in strengths or {} if name not in names]
    if unknown:
        raise UserError(
            f"Strengths are given for {', '.join(unknown)}, which is not among the attacks {', '.join(names)}."
        )


def _attack_settings(attack: Attack, every: bool) -> AttackSettings:
    monotone = not (every and (attack.judges_last or not attack.nested))
    return AttackSettings(strengths=attack.strengths, unit=attack.unit, monotone=monotone, parameters=describe(attack))


def _model_settings(classifier: Classifier) -> ModelSettings:
    net = classifier.net
    tensors = dict(net.state_dict()) if isinstance(net, nn.Module) else {}
    tensors |= {f"normalisation.{name}": value for name, value in classifier.normalisation().items()}
    return ModelSettings(name=classifier.name, sha256=sha256_of_tensors(tensors) if tensors else None)
