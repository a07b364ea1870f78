"""``verify``: other people's adversarial examples, checked one by one, as evidence in a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.description import plain
from robustatlas.attacks.suites import attacks_of
from robustatlas.bundle import Fixed, flat, free, per_sample
from robustatlas.classifier import Classifier, undisturbed
from robustatlas.datasets import Dataset, load_dataset
from robustatlas.errors import UserError
from robustatlas.evaluation.examples import Arrays, Examples, examples_of, read_examples
from robustatlas.evaluation.identity import identity_of
from robustatlas.evaluation.plan import Work, samples_of
from robustatlas.evaluation.work import clean_answers
from robustatlas.models import load_model
from robustatlas.noise import Noise
from robustatlas.objectives import margin_of
from robustatlas.outcomes import AttackRecord, Plan, Run
from robustatlas.outcomes.outcome import merged_strengths
from robustatlas.outcomes.records import EXAMPLES, circumstances, command_line, now, spans_of
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.result import Result
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L0, L1, L2, Linf
from robustatlas.wording import counted

_NORMS = {"linf": Linf, "l2": L2, "l1": L1, "l0": L0}
_OUTSIDE = 1e-6
"""Pixels outside of [0, 1] by less than this are rounding, and are moved to the border before anything is judged."""
_SAME_THETA = 1e-4
"""A parameter is a point of a set where drawing it into the set moves it, relative to its largest entry, less."""
_LEVELS = 255
_BATCH = 256

REFUSALS = (
    "the label is not that of the data",
    "the clean image is misclassified already",
    "not a finite number",
    "outside of [0, 1]",
    "not a point of the attack's set",
    "classified correctly",
)
"""Why an example does not count; of several reasons the first is told."""


@dataclass(frozen=True)
class Confirmed:
    """What verified examples say under one attack.

    Attributes:
        samples: samples with a verified example.
        smaller: samples of the run whose smallest example is now one of these.
        before, after: robust accuracy in percent at each of the attack's ``strengths``, without and with them.
    """

    samples: int
    smaller: int
    strengths: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Verification:
    """What became of examples that were handed over.

    Attributes:
        by: who found them.
        given: how many there were.
        verified: ``[M]`` bool, which of them count.
        refused: reason -> how many do not count for it (see :data:`REFUSALS`).
        attacks: name -> what they say under that attack.
        result: the run with them.
    """

    by: str
    given: int
    verified: NDArray[np.bool_]
    refused: Mapping[str, int]
    attacks: Mapping[str, Confirmed]
    result: Result

    def __repr__(self) -> str:
        lines = [f"{int(self.verified.sum())} of {counted(self.given, 'example')} by {self.by} verified"]
        lines += [f"  refused, {reason}: {count}" for reason, count in self.refused.items()]
        lines += [
            f"  {name}: the smallest known of {counted(found.smaller, 'sample')}"
            for name, found in self.attacks.items()
        ]
        return "\n".join(lines)


def verify(
    run: str | Path | Result,
    examples: str | Path | Mapping[str, Any],
    by: str | None = None,
    *,
    model: Classifier | nn.Module | Callable[[Tensor], Any] | str | None = None,
    data: Dataset | tuple[Any, Any] | str | None = None,
    attacks: str | Attack | Sequence[str | Attack] | None = None,
    eight_bit: bool = False,
    batch_size: int | None = None,
) -> Verification:
    """Check adversarial examples of whatever origin, and enter those that hold into a run as evidence.

    An example counts where its label is that of the data, the clean image is classified correctly, its pixels are
    finite and in [0, 1], and a forward pass of our own misclassifies it. Its size is measured here, in every lp norm
    that the run has; in other sets where ``theta`` and ``attack`` are given (the image is then made from theta, and
    theta must be a point of the set). The table holds the smallest example of each sample, and says who found it.

    Args:
        run: its folder, or a result; only what the run knows already gets smaller by it, nothing is searched.
        examples: what :func:`~robustatlas.evaluation.examples.read_examples` reads, or such arrays by name.
        by: who found them; default: the name of the file or folder.
        model: default: the one that the run names. Must be the run's.
        data: default: the data set that the run names. Must be the run's.
        attacks: which attacks of the run the examples are evidence for; default: linf, l2, l1 and l0 where it has
            them, or the attack of ``theta``.
        eight_bit: count only what still fools after rounding to 8 bits a pixel, as saving as PNG does; lp sizes are
            those of the rounded image.
        batch_size: samples at work at once (default 256).

    Raises:
        UserError: no such run or examples, another model or data than the run's, an attack that the run has not, or
            examples that do not say which images they change.

    Example:
        >>> from robustatlas.evaluation import evaluate
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        >>> weight, bias = torch.tensor([[1.0] * 4, [0.0] * 4]), torch.tensor([-2.0, 0.0])
        >>> _ = net.load_state_dict({"1.weight": weight, "1.bias": bias})
        >>> data = (torch.full((1, 1, 2, 2), 0.75), torch.tensor([0]))
        >>> result = evaluate(net, data, strengths={"linf": [0.2, 0.4]})
        >>> verify(result, {"images": np.full((1, 1, 2, 2), 0.4)}, "a friend", model=net, data=data)
        1 of 1 example by a friend verified
          linf: the smallest known of 0 samples
          l2: the smallest known of 0 samples
    """
    store = run._run if isinstance(run, Result) else Run.open(run)
    if store is None:
        raise UserError("This result is no run; give the folder of one, or what evaluate returned.")
    given = (
        examples_of({name: np.asarray(values) for name, values in examples.items()}, "examples")
        if isinstance(examples, Mapping)
        else read_examples(examples)
    )
    finder = by or (Path(examples).stem if isinstance(examples, (str, os.PathLike)) else "")
    if not finder.strip():
        raise UserError("by is empty; say who found the examples.")
    with undisturbed():
        classifier = _model_of(store, model)
        work, rows = _rows_of(store, given, data)
        with classifier.evaluating():
            if differences := store.identity.differences(identity_of(classifier, work.rows.shape[1:], work.record)):
                raise UserError(f"The examples cannot enter {store.path or 'the run'}: {'; '.join(differences)}.")
            wanted = _wanted(store, classifier, given, attacks)
            checked = _checked(classifier, work, rows, given, wanted, eight_bit, batch_size or _BATCH)
    before = {name: _searched(store, name) for name in wanted}
    _enter(store, classifier, work, rows, given, wanted, checked, finder.strip(), eight_bit)
    return _told(store, given, rows, wanted, checked, before, finder.strip())


@dataclass(frozen=True)
class _Checked:
    """``refusal`` [M]: position in :data:`REFUSALS`, -1 where the example counts; ``sizes``: attack -> [M] size;
    ``found`` [M]: class, ``margin`` [M]: softmax margin, ``images`` [M, ...]: as they were judged, with ``mistakes``
    [M] in ``drawn`` [M] forward passes; ``clean_prediction`` and ``clean_margin`` [N] of the samples."""

    refusal: NDArray[np.int64]
    sizes: dict[str, NDArray[np.float64]]
    found: NDArray[np.int64]
    margin: NDArray[np.float64]
    images: NDArray[np.float32]
    mistakes: NDArray[np.int64]
    drawn: NDArray[np.int64]
    clean_prediction: NDArray[np.int64]
    clean_margin: NDArray[np.float32]


def model_named_by(store: Run) -> str:
    """What the model of a run was loaded from; :class:`UserError` where it was given as an object."""
    source = store.identity.model.source
    if not source:
        raise UserError(
            f"The run was made with a model given as an object ({store.identity.model.name}); give that model."
        )
    return source


def _model_of(store: Run, model: Classifier | nn.Module | Callable[[Tensor], Any] | str | None) -> Classifier:
    model = model_named_by(store) if model is None else model
    if isinstance(model, str):
        return load_model(model)
    return model if isinstance(model, Classifier) else Classifier(model)


def _rows_of(
    store: Run, given: Examples, data: Dataset | tuple[Any, Any] | str | None
) -> tuple[Work, NDArray[np.int64]]:
    """The samples that the examples change, and the row of each example among them."""
    if data is None or isinstance(data, str):
        data = load_dataset(data or store.identity.data.name)
    whole = samples_of(data, None)
    index = given.index
    if index is None:
        index = _positions(store, len(given), whole.index)
    known = {int(position): row for row, position in enumerate(whole.index)}
    if strange := [int(position) for position in index if int(position) not in known]:
        raise UserError(f"The examples change image {strange[0]}, which is not among the {len(known)} of the data.")
    positions, rows = np.unique(np.array([known[int(position)] for position in index]), return_inverse=True)
    taken = torch.from_numpy(positions)
    return Work(whole.rows.chosen(taken), whole.labels[taken], whole.index[positions], whole.record), rows.reshape(-1)


def _positions(store: Run, count: int, of_data: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which images so many examples without ``index`` change."""
    searched = store.table().index
    for positions in (of_data, searched):
        if len(positions) == count:
            return positions
    raise UserError(
        f"{counted(count, 'example')} without 'index' do not say which images they change; the data has "
        f"{len(of_data)} and the run {len(searched)}. Add an array 'index' [M] of positions in the data set."
    )


