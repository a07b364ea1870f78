"""What a run is about: the model by its weights, its code and its logits on a few drawn images, and the data."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from robustatlas.bundle import per_sample
from robustatlas.classifier import Classifier, Origin, seeded
from robustatlas.errors import UserError
from robustatlas.noise import Noise
from robustatlas.outcomes import DataRecord, Identity, ModelRecord
from robustatlas.outcomes.records import now


def identity_of(model: Classifier, shape: Sequence[int], data: DataRecord) -> Identity:
    """Of a run of ``model`` on ``data``, whose inputs have the ``shape`` (without the batch)."""
    return Identity(model=model_record(model, shape), data=data, created=now())


def model_record(model: Classifier, shape: Sequence[int]) -> ModelRecord:
    """The model, with its logits of a few drawn images, from bright to dark."""
    index = torch.arange(8)
    drawn = Noise.of(0, index, "probe").uniform(*shape)
    images = (drawn ** per_sample(2.0 ** (index - 3.5), drawn)).to(model.device, model.dtype)
    with torch.no_grad(), seeded(0, model.device):
        logits = model.logits(images, verifying=True)
    known, origin = model.identity(), model.origin or Origin("")
    return ModelRecord(
        name=model.name,
        source=known.source or "",
        weights_sha256=known.weights_sha256,
        code_sha256=known.code_sha256,
        probe=tuple(tuple(row) for row in logits.double().cpu().tolist()),
        licence=origin.licence,
        home=origin.home,
        library=origin.library,
    )


def check_same(model: Classifier, shape: Sequence[int], identity: Identity) -> None:
    """Raise :class:`UserError` where ``model``, in another process, is not that of the run."""
    if differences := identity.model.differences(model_record(model, shape)):
        raise UserError(
            f"The model that reached a worker on {model.device} is not the one of this process: "
            f"{'; '.join(differences)}. Is it another version of its file there, or is that device broken?"
        )
