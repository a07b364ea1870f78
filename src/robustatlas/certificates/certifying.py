"""The certification of a request: what the run lacks is computed, and read back as a result."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from robustatlas.attacks.definition import Attack, Effort
from robustatlas.certificates import CERTIFICATES, Certificate, Subject, certificate_named
from robustatlas.certificates.agreement import check_known
from robustatlas.certificates.balls import BallCertificate
from robustatlas.certificates.base import is_ball, norm_of
from robustatlas.certificates.task import LARGEST_BATCH, CertificateTask, certificate_record
from robustatlas.checks.sanity import check_classes, check_model
from robustatlas.common.errors import UserError
from robustatlas.common.wording import join_words
from robustatlas.evaluation.attack_choice import choose_attacks
from robustatlas.evaluation.chunks import Chunk, ChunkSettings
from robustatlas.evaluation.completion import PreparedTasks, complete, show_warning
from robustatlas.evaluation.cores import choose_cores
from robustatlas.evaluation.forecast import Expected, Forecast
from robustatlas.evaluation.identity import check_answers, run_identity
from robustatlas.evaluation.preparation import DEFAULT_BATCH, Model, evaluation_context, open_model
from robustatlas.evaluation.request import Data, Request
from robustatlas.outcomes import Run
from robustatlas.outcomes.certified import CrossedError
from robustatlas.outcomes.outcome import Integers
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
    covered = join_words(["linf", "l2", "l1", "brightness", "contrast", "saturation", "hue"])
    raise UserError(
        f"No certificate covers {attack.name!r} of {subject.model.name}; there are such for {covered}, and for l0 of "
        "linear networks. Leave it out, or look at what attacks find."
    )


Methods = Method | Mapping[str, str | Certificate]

_TRIED_SAMPLES = 8
"""Samples that a forecast certifies at first, and the factor by which it takes more while that takes no second."""
_LONGEST_TRIAL = 30.0
"""Seconds of one sample above which a forecast gives an upper bound instead of a trial."""
_BYTES_PER_SAMPLE = 24
"""Bytes per certified sample on disk."""
_UNIT_SECONDS = 0.1
"""Seconds of a certified sample that are assumed before any is measured."""


@dataclass(frozen=True)
class PreparedCertificates(PreparedTasks):
    """Certificates on chosen samples that have passed the checks; ``seconds`` is what the preparation took."""

    tasks: Sequence[CertificateTask]
    subject: Subject
    seconds: float


def certify_request(model: Model, data: Data, request: Request, method: Methods = None) -> Result:
    """Certify a model, as :func:`robustatlas.certify` does, on a request."""
    with _prepare(model, data, request, method) as ready:
        for warning in ready.warnings:
            show_warning(ready.display, warning)
        run = request.begin_run(ready.identity)
        check_answers(ready.model, run, ready.samples)
        for task in ready.tasks:
            run.certificates.add(task.record)
        with request.lock_part(run, ready.display.note), _withdrawing_crossed_sizes(run, ready):
            complete(run, run.certificates, ready, request, {None})
        mine = ready.samples.index[request.part_mask(len(ready.samples.index))]
    return Result.from_certificates(run, [task.record.name for task in ready.tasks], mine)


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
        run, samples = request.open_run(ready.identity), ready.samples
        mine, expected = request.part_mask(len(samples.index)), []
        for task in ready.tasks:
            missing = np.flatnonzero(mine & ~np.isin(samples.index, run.certificates.stored_samples(task.record)))
            if len(missing):
                expected.append(_try_samples(ready, task, missing))
        workers = request.worker_count(ready.model)
    return Forecast(tuple(expected), workers, ready.settings.batch_size, ready.seconds if expected else 0.0)


@contextmanager
def _prepare(model: Model, data: Data, request: Request, method: Methods) -> Iterator[PreparedCertificates]:
    """Choose the certificates, check them against the model and the data, and yield them where they are computed."""
    classifier, samples = open_model(model, data, request)
    cores = request.cores or choose_cores(classifier, samples.rows)
    with cores.limit_threads(), evaluation_context(classifier, request) as display:
        begun = time.perf_counter()
        warnings = check_model(classifier, samples.rows, samples.labels)
        subject = Subject(classifier, tuple(samples.rows.shape[1:]), request.seed)
        plain = replace(request, protocol="default", effort="default", pixels="any", border=None)
        attacks = choose_attacks(plain, classifier, samples.first.images)
        tasks = []
        for attack in attacks:
            attack.threat.check(samples.rows[:1].to(classifier.device, classifier.dtype))
            certificate = certificate_for(attack, method, subject, request)
            record = certificate_record(attack, certificate, request.seed)
            tasks.append(CertificateTask(attack, certificate, record, subject))
        size = request.batch_size if isinstance(request.batch_size, int) else DEFAULT_BATCH
        check_known(subject, attacks, samples, size)
        settings = ChunkSettings(request.seed, min(size, len(samples.labels)))
        identity = run_identity(classifier, samples.rows.shape[1:], samples.record)
        for warning in check_classes(samples.labels, samples.classes, classifier, drawn=request.is_number_of_samples):
            show_warning(display, warning)
        seconds = time.perf_counter() - begun
        yield PreparedCertificates(
            classifier, samples, tasks, identity, warnings, settings, display, _UNIT_SECONDS, subject, seconds
        )


@contextmanager
def _withdrawing_crossed_sizes(run: Run, ready: PreparedCertificates) -> Iterator[None]:
    """Remove all sizes that were read of the network from the run if an example is found within one of them."""
    try:
        yield
    except CrossedError:
        for task in ready.tasks:
            if task.certificate.own_model:
                run.certificates.withdraw(task.record)
        raise


def _try_samples(ready: PreparedCertificates, task: CertificateTask, missing: Integers) -> Expected:
    """Return what a task will take, from a few samples spread over those that are missing."""
    first, _ = Chunk.cut(ready.samples, missing[:1]).inputs(ready.model)
    most = task.certificate.seconds_at_most(ready.subject, task.attack, first)
    count, seconds = 0, 0.0
    while most < _LONGEST_TRIAL and count < min(LARGEST_BATCH, len(missing)) and seconds < 1:
        count = min(len(missing), max(_TRIED_SAMPLES, count * _TRIED_SAMPLES))
        chosen = np.unique(missing[np.linspace(0, len(missing) - 1, count).round().astype(np.int64)])
        begun = time.perf_counter()
        task.run(ready.model, Chunk.cut(ready.samples, chosen), ready.settings, lambda finished: None)
        seconds = time.perf_counter() - begun
    each = seconds / count if count else most
    return Expected(
        task.record.name,
        len(missing),
        seconds=each * len(missing),
        bytes=_BYTES_PER_SAMPLE * len(missing),
        is_upper_bound=not count,
    )