def _wanted(
    store: Run, model: Classifier, given: Examples, attacks: str | Attack | Sequence[str | Attack] | None
) -> dict[str, tuple[AttackRecord, ThreatModel]]:
    """Attack of the run -> its record, at all strengths that the run searched, and its set."""
    searched: dict[str, list[AttackRecord]] = {}
    for record in store.records().values():
        if record.finder is None:
            searched.setdefault(record.name, []).append(record)
    place = store.path or "The run"
    if attacks is None and given.attack:
        attacks = given.attack
    if attacks is None:
        attacks = [name for name in _NORMS if name in searched]
        if not attacks:
            raise UserError(
                f"{place} has none of linf, l2, l1 and l0, but {', '.join(searched) or 'nothing'}; say by 'attacks' "
                "which of these the examples are evidence for."
            )
    wanted = {}
    for attack in attacks_of(attacks):
        records = searched.get(attack.name)
        if not records:
            raise UserError(f"{place} has no attack {attack.name!r}; it has {', '.join(searched) or 'none'}.")
        threat = attack.threat.bound_to(model)
        if plain(threat) != records[0].threat and _as_recorded(threat) != records[0].threat:
            raise UserError(
                f"The run searched {attack.name!r} in other sets than those of that name now; give the very attack as "
                "an object."
            )
        if not records[0].monotone:
            raise UserError(
                f"{attack.name!r} was judged at each strength by itself, so the size of an example says nothing of it; "
                "only attacks on nested sets take examples."
            )
        if not isinstance(threat, tuple(_NORMS.values())) and given.attack != attack.name:
            raise UserError(
                f"Whether an image lies in a set of {attack.name!r} cannot be seen from the image; give 'theta' and "
                f"'attack' ({attack.name!r}) beside it."
            )
        merged = merged_strengths([np.array(record.strengths) for record in records])
        wanted[attack.name] = (records[0].model_copy(update={"strengths": tuple(merged)}), threat)
    return wanted


