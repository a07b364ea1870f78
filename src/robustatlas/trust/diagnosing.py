"""``diagnose``: find out if robustness numbers of a model can be trusted."""

from dataclasses import replace

import numpy as np
import torch

from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.checks.sanity import check_logits, multiple_output_warnings
from robustatlas.common.errors import warn
from robustatlas.common.scalars import integer_or_none, parse_count, parse_seed
from robustatlas.evaluation.attack_choice import choose_attacks, fitting_attacks
from robustatlas.evaluation.ends import with_ends, withstood
from robustatlas.evaluation.reading import DiagnosisRequest, diagnosis_request, read_indicators
from robustatlas.evaluation.request import Attacks, Data, Request, Samples
from robustatlas.evaluation.samples import positions_from_request
from robustatlas.models.classifier import seeded, undisturbed
from robustatlas.models.classifier.probing import raw_output
from robustatlas.outcomes.records import DiagnosisRecord
from robustatlas.trust.full import read_in_full
from robustatlas.trust.subject import KnownSubject, Model, Subject, resolve_subject, samples_of_rows


def _read_with_ends(known: KnownSubject, question: DiagnosisRequest) -> DiagnosisRecord:
    """Return the record of a diagnosis, with readings where searches ended.

    Of a result these are the ends of its own searches; for a model searches are made.
    """
    record, result = read_indicators(known.model, question), known.result
    if not Diagnosis.from_record(record).can_change:
        return record
    if result is None:
        return with_ends(known.model, question, record)
    grids = {name: tuple(result.distances(name).tolist()) for name in result.attacks}
    asked = replace(question, attacks=[replace(each, strengths=grids[each.name]) for each in question.attacks])
    return with_ends(known.model, asked, record, withstood(result, np.array(record.index, np.int64)))


_BATCH = 128
_SAMPLES, _FULL = 100, 50
"""Numbers of samples that are looked at by default."""
_DRAWN_FROM = 4
"""A torch data set that does not declare its labels is read up to this many times the samples that are looked at: some
are misclassified, and the others are drawn at random."""


def diagnose(
    model_or_result: Subject,
    data: Data | None = None,
    *,
    attacks: Attacks = ("linf",),
    samples: Samples = None,
    seed: int = 0,
    model: Model | None = None,
    everything: bool = False,
    full: bool = False,
) -> Diagnosis:
    """Find out whether robustness numbers of a model can be trusted.

    Indicators look at samples that are classified correctly, and at where searches from these end: above all, whether
    the margin changes as its gradient says. The verdict comes from the shares of samples that they speak against, with
    exact intervals. It is also part of every evaluation (``result.diagnosis``).

    Args:
        model_or_result: a model, or a result or the folder of a run; the model of a run is loaded from its source.
        data: as of :func:`robustatlas.evaluate`; default, of a result: its own, by their name.
        attacks: whose numbers are to be judged; of a result: its own.
        samples: how many to look at, drawn at random (default: 100), or positions or a mask of those to choose from. Of
            a torch data set that does not declare its labels (``targets``), they are drawn from its first items, four
            times as many, unless these are sorted by class.
        seed: of the choice, and of the random directions.
        model: of a result, where it cannot be loaded from its source.
        everything: also read the indicators that decide nothing: those that raise false alarms, and costly ones.
        full: run attacks of several kinds on the samples besides (50 by default), and read the indicators that look at
            them: the binarisation test with its control, those of Pintor et al., AutoAttack and Carlini et al., and
            ours.

    Returns:
        the verdict, and what each indicator found. It is kept in the run of a result.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Source: central differences against gradients (ours); AutoAttack's flags (Croce et al.);
    Pintor et al. 2022; Carlini et al. 2019; Zimmermann et al. 2022.

    Example:
        >>> import robustatlas as ra
        >>> data, plain = ra.load_dataset("digits"), ra.load_model("builtin:digits-standard")
        >>> rounded = ra.Classifier(lambda x: plain.logits((7 * x).round() / 7))
        >>> ra.diagnose(rounded, data, samples=40).verdict
        'masked'
    """
    seed = parse_seed(seed)
    asked_for = None
    if samples is None or integer_or_none(samples) is not None:
        asked_for = (_FULL if full else _SAMPLES) if samples is None else parse_count("samples", samples)
    with undisturbed():
        known = resolve_subject(model_or_result, data, model, samples if asked_for is None else _DRAWN_FROM * asked_for)
    asked = known.result.attacks if known.result is not None else attacks
    work = known.work
    if asked_for is not None:
        count = min(asked_for, len(work.index))
    else:
        work = samples_of_rows(work, positions_from_request(samples, len(work.index)))
        count = len(work.index)
    with undisturbed(), seeded(seed, known.model.device), known.model.evaluating():
        x = work.rows[:2].to(known.model.device, known.model.dtype)
        with torch.no_grad():
            check_logits(known.model.logits(x, verifying=True), len(x), work.labels)
            for warning in multiple_output_warnings(known.model, raw_output(known.model, x).shapes):
                warn(warning)
        chosen = choose_attacks(Request(attacks=asked), known.model, work.first.images)
        chosen, _ = fitting_attacks(chosen, asked, x[:1])
        plans = [attack.plan(attack.choose_search(None)) for attack in chosen]
        question = diagnosis_request(work, chosen, plans, seed, _BATCH, count, everything=everything or full)
        record = _read_with_ends(known, question)
        record = read_in_full(known, record, chosen, seed) if full else record
    if known.result is not None:
        known.result.keep_diagnosis(record)
    return Diagnosis.from_record(record)
