"""What a request asks for, computed: what the run lacks is worked through, and read back as a result."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from robustatlas.attacks.definition import Attack
from robustatlas.common.errors import UserError
from robustatlas.common.wording import counted
from robustatlas.evaluation.cores import FIRST, Cores, Sharing, can_share, cores_for
from robustatlas.evaluation.costs import Costs, weight_of
from robustatlas.evaluation.dispatcher import Dispatcher
from robustatlas.evaluation.ends import diagnosed_at_ends
from robustatlas.evaluation.identity import ModelProbe, check_answers
from robustatlas.evaluation.memory import ran_out
from robustatlas.evaluation.plan import Data, Task, found_otherwise, tasks_for
from robustatlas.evaluation.prepared import Model, Prepared, given, prepared, surroundings, tell
from robustatlas.evaluation.reading import Question, diagnosed, question_of
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.work import Doer, ModelWork
from robustatlas.evaluation.workers import CannotShareError, Cluster, run_jobs, share_jobs
from robustatlas.models.classifier.backward import BACKWARD
from robustatlas.outcomes import CallRecord, Run
from robustatlas.outcomes.circumstances import command_line, now
from robustatlas.outcomes.locks import start_lock
from robustatlas.outcomes.records import spans_of
from robustatlas.results.result import Result

_SURE = 0.05
"""Of the most passes that plans may take, what samples take on average at the least: 5.0 % and more were measured, of
untrained networks of four kinds."""


def evaluated(model: Model, data: Data, request: Request) -> Result:
    """:func:`robustatlas.evaluate`, of a request."""
    classifier, work = given(model, data, request)
    cores = request.cores or cores_for(classifier, work.rows)
    with cores.used(), surroundings(classifier, request) as display:
        ready = prepared(classifier, work, request, display)
        if request.batch_size == "auto":
            fitting = counted(ready.at_once, "sample")
            ready.display.note(f"{fitting} at work at once is what {ready.model.device} is fast with.")
        store = request.begin(ready.identity)
        check_answers(ready.model, store, ready.work)
        with request.lock_part(store, ready.display.note):
            with start_lock(store.path):
                tasks = _planned(store, ready)
            question = _question(ready) if request.diagnose else None
            if question is not None:
                _diagnose(store, ready, question)
            _complete(store, tasks, ready, request, cores)
            if question is not None:
                _look_at_ends(store, ready, question)
        grids = {attack.name: attack.strengths for attack in ready.attacks}
        mine = request.mine(len(ready.work.index))
        result = Result.of_run(store, list(grids), ready.work.index[mine], grids)
        for attack in ready.attacks:
            if sentence := _rejections(result, attack):
                tell(ready.display, sentence)
    return result


def _planned(store: Run, ready: Prepared) -> list[Task]:
    """The tasks that bring a run to what is asked, announced in it."""
    for note in found_otherwise(ready.tasks, store):
        ready.display.note(note)
    tasks = [_informed(task, store, ready) for asked in ready.tasks for task in tasks_for(asked, store)]
    plan = CallRecord(
        attacks=tuple(task.record.key for task in tasks),
        spans=spans_of(ready.work.index),
        created=now("microseconds"),
        command=command_line(),
        warnings=tuple(ready.warnings),
    )
    store.add([task.record for task in tasks], plan)
    return tasks


def _informed(task: Task, store: Run, ready: Prepared) -> Task:
    """The task with what the run certifies of its threat model, at which no run has to be made."""
    records = [record for record in store.certified_by() if record.name == task.attack.name and not record.of]
    if not records or ready.model.draws is not None:
        return task
    index = np.sort(ready.work.index)
    return replace(task, certified=(index, store.certificates.sizes(records, index)[task.attack.name].sizes))


def _question(ready: Prepared) -> Question:
    """What a diagnosis of the run is asked."""
    plans = [task.attack.plan(task.search) for task in ready.tasks]
    passes = _SURE * 2 * sum(weight_of(task, ready.classes) for task in ready.tasks)
    batch = ready.at_once
    gradients = [task.record.gradient for task in ready.tasks if task.record.gradient is not None]
    return question_of(ready.work, ready.attacks, plans, ready.manner.seed, batch, passes=passes, gradients=gradients)


def _diagnose(store: Run, ready: Prepared, question: Question) -> None:
    """Have the run diagnosed, unless it is, and warn where the verdict speaks against what it will find."""
    with _enough_memory(ready):
        diagnosis = diagnosed(store, ready.model, question)
    if diagnosis.doubted:
        tell(ready.display, diagnosis.warned)


def _look_at_ends(store: Run, ready: Prepared, question: Question) -> None:
    """Have it looked where the searches ended, unless it was, and warn where that speaks against what was found."""
    with _enough_memory(ready):
        before = diagnosed(store, ready.model, question)
        diagnosis = diagnosed_at_ends(store, ready.model, question)
    if diagnosis.doubted and diagnosis.warned != before.warned:
        tell(ready.display, diagnosis.warned)


def _complete(store: Run, tasks: Sequence[Task], ready: Prepared, request: Request, cores: Cores) -> None:
    """Have all tasks done that the run lacks, until every part of them can be read."""
    places, workers = request.places(ready.model), request.worker_count(ready.model)
    costs = Costs([weight_of(task, ready.classes) for task in tasks], ready.pair)
    mine = request.mine(len(ready.work.index))
    shares = request.shares and cores.count > 1 and can_share(ready.model)
    short, whole = FIRST if shares else None, False
    while not whole:
        dispatcher = Dispatcher(
            store,
            tasks,
            ready.work,
            mine,
            ready.manner,
            costs,
            request.shard_size,
            workers,
            ready.display,
            short,
        )
        if dispatcher.lacking:
            sharing = Sharing(cores, dispatcher, ready.memory()) if shares else None
            _work_through(dispatcher, ready, tasks, places, sharing)
        else:
            has_all = f"{store.path or 'the run'} has all of it, results of {store.identity.created}"
            ready.display.note(f"Nothing to do: {has_all}.")
        whole = store.intact(task.record for task in tasks)


def _work_through(
    dispatcher: Dispatcher,
    ready: Prepared,
    tasks: Sequence[Task],
    places: Sequence[str] | Cluster,
    sharing: Sharing | None,
) -> None:
    """Have the work of the dispatcher done: by workers at the ``places``; without any, by this process, until the rest
    is worth several."""
    do = Doer(ready.model, tasks, ready.manner).do
    with _enough_memory(ready):
        if places:
            _share(dispatcher, ready, tasks, places, None)
            return
        if sharing is not None:
            run_jobs(do, dispatcher, until=lambda: sharing.processes() > 1)
            if not dispatcher.lacking:
                return
            count = sharing.processes()
            try:
                dispatcher.display.note(f"{count} processes share the rest.")
                _share(dispatcher, ready, tasks, [str(ready.model.device)] * count, 1)
                return
            except CannotShareError as error:
                dispatcher.display.note(f"{error} So one process does all of it.")
        run_jobs(do, dispatcher)


def _share(
    dispatcher: Dispatcher,
    ready: Prepared,
    tasks: Sequence[Task],
    places: Sequence[str] | Cluster,
    threads: int | None,
) -> None:
    """Have the work of the dispatcher done by workers."""
    gradients = [task.record.gradient for task in tasks if task.record.gradient is not None]
    ways = {way for way in (None, *BACKWARD) if any((way or "own") in gradient.ways for gradient in gradients)}
    probe = ModelProbe.of(ready.model, ready.identity, ready.work.rows.shape[1:], ways)
    workload = ModelWork(ready.model, probe, Doer(ready.model, tuple(tasks), ready.manner).do)
    share_jobs(workload, f"The model {ready.model.name}", places, threads, dispatcher)


@contextmanager
def _enough_memory(ready: Prepared) -> Iterator[None]:
    """What is done inside gets a sentence where memory runs out."""
    try:
        yield
    except Exception as error:
        if not ran_out(error):
            raise
        size, halves = ready.at_once, ready.manner.halves
        fewer = size > 1 and not halves
        advice = f"a batch size of {size // 2}" if fewer else "a smaller network, or on another device"
        raise UserError(
            f"{ready.model.device} ran out of memory with {counted(1 if halves else size, 'sample')} at work at once; "
            f"run the same again with {advice}. Finished parts of the run are kept."
        ) from error


def _rejections(result: Result, attack: Attack) -> str | None:
    """A sentence where verification refused more of what a search took for examples than it confirmed."""
    outcome = result.outcome(attack.name)
    found = int(np.isfinite(outcome.minimal_size[result.clean]).sum())
    if outcome.rejected <= found:
        return None
    return (
        f"Verification rejected {outcome.rejected} candidates of {attack.name!r} ({found} samples have a confirmed "
        "example): they lie outside of [0, 1] or are classified correctly when looked at again, so the robust "
        "accuracies under it may be too high."
    )