def _as_recorded(threat: ThreatModel) -> Any:
    """A set as a run's JSON gives it back."""
    return AttackRecord(name="set", strengths=(1.0,), threat=plain(threat)).threat


def _checked(
    model: Classifier,
    work: Work,
    rows: NDArray[np.int64],
    given: Examples,
    wanted: Mapping[str, tuple[AttackRecord, ThreatModel]],
    eight_bit: bool,
    batch: int,
) -> _Checked:
    clean = [_clean(model, work, part) for part in torch.split(torch.arange(len(work.labels)), batch)]
    prediction, clean_margin = (torch.cat(parts) for parts in zip(*clean, strict=True))
    threats = {name: threat for name, (_, threat) in wanted.items()}
    pieces = [
        _judged(model, work, torch.from_numpy(rows[part.numpy()]), part, given, threats, prediction, eight_bit)
        for part in torch.split(torch.arange(len(given)), batch)
    ]
    return _Checked(
        refusal=np.concatenate([piece["refusal"] for piece in pieces]),
        sizes={name: np.concatenate([piece[f"size of {name}"] for piece in pieces]) for name in threats},
        found=np.concatenate([piece["found"] for piece in pieces]),
        margin=np.concatenate([piece["margin"] for piece in pieces]),
        images=np.concatenate([piece["images"] for piece in pieces]),
        mistakes=np.concatenate([piece["mistakes"] for piece in pieces]),
        drawn=np.concatenate([piece["drawn"] for piece in pieces]),
        clean_prediction=prediction.numpy(),
        clean_margin=clean_margin.float().numpy(),
    )


def _clean(model: Classifier, work: Work, part: Tensor) -> tuple[Tensor, Tensor]:
    x, labels = work.rows[part].to(model.device, model.dtype), work.labels[part].to(model.device)
    verdict = model.judged(
        x, labels, Noise.of(0, torch.from_numpy(work.index[part.numpy()]).to(x.device), "verify clean")
    )
    return verdict.prediction.cpu(), margin_of(verdict.logits.softmax(1), labels).cpu()


