"""Check examples, enter those that count, say what became of them."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.common.wording import pluralise
from robustatlas.data import Dataset
from robustatlas.evaluation.attack_task import clean_answers
from robustatlas.evaluation.examples import Arrays, examples_from_arrays, read_examples
from robustatlas.evaluation.identity import check_answers, run_identity
from robustatlas.evaluation.records import PIXELS
from robustatlas.evaluation.verification.asked import Case, load_run_model, records_to_support, samples_of_examples
from robustatlas.evaluation.verification.judging import REFUSALS, Judgement, judge
from robustatlas.models.classifier import Classifier, undisturbed
from robustatlas.models.classifier.batches import batch_sizes
from robustatlas.outcomes import AttackRecord, CallRecord, Run
from robustatlas.outcomes.identity import circumstances, command_line, current_time
from robustatlas.outcomes.records import EXAMPLES, sample_spans
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.results.result import Result

_BATCH = 256


@dataclass(frozen=True)
class Confirmed:
    """Evidence of verified examples for one attack.

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
    """Outcome of a verification of given examples.

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
        lines = [f"{int(self.verified.sum())} of {pluralise(self.given, 'example')} by {self.by} verified"]
        lines += [f"  refused, {reason}: {count}" for reason, count in self.refused.items()]
        lines += [
            f"  {name}: the smallest known of {pluralise(found.smaller, 'sample')}"
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
    that the run has. Other threat models need ``theta`` and ``attack``: the image is then made from theta, and must be
    one that the attack may make. The table holds the smallest example of each sample, and by whom.

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

    Returns:
        how many examples were given and verified, why the others were refused, and for each attack what its robust
            accuracy was and is.

    Raises:
        UserError: no such run or examples, another model or data than the run's, an attack that the run has not, or
            examples that do not say which images they change.

    Example:
        >>> import torch
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
        raise UserError("This result is not a run; give the folder of one, or what evaluate returned.")
    given = (
        examples_from_arrays({name: np.asarray(values) for name, values in examples.items()}, "examples")
        if isinstance(examples, Mapping)
        else read_examples(examples)
    )
    finder = by or (parse_path(examples).stem if isinstance(examples, (str, os.PathLike)) else "")
    if not finder.strip():
        raise UserError("by is empty; say who found the examples.")
    (batch,) = batch_sizes(_BATCH if batch_size is None else batch_size)
    with undisturbed():
        classifier = load_run_model(store, model)
        work, rows = samples_of_examples(store, given, data)
        with classifier.evaluating():
            if differences := store.identity.differences(run_identity(classifier, work.rows.shape[1:], work.record)):
                raise UserError(f"The examples cannot enter {store.path or 'the run'}: {'; '.join(differences)}.")
            check_answers(classifier, store, work)
            wanted = records_to_support(store, classifier, given, attacks, work.first.images)
            held = eight_bit or any(PIXELS in record.threat for record, _ in wanted.values())
            case = Case(store, classifier, work, rows, given, wanted, finder.strip(), held)
            judged = judge(case, batch)
    before = accuracies_by_attack(case)
    enter(case, judged, batch)
    return summarise_verification(case, judged, before)


def enter(case: Case, judged: Judgement, batch: int) -> None:
    """Write the smallest example that counts of each sample under each attack."""
    store, model, work, rows = case.store, case.model, case.work, case.rows
    protocol = {"search": EXAMPLES, "by": case.by, "sha256": case.given.sha256, "eight bits": case.eight_bit}
    handed_over = {"protocol": protocol, "gradient": None}
    records = {name: record.model_copy(update=handed_over) for name, (record, _) in case.wanted.items()}
    about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
    for name, record in records.items():
        chosen = judged.smallest(name, rows)
        chosen = chosen[~np.isin(work.index[rows[chosen]], store.stored_samples(record))]
        if not len(chosen):
            continue
        samples_of = rows[chosen]
        index, size = work.index[samples_of], judged.sizes[name][chosen]
        store.add(
            [record],
            CallRecord(
                attacks=(record.key,),
                spans=sample_spans(index),
                created=current_time("microseconds"),
                command=command_line(),
            ),
        )
        strengths = np.array(record.strengths)
        within = size[:, None] <= strengths * (1 + STRENGTH_TOLERANCE)
        none = np.zeros(len(chosen), np.int64)
        columns: Arrays = {
            "index": index,
            "minimal_size": size,
            "true_size": np.full(len(chosen), -1.0),
            "found_class": judged.found[chosen],
            "found_run": np.full(len(chosen), -1),
            "forward": np.bincount(rows, minlength=len(work.labels))[samples_of] + 1,
            "backward": none,
            "rejected": none,
            "seconds": np.zeros(len(chosen)),
            "margins": np.where(within, judged.margin[chosen, None], np.nan).astype(np.float32),
            "fooled": np.full(within.shape, -1, np.int8),
        }
        if model.draws is not None:
            columns |= {"possible_size": size, "mistakes": judged.mistakes[chosen], "drawn": judged.drawn[chosen]}
        samples = {
            "index": index,
            "label": work.labels.numpy()[samples_of],
            "clean_prediction": judged.clean_prediction[samples_of],
            "clean_margin": judged.clean_margin[samples_of],
        }
        if model.rejection is not None and model.draws is None:
            samples |= clean_answers(model, *work.load(model, torch.from_numpy(samples_of)), batch)
        store.write(record, columns, samples, (index, judged.images[chosen]), about)


def accuracies_by_attack(case: Case) -> dict[str, NDArray[np.float64]]:
    """Attack -> robust accuracy in percent at each of its strengths, as the run stands now."""
    return {name: case.store.table([name]).outcome(name).accuracies() for name in case.wanted}


def summarise_verification(case: Case, judged: Judgement, before: Mapping[str, NDArray[np.float64]]) -> Verification:
    """``before``: :func:`accuracies_by_attack` without the examples, which the run holds by now."""
    refused = {reason: int((judged.refusal == k).sum()) for k, reason in enumerate(REFUSALS)}
    origin = AttackRecord(name="examples", strengths=(1.0,), protocol={"search": EXAMPLES, "by": case.by}).origin
    attacks = {}
    for name in case.wanted:
        outcome = case.store.table([name]).outcome(name)
        attacks[name] = Confirmed(
            samples=len(judged.smallest(name, case.rows)),
            smaller=outcome.counts_by_origin().get(origin, 0),
            strengths=tuple(outcome.strengths.tolist()),
            before=tuple(before[name].tolist()),
            after=tuple(outcome.accuracies().tolist()),
        )
    return Verification(
        by=case.by,
        given=len(case.given),
        verified=judged.refusal < 0,
        refused={reason: count for reason, count in refused.items() if count},
        attacks=attacks,
        result=Result.from_run(case.store),
    )
