"""Certification of what a request asks for: what the run lacks is worked through, and read back as a result."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from robustatlas.attacks.definition import Attack, Effort
from robustatlas.certificates import CERTIFICATES, Certificate, Subject, certificate_named
from robustatlas.certificates.agreement import check_known
from robustatlas.certificates.balls import BallCertificate
from robustatlas.certificates.base import is_ball, norm_of
from robustatlas.certificates.work import LARGEST_BATCH, Certification, certify_job, inputs, record_of, run_job
from robustatlas.checks.sanity import check_classes, check_model
from robustatlas.common.errors import UserError
from robustatlas.common.wording import listed
from robustatlas.evaluation.cores import cores_for
from robustatlas.evaluation.costs import Costs
from robustatlas.evaluation.dispatcher import Dispatcher
from robustatlas.evaluation.forecast import Expected, Forecast
from robustatlas.evaluation.identity import ModelProbe, check_answers, identity_of
from robustatlas.evaluation.plan import Data, Work, chosen_attacks
from robustatlas.evaluation.prepared import DEFAULT_BATCH, Model, given, surroundings, tell
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.work import Job, Manner, ModelWork
from robustatlas.evaluation.workers import run_jobs, share_jobs
from robustatlas.outcomes import Identity, Run
from robustatlas.outcomes.certified import CrossedError
from robustatlas.results.result import Result
from robustatlas.threats.color import Line

Method = str | Certificate | None

_BY_EFFORT: dict[Effort, str] = {"low": "interval", "default": "crown", "high": "beta-crown"}


def certificate_for(
    attack: Attack, method: Method | Mapping[str, str | Certificate], subject: Subject, request: Request
) -> Certificate:
    """Return the certificate of an attack, checked against the model; at the strengths alone that are asked for."""
    given = method.get(attack.name) if isinstance(method, Mapping) else method
    if given is None:
        chosen = _default_certificate(attack, subject, request.effort)
    elif isinstance(given, str):
        chosen = certificate_named(given)
    elif isinstance(given, Certificate):
        chosen = given
    else:
        raise UserError(
            f"method is a {type(given).__name__}; expected a name ({', '.join(CERTIFICATES)}), a Certificate, or one "
            "of these for each attack."
        )
    if attack.name in (request.strengths or {}) and isinstance(chosen, BallCertificate):
        chosen = replace(chosen, strengths=attack.strengths)
    chosen.check(subject, attack)
    return chosen


def _default_certificate(attack: Attack, subject: Subject, effort: Effort) -> Certificate:
    if isinstance(attack.threat, Line):
        return certificate_named("line")
    if norm_of(attack) is not None and subject.network.graph.is_affine:
        return certificate_named("linear")
    if is_ball(attack):
        return certificate_named(_BY_EFFORT[effort])
    covered = listed(["linf", "l2", "l1", "brightness", "contrast", "saturation", "hue"])
    raise UserError(
        f"No certificate covers {attack.name!r} of {subject.model.name}; there are such for {covered}, and for l0 of "
        "linear networks. Leave it out, or look at what attacks find."
    )


Methods = Method | Mapping[str, str | Certificate]

_TRIED = 8
"""Samples that a forecast certifies at first, and by how many times more where that takes no second."""
_PATIENCE = 30.0
"""Seconds of one sample above which a forecast says how long it takes at most instead of trying."""
_BYTES = 24
"""Bytes of a certified sample on disk."""


@dataclass(frozen=True)
class _Ready:
    subject: Subject
    work: Work
    tasks: Sequence[Certification]
    identity: Identity
    manner: Manner
    display: Progress
    seconds: float
    warnings: Sequence[str]


def certified(model: Model, data: Data, request: Request, method: Methods = None) -> Result:
    """:func:`robustatlas.certify`, of a request."""
    with _prepare(model, data, request, method) as ready:
        for warning in ready.warnings:
            tell(ready.display, warning)
        run = request.begin(ready.identity)
        check_answers(ready.subject.model, run, ready.work)
        for task in ready.tasks:
            run.certificates.add(task.record)
        with request.lock_part(run, ready.display.note):
            whole = False
            while not whole:
                dispatcher = _dispatcher(run, ready, request)
                if dispatcher.lacking:
                    with _withdrawn_if_wrong(run, ready):
                        _work_through(dispatcher, ready, request)
                else:
                    ready.display.note(f"Nothing to do: {run.path or 'the run'} has all of it.")
                whole = run.certificates.intact(task.record for task in ready.tasks)
        mine = ready.work.index[request.mine(len(ready.work.index))]
    return Result.of_certificates(run, [task.record.name for task in ready.tasks], mine)


def forecast(model: Model, data: Data, request: Request, method: Methods = None) -> Forecast:
    """Say what :func:`robustatlas.certify` would do with a request, and how long it would take here.

    Each attack is tried on some samples that the run lacks; nothing is written.

    Args:
        model: as of :func:`robustatlas.certify`.
        data: as of :func:`robustatlas.certify`.
        request: its other arguments.
        method: as of :func:`robustatlas.certify`.

    Returns:
        seconds and bytes on disk, attack by attack.

    Raises:
        UserError: as :func:`robustatlas.certify`.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> forecast(model, data, Request(attacks="linf", samples=4, effort="low", progress=False)).expected[0].number
        4
    """
    with _prepare(model, data, request, method) as ready:
        run = request.begun(ready.identity)
        mine, tried = request.mine(len(ready.work.index)), []
        for task in ready.tasks:
            missing = np.flatnonzero(mine & ~np.isin(ready.work.index, run.certificates.done(task.record)))
            if len(missing):
                tried.append(_try_samples(ready, task, missing))
        workers = request.worker_count(ready.subject.model)
    return Forecast(tuple(tried), workers, ready.manner.batch_size, ready.seconds if tried else 0.0)


@contextmanager
def _prepare(model: Model, data: Data, request: Request, method: Methods) -> Iterator[_Ready]:
    classifier, work = given(model, data, request)
    cores = request.cores or cores_for(classifier, work.rows)
    with cores.used(), surroundings(classifier, request) as display:
        begun = time.perf_counter()
        warnings = check_model(classifier, work.rows, work.labels)
        subject = Subject(classifier, tuple(work.rows.shape[1:]), request.seed)
        plain = replace(request, protocol="default", effort="default", pixels="any", border=None)
        attacks = chosen_attacks(plain, classifier, work.first.images)
        tasks = []
        for attack in attacks:
            attack.threat.check(work.rows[:1].to(classifier.device, classifier.dtype))
            certificate = certificate_for(attack, method, subject, request)
            tasks.append(Certification(attack, certificate, record_of(attack, certificate, request.seed)))
        size = request.batch_size if isinstance(request.batch_size, int) else DEFAULT_BATCH
        check_known(subject, attacks, work, size)
        manner = Manner(request.seed, min(size, len(work.labels)))
        identity = identity_of(classifier, work.rows.shape[1:], work.record)
        for warning in check_classes(work.labels, work.classes, classifier, drawn=request.by_number):
            tell(display, warning)
        yield _Ready(subject, work, tasks, identity, manner, display, time.perf_counter() - begun, warnings)


def _dispatcher(run: Run, ready: _Ready, request: Request) -> Dispatcher:
    return Dispatcher(
        run.certificates,
        ready.tasks,
        ready.work,
        request.mine(len(ready.work.index)),
        ready.manner,
        Costs([1.0] * len(ready.tasks), 0.1),
        request.shard_size,
        request.worker_count(ready.subject.model),
        ready.display,
    )


def _work_through(dispatcher: Dispatcher, ready: _Ready, request: Request) -> None:
    """Have the work of the dispatcher done: by this process where no others are asked for."""
    model = ready.subject.model
    places = request.places(model)
    if not places:
        run_jobs(partial(run_job, ready.subject, ready.tasks, ready.manner), dispatcher)
        return
    unread = Subject(model, ready.subject.shape, ready.manner.seed)
    there = partial(run_job, unread, tuple(ready.tasks), ready.manner)
    probe = ModelProbe.of(model, ready.identity, unread.shape, {None})
    share_jobs(ModelWork(model, probe, there), f"The model {model.name}", places, None, dispatcher)


@contextmanager
def _withdrawn_if_wrong(run: Run, ready: _Ready) -> Iterator[None]:
    """Remove all that was read of the network from the run where an example is found within a certified size."""
    try:
        yield
    except CrossedError:
        for task in ready.tasks:
            if task.certificate.own_model:
                run.certificates.withdraw(task.record)
        raise


def _try_samples(ready: _Ready, task: Certification, missing: NDArray[np.int64]) -> Expected:
    """Return what a task will take, from a few samples spread over those that are missing."""
    first = inputs(ready.subject.model, Job.of(ready.work, missing[:1]))
    most = task.certificate.seconds_at_most(ready.subject, task.attack, first)
    count, seconds = 0, 0.0
    while most < _PATIENCE and count < min(LARGEST_BATCH, len(missing)) and seconds < 1:
        count = min(len(missing), max(_TRIED, count * _TRIED))
        chosen = np.unique(missing[np.linspace(0, len(missing) - 1, count).round().astype(np.int64)])
        begun = time.perf_counter()
        certify_job(ready.subject, task, Job.of(ready.work, chosen), ready.manner, lambda through: None)
        seconds = time.perf_counter() - begun
    each = seconds / count if count else most
    total = each * len(missing)
    return Expected(task.record.name, len(missing), 0.0, total, _BYTES * len(missing), at_most=not count)