def _judged(
    model: Classifier,
    work: Work,
    rows: Tensor,
    part: Tensor,
    given: Examples,
    threats: Mapping[str, ThreatModel],
    clean_prediction: Tensor,
    eight_bit: bool,
) -> Arrays:
    """What is to say of the examples ``part``, which change the samples ``rows``."""
    x, labels = work.rows[rows].to(model.device, model.dtype), work.labels[rows].to(model.device)
    refused = dict.fromkeys(REFUSALS, torch.zeros(len(part), dtype=torch.bool, device=x.device))
    refused["the clean image is misclassified already"] = clean_prediction[rows].to(x.device) != labels
    if given.labels is not None:
        refused["the label is not that of the data"] = (
            torch.from_numpy(given.labels[part.numpy()]).to(x.device) != labels
        )
    of_theta = threats.get(given.attack or "") if given.theta else None
    sizes: dict[str, Tensor] = {}
    if of_theta is not None:
        theta = _theta(of_theta, x, [leaf[part.numpy()] for leaf in given.theta], str(given.attack))
        sizes[str(given.attack)] = of_theta.size(x, theta)
        refused["not a point of the attack's set"] = ~_inside(of_theta, x, theta, sizes[str(given.attack)])
        images = of_theta.apply(x, theta)
    else:
        images = _shaped(given.images[part.numpy()], x)  # type: ignore[index]
    finite = images.isfinite().flatten(1).all(1)
    refused["not a finite number"] = ~finite
    images = torch.where(per_sample(finite, images), images, x)
    outside = ((images < -_OUTSIDE) | (images > 1 + _OUTSIDE)).flatten(1).any(1)
    refused["outside of [0, 1]"] = outside
    images = images.clamp(0, 1)
    if eight_bit:
        images = (images * _LEVELS).round() / _LEVELS
    streams = Noise.of(0, torch.from_numpy(work.index[rows.numpy()]).to(x.device), "verify").child(part.to(x.device))
    verdict = model.judged(images, labels, streams)
    logits, found = verdict.logits, verdict.prediction
    refused["classified correctly"] = ~verdict.wrong
    for name, threat in threats.items():
        if isinstance(threat, tuple(_NORMS.values())):
            sizes[name] = threat.size(x.double(), images.double() - x.double())
    reasons = torch.stack([refused[reason] for reason in REFUSALS])
    refusal = torch.where(reasons.any(0), reasons.long().argmax(0), -1)
    told = {"refusal": refusal, "found": found, "margin": margin_of(logits.softmax(1), labels).double()}
    told |= {"images": images.float(), "mistakes": verdict.mistakes, "drawn": verdict.drawn}
    told |= {f"size of {name}": size.double() for name, size in sizes.items()}
    return {name: values.cpu().numpy() for name, values in told.items()}


def _shaped(images: NDArray[Any], x: Tensor) -> Tensor:
    """``images`` [B, ...] like ``x`` [B, ...]; the channels may stand last, or be left out where there is one."""
    given = torch.from_numpy(np.ascontiguousarray(images)).to(x)
    if given.dim() == 4 and given.shape != x.shape and given.permute(0, 3, 1, 2).shape == x.shape:
        return given.permute(0, 3, 1, 2).contiguous()
    if given.dim() == 3 and given[:, None].shape == x.shape:
        return given[:, None]
    if given.shape != x.shape:
        raise UserError(
            f"The examples have shape {tuple(given.shape[1:])}, and the images of the data {tuple(x.shape[1:])}."
        )
    return given


def _theta(threat: ThreatModel, x: Tensor, leaves: Sequence[NDArray[Any]], attack: str) -> Any:
    """The parameters as the set has them."""
    like = threat.neutral(x)
    nodes, structure = pytree.tree_flatten(like, is_leaf=lambda node: isinstance(node, Fixed))
    if any(isinstance(node, Fixed) for node in nodes):
        raise UserError(
            f"Some of theta of {attack!r} is drawn at random, and whether given numbers could have been drawn cannot "
            "be checked; examples of this attack are not taken."
        )
    shapes = [tuple(leaf.shape[1:]) for leaf in free(like)]
    if [leaf.shape[1:] for leaf in leaves] != shapes:
        raise UserError(
            f"theta of {attack!r} has the shapes {', '.join(map(str, shapes))} a sample; given "
            f"{', '.join(str(leaf.shape[1:]) for leaf in leaves)}."
        )
    filled = iter(torch.from_numpy(np.ascontiguousarray(leaf)).to(x) for leaf in leaves)
    return pytree.tree_unflatten([next(filled) if isinstance(node, Tensor) else node for node in nodes], structure)


