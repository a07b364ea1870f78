"""The task of a certificate: it certifies the samples of a chunk and returns the rows of the run."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.description import to_plain_data
from robustatlas.certificates import Certificate, Samples, Subject
from robustatlas.certificates.crossing import crossing
from robustatlas.evaluation.chunks import Chunk, ChunkResult, ChunkSettings, Columns, Report, Task
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.objectives import margin_of
from robustatlas.outcomes.certified import CertificateRecord, CertifiedSizes, check_sides
from robustatlas.outcomes.identity import circumstances
from robustatlas.outcomes.outcome import Integers

LARGEST_BATCH = 64
"""Samples whose bounds are computed together, at most; larger batches are not faster."""


@dataclass(frozen=True)
class CertificateTask(Task):
    """One certificate of one attack's threat model.

    Attributes:
        attack: the attack, bound to the model and the data.
        certificate: method that certifies.
        record: record that determines the sizes.
        subject: the model to certify; all tasks of a run share it, so its network is read once.
    """

    attack: Attack
    certificate: Certificate
    record: CertificateRecord
    subject: Subject

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """Columns that the progress bar needs of stored rows."""
        return ("certified_size", "seconds")

    @property
    def inputs_per_sample(self) -> int:
        """Number of inputs whose memory one sample takes, about."""
        return 8

    def cost_weight(self, classes: int) -> float:
        """Return 1: nothing is known of the cost of bounds before some are computed."""
        return 1.0

    def run(self, model: Classifier, chunk: Chunk, settings: ChunkSettings, report: Report) -> ChunkResult:
        """Certify the samples of a chunk; ``model`` is that of the subject."""
        begun = time.perf_counter()
        x, labels = chunk.inputs(model)
        samples = _clean_columns(model, x, labels, chunk.index, settings.batch_size)
        right = torch.from_numpy(samples["clean_prediction"] == samples["label"])
        sizes = torch.zeros(len(chunk.index), dtype=torch.float64)
        rows = (right if self.certificate.own_model else torch.ones_like(right)).nonzero().squeeze(1)
        with seeded(settings.seed, model.device):
            for some in torch.split(rows, min(settings.batch_size, LARGEST_BATCH)):
                if len(some):
                    at = some.to(model.device)
                    given = Samples(x[at].double(), labels[at], torch.from_numpy(chunk.index)[some])
                    with torch.no_grad():
                        sizes[some] = self.certificate.sizes(self.subject, self.attack, given)
                    if self.certificate.own_model:
                        self._try_to_cross(given, sizes[some])
                    report(int(some[-1]) + 1)
        seconds = time.perf_counter() - begun
        columns: Columns = {
            "index": chunk.index,
            "certified_size": sizes.nan_to_num(nan=0.0, posinf=torch.inf).numpy(),
            "seconds": np.full(len(chunk.index), seconds / len(chunk.index)),
            "abstained": sizes.isnan().numpy().astype(np.int8),
        }
        about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
        return ChunkResult(columns, samples, None, about, seconds, settings.batch_size)

    def _try_to_cross(self, samples: Samples, sizes: Tensor) -> None:
        """Raise :class:`UserError` if an input within a certified size is misclassified."""
        model, name = self.subject.model, self.attack.name
        found = crossing(model, self.attack, samples, sizes, self.subject.seed)
        certified = CertifiedSizes(name, sizes.numpy(), (self.record.method,))
        below = np.minimum(found.numpy(), np.nextafter(certified.sizes, 0))  # the ball of the size itself is certified
        crossed = np.where(found < torch.inf, below, np.inf)
        check_sides(model.name, name, samples.index.numpy(), certified, crossed)


def certificate_record(attack: Attack, certificate: Certificate, seed: int) -> CertificateRecord:
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


def _clean_columns(model: Classifier, x: Tensor, labels: Tensor, index: Integers, batch: int) -> Columns:
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
