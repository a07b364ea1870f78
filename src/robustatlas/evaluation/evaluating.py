"""The evaluation of a request: what the run lacks is computed, and read back as a result."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robustatlas.attacks.definition import Attack
from robustatlas.common.wording import pluralise
from robustatlas.evaluation.attack_task import AttackTask, CertifiedBefore
from robustatlas.evaluation.completion import complete, show_warning
from robustatlas.evaluation.cores import choose_cores
from robustatlas.evaluation.ends import diagnosed_at_ends
from robustatlas.evaluation.identity import check_answers
from robustatlas.evaluation.preparation import Model, PreparedAttacks, evaluation_context, open_model, prepare_attacks
from robustatlas.evaluation.reading import DiagnosisRequest, diagnosed, diagnosis_request
from robustatlas.evaluation.request import Data, Request
from robustatlas.evaluation.resume import missing_tasks, notes_on_other_searches
from robustatlas.models.classifier.backward import BACKWARD, Backward
from robustatlas.outcomes import CallRecord, Run
from robustatlas.outcomes.identity import command_line, current_time
from robustatlas.outcomes.locks import start_lock
from robustatlas.outcomes.records import sample_spans
from robustatlas.results.result import Result

_LEAST_SHARE_OF_PLAN = 0.05
"""Share of the passes of a plan that samples take on average, at least. The smallest share that was measured, on
untrained networks of four kinds, is 5.0 %."""


def evaluate_request(model: Model, data: Data, request: Request) -> Result:
    """Evaluate a model, as :func:`robustatlas.evaluate` does, on a request."""
    classifier, samples = open_model(model, data, request)
    cores = request.cores or choose_cores(classifier, samples.rows)
    with cores.limit_threads(), evaluation_context(classifier, request) as display:
        ready = prepare_attacks(classifier, samples, request, display)
        if request.batch_size == "auto":
            fitting = pluralise(ready.batch_size, "sample")
            ready.display.note(f"{fitting} at work at once is what {ready.model.device} is fast with.")
        run = request.begin_run(ready.identity)
        check_answers(ready.model, run, ready.samples)
        with request.lock_part(run, ready.display.note):
            with start_lock(run.path):
                planned = replace(ready, tasks=_announce_tasks(run, ready))
            question = _diagnosis_request(ready) if request.diagnose else None
            if question is not None:
                _diagnose_run(run, ready, question)
            complete(run, run, planned, request, _gradient_ways(planned.tasks), cores)
            if question is not None:
                _diagnose_after(run, ready, question)
        grids = {attack.name: attack.strengths for attack in ready.attacks}
        mine = request.part_mask(len(ready.samples.index))
        result = Result.from_run(run, list(grids), ready.samples.index[mine], grids)
        for attack in ready.attacks:
            if sentence := _sentence_on_rejections(result, attack):
                show_warning(ready.display, sentence)
    return result


def _announce_tasks(run: Run, ready: PreparedAttacks) -> list[AttackTask]:
    """Record the tasks that bring a run to what is asked, and return them."""
    for note in notes_on_other_searches(ready.tasks, run):
        ready.display.note(note)
    tasks = [_with_certificates(task, run, ready) for asked in ready.tasks for task in missing_tasks(asked, run)]
    call = CallRecord(
        attacks=tuple(task.record.key for task in tasks),
        spans=sample_spans(ready.samples.index),
        created=current_time("microseconds"),
        command=command_line(),
        warnings=tuple(ready.warnings),
    )
    run.add([task.record for task in tasks], call)
    return tasks


def _with_certificates(task: AttackTask, run: Run, ready: PreparedAttacks) -> AttackTask:
    """Return the task with what the run certifies of its threat model, so that no search runs below."""
    records = [record for record in run.certificate_records() if record.name == task.attack.name and not record.of]
    if not records or ready.model.draws is not None:
        return task
    index = np.sort(ready.samples.index)
    sizes = run.certificates.sizes(records, index)[task.attack.name].sizes
    return replace(task, certified=CertifiedBefore(index, sizes))


def _gradient_ways(tasks: Sequence[AttackTask]) -> set[Backward | None]:
    """Return the ways in which the tasks take gradients of the model."""
    gradients = [task.record.gradient for task in tasks if task.record.gradient is not None]
    return {way for way in (None, *BACKWARD) if any((way or "own") in gradient.ways for gradient in gradients)}


def _diagnosis_request(ready: PreparedAttacks) -> DiagnosisRequest:
    """Return what a diagnosis of the run has to look at."""
    plans = [task.attack.plan(task.search) for task in ready.tasks]
    passes = _LEAST_SHARE_OF_PLAN * 2 * sum(task.cost_weight(ready.classes) for task in ready.tasks)
    gradients = [task.record.gradient for task in ready.tasks if task.record.gradient is not None]
    seed, batch = ready.settings.seed, ready.batch_size
    return diagnosis_request(ready.samples, ready.attacks, plans, seed, batch, passes=passes, gradients=gradients)


def _diagnose_run(run: Run, ready: PreparedAttacks, question: DiagnosisRequest) -> None:
    """Diagnose the run unless it is, and warn if the verdict speaks against what it will find."""
    with ready.explaining_memory():
        diagnosis = diagnosed(run, ready.model, question)
    if diagnosis.has_doubts:
        show_warning(ready.display, diagnosis.warning)


def _diagnose_after(run: Run, ready: PreparedAttacks, question: DiagnosisRequest) -> None:
    """Look at the places where the searches ended, unless it was done, and warn if that speaks against the numbers."""
    with ready.explaining_memory():
        before = diagnosed(run, ready.model, question)
        diagnosis = diagnosed_at_ends(run, ready.model, question)
    if diagnosis.has_doubts and diagnosis.warning != before.warning:
        show_warning(ready.display, diagnosis.warning)


def _sentence_on_rejections(result: Result, attack: Attack) -> str | None:
    """Return a sentence if verification refused more candidates of a search than it confirmed."""
    outcome = result.outcome(attack.name)
    found = int(np.isfinite(outcome.minimal_size[result.clean]).sum())
    if outcome.rejected <= found:
        return None
    return (
        f"Verification rejected {outcome.rejected} candidates of {attack.name!r} ({found} samples have a confirmed "
        "example): they lie outside of [0, 1] or are classified correctly when looked at again, so the robust "
        "accuracies under it may be too high."
    )