def _inside(threat: ThreatModel, x: Tensor, theta: Any, size: Tensor) -> Tensor:
    """``[B]``: theta is a point of the set of its own size."""
    drawn = threat.project(x, theta, size * (1 + STRENGTH_TOLERANCE))
    inside = size.isfinite()
    for here, there in zip(free(theta), free(drawn), strict=True):
        moved, scale = flat(here - there).abs().amax(1), flat(here).abs().amax(1)
        inside &= moved <= _SAME_THETA * scale
    return inside


def _enter(
    store: Run,
    model: Classifier,
    work: Work,
    rows: NDArray[np.int64],
    given: Examples,
    wanted: Mapping[str, tuple[AttackRecord, ThreatModel]],
    checked: _Checked,
    by: str,
    eight_bit: bool,
) -> None:
    """Write the smallest verified example of each sample under each attack."""
    procedure = {"search": EXAMPLES, "by": by, "sha256": given.sha256, "eight bits": eight_bit}
    records = {name: record.model_copy(update={"procedure": procedure}) for name, (record, _) in wanted.items()}
    about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
    for name, record in records.items():
        chosen = _smallest(np.where(checked.refusal < 0, checked.sizes[name], np.inf), rows)
        chosen = chosen[~np.isin(work.index[rows[chosen]], store.done(record))]
        if not len(chosen):
            continue
        index, size = work.index[rows[chosen]], checked.sizes[name][chosen]
        store.add([record], Plan(attacks=(record.key,), spans=spans_of(index), created=now(), command=command_line()))
        strengths = np.array(record.strengths)
        within = size[:, None] <= strengths * (1 + STRENGTH_TOLERANCE)
        none = np.zeros(len(chosen), np.int64)
        columns: Arrays = {
            "index": index,
            "minimal_size": size,
            "found_class": checked.found[chosen],
            "forward": np.bincount(rows, minlength=len(work.labels))[rows[chosen]] + 1,
            "backward": none,
            "rejected": none,
            "seconds": np.zeros(len(chosen)),
            "margins": np.where(within, checked.margin[chosen, None], np.nan).astype(np.float32),
            "fooled": np.full(within.shape, -1, np.int8),
        }
        if model.draws is not None:
            columns |= {"possible_size": size, "mistakes": checked.mistakes[chosen], "drawn": checked.drawn[chosen]}
        samples = {
            "index": index,
            "label": work.labels.numpy()[rows[chosen]],
            "clean_prediction": checked.clean_prediction[rows[chosen]],
            "clean_margin": checked.clean_margin[rows[chosen]],
        }
        if model.rejection is not None and model.draws is None:
            x = work.rows[torch.from_numpy(rows[chosen])].to(model.device, model.dtype)
            samples |= clean_answers(model, x, work.labels[torch.from_numpy(rows[chosen])].to(model.device), _BATCH)
        store.write(record, columns, samples, (index, checked.images[chosen]), about)


def _smallest(size: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of examples with sizes [M] (inf: does not count) of the samples ``rows`` [M], the smallest of each sample."""
    order = np.lexsort((size, rows))
    first = order[np.unique(rows[order], return_index=True)[1]]
    return first[np.isfinite(size[first])]


def _searched(store: Run, name: str) -> NDArray[np.float64]:
    """Robust accuracies before the examples."""
    return store.table([name]).outcome(name).accuracies()


def _told(
    store: Run,
    given: Examples,
    rows: NDArray[np.int64],
    wanted: Mapping[str, tuple[AttackRecord, ThreatModel]],
    checked: _Checked,
    before: Mapping[str, NDArray[np.float64]],
    by: str,
) -> Verification:
    refused = {reason: int((checked.refusal == k).sum()) for k, reason in enumerate(REFUSALS)}
    origin = AttackRecord(name="examples", strengths=(1.0,), procedure={"search": EXAMPLES, "by": by}).origin
    attacks = {}
    for name in wanted:
        outcome = store.table([name]).outcome(name)
        attacks[name] = Confirmed(
            samples=len(_smallest(np.where(checked.refusal < 0, checked.sizes[name], np.inf), rows)),
            smaller=outcome.found_by().get(origin, 0),
            strengths=tuple(outcome.strengths.tolist()),
            before=tuple(before[name].tolist()),
            after=tuple(outcome.accuracies().tolist()),
        )
    return Verification(
        by=by,
        given=len(given),
        verified=checked.refusal < 0,
        refused={reason: count for reason, count in refused.items() if count},
        attacks=attacks,
        result=Result.of_run(store),
    )
