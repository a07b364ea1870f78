"""Stored certificates, looked at again: whether each size that a run holds is certain by its method here and now."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.description import to_plain_data
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.agreement import check_known
from robustatlas.certificates.crossing import crossing
from robustatlas.certificates.task import LARGEST_BATCH
from robustatlas.common.errors import UserError
from robustatlas.common.wording import pluralise
from robustatlas.data import Dataset, load_dataset
from robustatlas.evaluation.identity import check_answers, run_identity
from robustatlas.evaluation.preparation import DEFAULT_BATCH
from robustatlas.evaluation.samples import ChosenSamples, choose_samples
from robustatlas.evaluation.verification.asked import load_run_model
from robustatlas.models.classifier import Classifier, undisturbed
from robustatlas.outcomes import Run
from robustatlas.outcomes.certified import CertificateRecord
from robustatlas.outcomes.comparable import find_rows
from robustatlas.outcomes.outcome import Integers


@dataclass(frozen=True, eq=False)
class Rechecked:
    """The sizes of one method, computed again.

    Attributes:
        record: the method, as the run holds it.
        samples: positions in the data set of those that were looked at again.
        failed: those among them whose size is not certain by the method here.
    """

    record: CertificateRecord
    samples: Integers
    failed: Integers

    @property
    def holds(self) -> bool:
        """Return if all sizes are certain."""
        return not len(self.failed)

    def __str__(self) -> str:
        said = f"{self.record.row}, {self.record.method}, version {self.record.version}: "
        if self.holds:
            return f"{said}all sizes of {pluralise(len(self.samples), 'sample')} hold"
        return (
            f"{said}{len(self.failed)} of {pluralise(len(self.samples), 'size')} do not hold, the first of sample "
            + (f"{self.failed[0]}")
        )


def recheck(
    run: str | Path,
    *,
    model: Classifier | nn.Module | Callable[[Tensor], Any] | str | None = None,
    data: Dataset | tuple[Any, Any] | str | None = None,
    samples: int | None = None,
) -> tuple[Rechecked, ...]:
    """Compute again, for each certificate of a run, whether its sizes are certain.

    Args:
        run: its directory.
        model: default: the one that the run names. Must be the run's.
        data: default: the data set that the run names. Must be the run's.
        samples: the first so many of each certificate; None: all.

    Returns:
        for each method and attack of the run which sizes hold.

    Raises:
        UserError: no such run, nothing certified in it, another model or data than the run's, an attack or a method
            that is not known here, or a network that is read otherwise than it runs.

    Example:
        >>> import tempfile, robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-ibp"), ra.load_dataset("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.certify(model, data, "linf", samples=3, effort="low", run=f"{folder}/run", progress=False)
        ...     print(*recheck(f"{folder}/run"))
        linf, interval, version 1: all sizes of 3 samples hold
    """
    store = Run.open(run)
    records = store.certificate_records()
    if not records:
        raise UserError(f"{store.path or 'The run'} holds no certificates; 'robustatlas certify' makes them.")
    source = store.identity.data.name if data is None else data
    with undisturbed():
        classifier = load_run_model(store, model)
        work = choose_samples(load_dataset(source) if isinstance(source, str) else source, None)
        with classifier.evaluating():
            if differences := store.identity.differences(run_identity(classifier, work.rows.shape[1:], work.record)):
                raise UserError(f"The certificates of {store.path} cannot be checked: {'; '.join(differences)}.")
            check_answers(classifier, store, work)
            return tuple(_rechecked(store, record, classifier, work, samples) for record in records)


def _rechecked(
    store: Run, record: CertificateRecord, model: Classifier, work: ChosenSamples, most: int | None
) -> Rechecked:
    index = store.certificates.stored_samples(record)[:most]
    settings = {name: value for name, value in record.settings.items() if name not in ("kind", "version", "seed")}
    certificate = certificate_named(record.method, **settings)
    attack = _attack(record, work.first.images, model)
    subject = Subject(model, tuple(work.rows.shape[1:]), int(str(record.settings.get("seed", 0))))
    certificate.check(subject, attack)
    check_known(subject, [attack], work, DEFAULT_BATCH)
    sizes = torch.from_numpy(store.certificates.columns(record, index)["certified_size"])
    held = sizes == 0  # of which nothing is said
    for some in torch.split((~held).nonzero().squeeze(1), LARGEST_BATCH):
        if len(some):
            x, labels = work.load(model, torch.from_numpy(find_rows(work.index, index[some.numpy()])))
            samples = Samples(x.double(), labels, torch.from_numpy(index)[some])
            with torch.no_grad():
                held[some] = certificate.holds(subject, attack, samples, sizes[some])
            if certificate.own_model:
                held[some] &= crossing(model, attack, samples, sizes[some], subject.seed).isinf()
    return Rechecked(record, index, index[~held.numpy()])


def _attack(record: CertificateRecord, first: Tensor, model: Classifier) -> Attack:
    """Return the attack whose threat model was certified, as the catalogue has it now."""
    attack = attack_named(record.name)
    threat = attack.threat.for_data(first).for_model(model)
    told = CertificateRecord(name=record.name, method=record.method, threat=to_plain_data(threat))
    if told.threat != record.threat:
        raise UserError(f"The threat model of {record.name!r} is not the one that was certified.")
    return replace(attack, threat=threat, strengths=record.strengths or attack.strengths)
