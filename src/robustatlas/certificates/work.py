"""The work of certifying: one certificate on some samples, by whoever does it and wherever."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.description import to_plain_data
from robustatlas.certificates import Certificate, Samples, Subject
from robustatlas.certificates.crossing import crossing
from robustatlas.data import as_inputs
from robustatlas.evaluation.work import Arrays, Found, Job, Manner
from robustatlas.evaluation.workers.memory import hand_back
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.objectives import margin_of
from robustatlas.outcomes.certified import CertificateRecord, CertifiedSizes, check_sides
from robustatlas.outcomes.circumstances import circumstances

LARGEST_BATCH = 64
"""Samples whose bounds are computed together, at most; more of them are not faster."""


@dataclass(frozen=True)
class Certification:
    """One certificate of one attack's threat model, as a run records it."""

    attack: Attack
    certificate: Certificate
    record: CertificateRecord

    told: ClassVar[tuple[str, ...]] = ("certified_size", "seconds")
    """Columns that are read of what a run has already."""
    held: ClassVar[int] = 8
    """Inputs that a sample takes the memory of."""


def record_of(attack: Attack, certificate: Certificate, seed: int) -> CertificateRecord:
    """Return the record of a certificate: all that determines its sizes, and what a reader wants to know of it."""
    settings = to_plain_data(certificate)
    return CertificateRecord(
        name=attack.name,
        method=certificate.name,
        version=certificate.version,
        settings=settings if certificate.own_model else {**settings, "seed": seed},
        threat=to_plain_data(attack.threat),
        of="" if certificate.own_model else certificate.certifies,
        strengths=attack.strengths,
        unit=attack.about.unit,
        source=certificate.source,
    )


def certify_job(
    subject: Subject, task: Certification, job: Job, manner: Manner, report: Callable[[int], None]
) -> Found:
    """Certify the samples of a job; ``report`` is called with how many are through."""
    begun = time.perf_counter()
    model = subject.model
    x = inputs(model, job)
    labels = job.labels.to(model.device)
    samples = _samples(model, x, labels, job.index, manner.batch_size)
    right = torch.from_numpy(samples["clean_prediction"] == samples["label"])
    sizes = torch.zeros(len(job.index), dtype=torch.float64)
    rows = (right if task.certificate.own_model else torch.ones_like(right)).nonzero().squeeze(1)
    with seeded(manner.seed, model.device):
        for some in torch.split(rows, min(manner.batch_size, LARGEST_BATCH)):
            if len(some):
                at = some.to(model.device)
                given = Samples(x[at].double(), labels[at], torch.from_numpy(job.index)[some])
                with torch.no_grad():
                    sizes[some] = task.certificate.sizes(subject, task.attack, given)
                if task.certificate.own_model:
                    _try_out(subject, task, given, sizes[some])
                report(int(some[-1]) + 1)
    seconds = time.perf_counter() - begun
    certain = sizes.nan_to_num(nan=0.0, posinf=torch.inf).numpy()
    columns: Arrays = {"index": job.index, "certified_size": certain}
    columns["seconds"] = np.full(len(job.index), seconds / len(job.index))
    columns["abstained"] = sizes.isnan().numpy().astype(np.int8)
    about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
    return Found(columns, samples, None, about, seconds, manner.batch_size)


def _try_out(subject: Subject, task: Certification, samples: Samples, sizes: Tensor) -> None:
    """Raise :class:`UserError` where an input within a certified size is misclassified."""
    name, found = subject.model.name, crossing(subject.model, task.attack, samples, sizes, subject.seed)
    certified = CertifiedSizes(task.attack.name, sizes.numpy(), (task.record.method,))
    below = np.minimum(found.numpy(), np.nextafter(certified.sizes, 0))  # the set of the very size is certified too
    check_sides(name, task.attack.name, samples.index.numpy(), certified, np.where(found < torch.inf, below, np.inf))


def inputs(model: Classifier, job: Job) -> Tensor:
    """Return the inputs [B, ...] of the model for the samples of a job."""
    return as_inputs(job.stored.to(model.device)).to(model.dtype)


def _samples(model: Classifier, x: torch.Tensor, labels: torch.Tensor, index: NDArray[np.int64], batch: int) -> Arrays:
    """Return the clean outcomes of samples, as attacks record them."""
    predicted, margins = [], []
    for part, truth in zip(torch.split(x, batch), torch.split(labels, batch), strict=True):
        with torch.no_grad():
            logits = model.logits(part, verifying=True)
        predicted.append(logits.argmax(1))
        margins.append(margin_of(logits.softmax(1), truth).float())
    return {
        "index": index,
        "label": labels.cpu().numpy(),
        "clean_prediction": torch.cat(predicted).cpu().numpy(),
        "clean_margin": torch.cat(margins).cpu().numpy(),
    }


def run_job(
    subject: Subject, tasks: Sequence[Certification], manner: Manner, job: Job, report: Callable[[int], None]
) -> Found:
    """Do a job of some certifications; the network is read once for all."""
    found = certify_job(subject, tasks[job.task], job, manner, report)
    hand_back()
    return found
